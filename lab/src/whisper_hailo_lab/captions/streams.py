"""Recordings of people, joined to streams for captions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.captions.latency import Utterance
from whisper_hailo_lab.data.speech import SpeechRecording

LEVELS_DB: Final = (-32.0, -22.0)
"""Root mean square of each recording: people at one microphone, not recordings 40 dB apart."""

UNBROKEN: Final = (
    "earnings22",
    "fleurs",
    "librispeech",
    "long_form",
    "mfa_spontaneous",
    "misc_es",
    "misc_fr",
    "osr_harvard",
    "sppas_de",
    "sppas_en",
    "sppas_es",
)
"""Sets of people who talk, without announcements and without noise that was added."""

UNBROKEN_S: Final = 9.5
"""Shorter recordings are single sentences."""

PAUSE_S: Final = (0.5, 1.0)
"""Behind each recording."""


@dataclass(frozen=True, slots=True)
class SpokenStream:
    """Recordings of people, joined with pauses.

    Attributes:
        audio: `(n_samples,)` float32 at 16 kHz mono.
        utterances: text and times of each recording.
    """

    audio: FloatArray
    utterances: tuple[Utterance, ...]

    @property
    def text(self) -> str:
        return " ".join(utterance.text for utterance in self.utterances)

    @property
    def seconds(self) -> float:
        return self.audio.size / SAMPLE_RATE_HZ


def choose_unbroken(
    recordings: Sequence[SpeechRecording], language: str
) -> list[SpeechRecording]:
    """Return the long recordings of people who talk in a language, by name."""
    chosen = [
        recording
        for recording in recordings
        if recording.language == language
        and recording.set in UNBROKEN
        and recording.seconds > UNBROKEN_S
    ]
    return sorted(chosen, key=lambda recording: recording.key)


def join_recordings(
    recordings: Sequence[SpeechRecording],
    most_s: float,
    *,
    seed: str,
    pause_s: tuple[float, float] = PAUSE_S,
) -> SpokenStream:
    """Join recordings in a seeded order with pauses, until one would begin after `most_s`."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    order = sorted(recordings, key=lambda recording: recording.key)
    rng.shuffle(order)
    pieces = [np.zeros(SAMPLE_RATE_HZ // 2, np.float32)]
    utterances: list[Utterance] = []
    n_samples = pieces[0].size
    for recording in order:
        if n_samples >= most_s * SAMPLE_RATE_HZ:
            break
        audio = _set_level(recording.load(), rng.uniform(*LEVELS_DB))
        begin_s = n_samples / SAMPLE_RATE_HZ
        end_s = begin_s + audio.size / SAMPLE_RATE_HZ
        utterances.append(Utterance(recording.text, begin_s, end_s))
        pause = np.zeros(round(rng.uniform(*pause_s) * SAMPLE_RATE_HZ), np.float32)
        pieces += [audio, pause]
        n_samples += audio.size + pause.size
    return SpokenStream(np.concatenate(pieces), tuple(utterances))


def _set_level(audio: FloatArray, level_db: float) -> FloatArray:
    """Return the audio with another root mean square, and no sample beyond 1."""
    power = float(np.mean(np.square(audio, dtype=np.float64)))
    gain = 10 ** (level_db / 20) / max(power**0.5, 1e-9)
    levelled: FloatArray = np.clip(audio * np.float32(gain), -1, 1)
    return levelled
