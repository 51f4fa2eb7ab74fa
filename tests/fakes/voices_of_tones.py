"""People who whistle: a tone is a voice, so that a pipeline can be tried without models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.speakers.diarization import SpeakerDiarizer
from whisper_hailo.speakers.embeddings import PRINT_SIZE
from whisper_hailo.speakers.segmentation import (
    FRAME_SAMPLES,
    N_FRAMES,
    N_VOICES,
    WindowActivity,
)

TONES_HZ = (300.0, 1000.0, 3000.0)


def whistle(parts: Sequence[tuple[int | None, float]]) -> FloatArray:
    """Return audio in which people, or nobody, whistle for so many seconds each."""
    pieces = []
    for person, seconds in parts:
        times = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
        level = 0.0 if person is None else 0.3
        pieces.append(level * np.sin(2 * np.pi * TONES_HZ[person or 0] * times))
    return np.concatenate(pieces).astype(np.float32)


class ToneSegmentation(Closing):
    """Numbers the tones of a window in their order, so that a tone's voice differs by window."""

    def segment(self, audio: FloatArray) -> WindowActivity:
        activity = np.zeros((N_FRAMES, N_VOICES), np.uint8)
        alone = np.full(N_FRAMES, -1, np.int8)
        voices: dict[int, int] = {}
        for frame in range(N_FRAMES):
            samples = audio[360 + frame * FRAME_SAMPLES :][:FRAME_SAMPLES]
            if samples.size < FRAME_SAMPLES or not samples.any():
                continue
            crossings = np.count_nonzero(np.diff(np.signbit(samples)))
            hertz = crossings / 2 * SAMPLE_RATE_HZ / FRAME_SAMPLES
            tone = int(np.argmin([abs(hertz - tone_hz) for tone_hz in TONES_HZ]))
            voice = voices.setdefault(tone, len(voices))
            activity[frame, voice] = 255
            alone[frame] = voice
        return WindowActivity(activity, alone)


class TonePrints(Closing):
    """The print of a tone has a 1 where its filter bank is."""

    def __init__(self) -> None:
        self.n_frames = 0

    def voice_print(self, banks: FloatArray) -> FloatArray:
        self.n_frames += len(banks)
        voice_print = np.zeros(PRINT_SIZE, np.float32)
        voice_print[int(banks.mean(axis=0).argmax())] = 1
        return voice_print


def tone_diarizer() -> SpeakerDiarizer:
    return SpeakerDiarizer(ToneSegmentation(), TonePrints())
