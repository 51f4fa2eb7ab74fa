"""Silence of a chip beside that of the CPU, with whose keys the decoder pads windows.

The silence keys of a model directory come from its own encoder, in windows of 30 s. Keys that are
made of a chip's silence, or moved to it, cost words (docs/hailo-device.md). So the keys stay, and
where a constant error moves a chip's silence far away from the CPU's, its features are moved back.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.backends.hailo.feature_match import match_features
from whisper_hailo.backends.hailo.kept_answers import keep_answer, read_answers
from whisper_hailo.backends.model_files import content_sha256
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.silence import bundled_clips, silence_after_speech
from whisper_hailo.core.protocols import Encoder
from whisper_hailo.core.spec import ENCODER_FILE, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode
from whisper_hailo.core.types import FloatArray

logger = logging.getLogger(__name__)

NEAR_DB: Final = 9.0
"""Silence that is nearer to the CPU's leaves features alone: emulated tiny.en and base have 14 dB,
of which the mean is no bias of speech. A bias of 7 dB costs base six points of words
(docs/hailo-device.md)."""


@dataclass(frozen=True, slots=True)
class SilenceMatch:
    """How well an encoder's features of the silence behind speech match those of the CPU.

    Attributes:
        snr_db: signal-to-noise ratio; the CPU's features are the signal.
        shift: `(d_model,)` mean difference to the CPU's features; empty if they are near, or differ
            by more than a constant.
    """

    snr_db: float
    shift: tuple[float, ...] = ()

    def describe(self) -> str:
        """Return the comparison in one line."""
        verdict = ", whose bias is taken away" if self.shift else ""
        return f"silence {self.snr_db:.1f} dB{verdict}"

    def bias(self, name: str) -> FloatArray | None:
        """Return what to take away from the features of an encoder of this name, if anything."""
        if not self.shift:
            return None
        logger.info(
            "features of %s are corrected by the bias of its silence, %.1f dB to the CPU's",
            name,
            self.snr_db,
        )
        return np.array(self.shift, np.float32)


def match_silence(encoder: Encoder, cpu: Encoder) -> SilenceMatch:
    """Compare the silence behind the bundled clips; both encoders are open, one has a window."""
    silent: list[FloatArray] = []
    silent_cpu: list[FloatArray] = []
    n_frames = encoder.n_frames or encoder.spec.dims.max_frames
    for clip in bundled_clips():
        audio, first_silent = silence_after_speech(clip, n_frames)
        mel = log_mel(audio, encoder.spec.dims.n_mels)[np.newaxis]
        silent.append(encoder.encode(mel)[0, first_silent:])
        silent_cpu.append(cpu.encode(mel)[0, first_silent:])
    features = np.concatenate(silent)
    reference = np.concatenate(silent_cpu)
    snr_db = match_features(features, reference).snr_db
    if snr_db >= NEAR_DB:
        return SilenceMatch(snr_db)
    difference = (features - reference).mean(axis=0)
    if match_features(features - difference, reference).snr_db < NEAR_DB:
        return SilenceMatch(snr_db)  # noise
    return SilenceMatch(snr_db, tuple(difference.tolist()))


def emulated_bias(
    path: Path, encoder: Encoder, directory: Path, spec: ModelSpec, threads: int = 0
) -> FloatArray | None:
    """Return what to take away from an emulated chip's features; measured once for each graph.

    `path` is the graph of `encoder`, which is not open, and is closed again.
    """
    if ENCODER_FILE not in spec.files:
        return None
    graph_sha256 = spec.record(ENCODER_FILE).sha256
    key = f"silence {content_sha256(path)} {graph_sha256}"
    try:
        silence = decode(SilenceMatch, read_answers().get(key))
    except MismatchError:  # none, or a damaged one
        with encoder, OnnxEncoder(directory, spec, threads) as cpu:
            silence = match_silence(encoder, cpu)
        keep_answer(key, asdict(silence))
    return silence.bias(encoder.name)
