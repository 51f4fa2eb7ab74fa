"""The same weights in faster-whisper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faster_whisper import WhisperModel
from faster_whisper.feature_extractor import FeatureExtractor

from tests.parity.openai import CHECKPOINT
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo_lab.formats.ctranslate2 import write_ctranslate2

GREEDY = {
    "beam_size": 1,
    "best_of": 1,
    "temperature": 0.0,
    "condition_on_previous_text": False,
    "no_speech_threshold": None,
    "log_prob_threshold": None,
    "compression_ratio_threshold": None,
}


def load(folder: Path) -> WhisperModel:
    """The checkpoint in float32, converted into a folder."""
    write_ctranslate2(CHECKPOINT, folder / "micro")
    return WhisperModel(
        str(folder / "micro"), device="cpu", compute_type="float32", cpu_threads=1
    )


def said(model: WhisperModel, audio: Any, **options: Any) -> list[Any]:
    """Segments of English speech, greedy unless told otherwise."""
    segments, _ = model.transcribe(audio, language="en", **{**GREEDY, **options})
    return list(segments)


def hear_as_ours(patch: pytest.MonkeyPatch) -> None:
    """Each window's log-mel is that of its own audio, as in ours, not cut out of the recording's.

    In the place of the log-mel stand the numbers of its frames, which tell where a window begins.
    """
    encode = WhisperModel.encode
    heard_last = [np.zeros(0, np.float32)]

    def numbered(
        _: FeatureExtractor, waveform: Any, padding: int = 160, **__: Any
    ) -> Any:
        heard_last[:] = [waveform]
        n_frames = (waveform.size + padding) // 160
        return np.tile(np.arange(n_frames, dtype=np.float32), (80, 1))

    def encode_window(model: WhisperModel, frames: Any) -> Any:
        first = 160 * int(frames[0, 0])
        return encode(model, log_mel(pad_or_trim(heard_last[0][first:], 480_000)))

    patch.setattr(FeatureExtractor, "__call__", numbered)
    patch.setattr(WhisperModel, "encode", encode_window)
