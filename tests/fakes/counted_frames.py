"""Frames that say themselves how likely they are to be speech."""

from __future__ import annotations

import numpy as np

from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.segmenter import Segmenter

FRAME = 512
S = 0.9
Q = 0.4
N = 0.1
"""Speech; too quiet to begin and loud enough to go on; silence."""


class Told:
    """Each frame's first sample is how likely it is to be speech."""

    def reset(self) -> None:
        pass

    def probability(self, frame: FloatArray) -> float:
        return float(frame[0])


class Sure(Told):
    """Takes every frame for speech."""

    def probability(self, frame: FloatArray) -> float:
        return S


def frames(*probabilities: float) -> list[FloatArray]:
    return [np.full(FRAME, probability, np.float32) for probability in probabilities]


def segmenter(detector: Told | None = None, **options: float) -> Segmenter:
    """Three frames of silence end speech, two of speech begin it, and one before belongs to it."""
    defaults = {
        "vad_threshold": 0.5,
        "min_silence_s": 0.096,
        "min_speech_s": 0.064,
        "pre_roll_s": 0.032,
    }
    return Segmenter(detector or Told(), CaptionOptions(**{**defaults, **options}))  # type: ignore[arg-type]


def signals(cutter: Segmenter, *probabilities: float) -> str:
    """`S` where a segment starts, `E` where it ends (and is let go), else a dot."""
    told = ""
    for frame in frames(*probabilities):
        change = cutter.push(frame)
        told += {"started": "S", "ended": "E", None: "."}[change]
        if change == "ended":
            cutter.end_segment()
    return told
