"""The bundled clips as samples, alone and in minutes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import soundfile

from whisper_hailo.audio.log_mel import pad_or_trim
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.clip_archives import unpack_clips

CLIPS = unpack_clips()


def clips(folder: str, n_clips: int) -> Iterator[tuple[FloatArray, str]]:
    """Samples and text of a test set's first clips."""
    for path in sorted((CLIPS / folder).glob("*.ogg"))[:n_clips]:
        audio, rate_hz = soundfile.read(path, dtype="float32")
        assert rate_hz == SAMPLE_RATE_HZ
        yield audio, path.with_suffix(".txt").read_text(encoding="utf-8").strip()


def window(folder: str, number: int) -> FloatArray:
    """One clip, filled up with silence to 30 s."""
    *_, (audio, _) = clips(folder, number + 1)
    return pad_or_trim(audio, 30 * SAMPLE_RATE_HZ)


def minutes(duration_s: float) -> FloatArray:
    """Speech: five and a half minutes of clips of equal loudness with pauses, again and again."""
    n_left = round(duration_s * SAMPLE_RATE_HZ)
    pause = np.zeros(round(0.4 * SAMPLE_RATE_HZ), np.float32)
    parts = []
    while n_left > 0:
        for audio, _ in clips("seen", 60):
            part = np.concatenate([0.5 * audio / abs(audio).max(), pause])[:n_left]
            parts.append(part)
            n_left -= part.size
            if n_left == 0:
                break
    return np.concatenate(parts).astype(np.float32)
