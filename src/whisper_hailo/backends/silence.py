"""Silence keys: the output of a checkpoint's own encoder for the silence behind speech.

A decoder hears a short window as if the rest of 30 s were silent. Zero rows in the place of that
silence park its attention where the model was never trained: real `base` then leaves clauses out,
repeats itself and takes German for Welsh (docs/accuracy.md).

A model directory keeps its keys. A change of how they are measured raises
`convert.model_cache.REVISION`, so that cached models are converted again, and `SPEC_VERSION` in
`core/spec.py` if the keys of earlier directories would be wrong with the new program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.backends.model_files import model_file
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.protocols import Encoder, SilenceKeys
from whisper_hailo.core.spec import SILENCE_FILE, ModelSpec
from whisper_hailo.core.types import (
    FRAMES_PER_POSITION,
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    FloatArray,
)

N_KEYS: Final = 16
"""Rows of silence in every window: docs/decoding.md has the error rates with them."""

CLIPS: Final = Path(__file__).parent.parent / "assets" / "silence"
"""Two people, an English and a German sentence; their licences are beside them."""

_POSITIONS_PER_SECOND: Final = FRAMES_PER_SECOND / FRAMES_PER_POSITION
_BEHIND_S: Final = 1.0
"""Positions nearer to the end of speech still hold traces of it."""

_N_ITERATIONS: Final = 20
"""Fixed, rather than until nothing moves: the same checkpoint always has the same keys."""


def load_silence_keys(directory: Path, spec: ModelSpec) -> SilenceKeys:
    """Read the silence keys of a model directory."""
    path = model_file(directory, spec, SILENCE_FILE)
    try:
        arrays = load_file(path)
        keys = SilenceKeys(arrays["features"], arrays["shares"])
    except (SafetensorError, KeyError) as error:
        raise ModelError(
            f"{display_path(path)} holds no silence keys ({error}); convert the checkpoint again"
        ) from error
    if keys.features.shape != (keys.shares.size, spec.dims.d_model):
        raise ModelError(
            f"{display_path(path)} has silence keys of shape {keys.features.shape}, expected "
            f"({keys.shares.size}, {spec.dims.d_model}); convert the checkpoint again"
        )
    return keys


def save_silence_keys(keys: SilenceKeys, path: Path) -> None:
    """Write silence keys as a safetensors file."""
    # Not `save_file`, whose files only their owner may read.
    path.write_bytes(save({"features": keys.features, "shares": keys.shares}))


def measure_silence_keys(encoder: Encoder) -> SilenceKeys:
    """Encode the bundled clips padded to the full context; cluster positions behind their speech.

    The encoder is open and takes windows of the full context. Clips are cut to half of it.
    """
    dims = encoder.spec.dims
    parts = []
    for clip in bundled_clips():
        audio, first_silent = silence_after_speech(clip, dims.max_frames)
        mel = log_mel(audio, dims.n_mels)
        features = encoder.encode(mel[np.newaxis])[0]
        parts.append(features[first_silent:])
    return cluster_positions(np.concatenate(parts), N_KEYS)


def silence_after_speech(clip: FloatArray, n_frames: int) -> tuple[FloatArray, int]:
    """Return a window that is silent behind a clip, and its first position without speech.

    The clip fills half of the window at most. The window is `(n_samples,)` float32 16 kHz mono.
    """
    n_samples = n_frames * SAMPLE_RATE_HZ // FRAMES_PER_SECOND
    window_s = n_frames / FRAMES_PER_SECOND
    speech = clip[: n_samples // 2]
    silence_s = speech.size / SAMPLE_RATE_HZ + min(_BEHIND_S, window_s / 4)
    first_silent = round(silence_s * _POSITIONS_PER_SECOND)
    return pad_or_trim(speech, n_samples), first_silent


def bundled_clips() -> list[FloatArray]:
    """Load the clips that conversions measure with, `(n_samples,)` float32 16 kHz mono."""
    return [load_audio(path) for path in sorted(CLIPS.glob("*.flac"))]


def cluster_positions(features: FloatArray, n_keys: int) -> SilenceKeys:
    """Cluster `(n, d_model)` features by k-means into at most `n_keys` centres with their shares.

    It starts with the means of equal runs of positions, so the result is always the same.
    """
    runs = np.array_split(features, min(n_keys, len(features)))
    centres = np.stack([run.mean(axis=0) for run in runs])
    sizes = np.array([len(run) for run in runs])
    for _ in range(_N_ITERATIONS):
        distances = (centres**2).sum(axis=1) - 2 * features @ centres.T
        nearest = distances.argmin(axis=1)
        sizes = np.bincount(nearest, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, features)
        is_used = sizes > 0  # centres that lost all their positions go
        sizes = sizes[is_used]
        centres = sums[is_used] / sizes[:, np.newaxis]
    shares = sizes / len(features)
    return SilenceKeys(centres.astype(np.float32), shares.astype(np.float32))


def with_silence_keys(features: FloatArray, silence: SilenceKeys | None) -> FloatArray:
    """Append the silence keys to every row: `(batch, n_audio_ctx + n_keys, d_model)`."""
    if silence is None:
        return features
    shape = (features.shape[0], *silence.features.shape)
    return np.concatenate([features, np.broadcast_to(silence.features, shape)], axis=1)
