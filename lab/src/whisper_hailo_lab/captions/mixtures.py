"""Captions of people who change their language: how much speech is lost at each change."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    FRAME_SAMPLES,
    frames_to_seconds,
    make_detector,
    split_frames,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import WhisperRecognizer, caption_defaults
from whisper_hailo_lab.data.speech import SpeechRecording, read_speech, speech_folder

logger = logging.getLogger(__name__)

LANGUAGES: Final = (("en", "de"), ("de", "en"), ("fr", "en"), ("en", "de", "fr"))
GAPS_S: Final = (0.0, 0.2, 1.0)
SET: Final = "fleurs"
LENGTHS_S: Final = (6.0, 22.0)
"""Of recordings that are joined: a sentence or two."""

_TURNS: Final = 3
_LEVEL: Final = 0.08
"""Root mean square of each recording."""

_MARGIN_S: Final = 0.3
"""Times of words may be off by this much."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Recordings of several languages in turns.

    Attributes:
        languages: codes, in the order of the recordings.
        gap_s: silence between two recordings.
        audio: `(n_samples,)` float32 at 16 kHz mono.
    """

    languages: tuple[str, ...]
    gap_s: float
    audio: FloatArray

    @property
    def n_changes(self) -> int:
        return len(self.languages) - 1


def make_mixtures(recordings: Sequence[SpeechRecording]) -> Iterator[Mixture]:
    """Yield mixtures of all languages and gaps; the same recordings give the same ones."""
    rng = random.Random(SET)  # noqa: S311 - no secret
    shortest_s, longest_s = LENGTHS_S
    for languages, gap_s in product(LANGUAGES, GAPS_S):
        n_turns = max(_TURNS, len(languages))
        order = tuple(languages[turn % len(languages)] for turn in range(n_turns))
        pieces = [_pause(0.5)]
        for language in order:
            fitting = [
                recording
                for recording in recordings
                if recording.set == SET
                and recording.language == language
                and shortest_s < recording.seconds < longest_s
            ]
            pieces += [_set_level(rng.choice(fitting).load()), _pause(gap_s)]
        pieces.append(_pause(1.0))
        yield Mixture(order, gap_s, np.concatenate(pieces))


def _pause(seconds: float) -> FloatArray:
    return np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)


def _set_level(audio: FloatArray) -> FloatArray:
    power = float(np.mean(np.square(audio, dtype=np.float64)))
    levelled: FloatArray = np.clip(audio * np.float32(_LEVEL / power**0.5), -1, 1)
    return levelled


def measure_lost_speech(audio: FloatArray, words: Sequence[CaptionWord]) -> float:
    """Return the seconds of certain speech that no word covers."""
    detector = make_detector()
    n_lost = 0
    for index, frame in enumerate(split_frames(audio)):
        if detector.probability(frame) < CERTAIN_THRESHOLD:
            continue
        time_s = frames_to_seconds(index)
        is_covered = any(
            word.start_s is not None
            and word.end_s is not None
            and word.start_s - _MARGIN_S <= time_s <= word.end_s + _MARGIN_S
            for word in words
        )
        n_lost += not is_covered
    return frames_to_seconds(n_lost)


def caption_mixtures() -> dict[str, Any]:
    """Caption all mixtures with `base`, which detects the languages."""
    model = "base"
    rows = []
    with Transcriber.from_model(model, threads=1) as transcriber:
        options = caption_defaults(transcriber.default_anti_repetition)
        recognizer = WhisperRecognizer(transcriber, options)
        for mixture in make_mixtures(read_speech(speech_folder())):
            captioner = Captioner(recognizer, make_detector(), CaptionOptions())
            words: list[CaptionWord] = []
            for start in range(0, mixture.audio.size, FRAME_SAMPLES):
                frame = mixture.audio[start : start + FRAME_SAMPLES]
                for event in captioner.feed(frame):
                    if isinstance(event, Completed):
                        words += event.words
            for event in captioner.finish():
                if isinstance(event, Completed):
                    words += event.words
            lost_s = measure_lost_speech(mixture.audio, words)
            row = {
                "languages": ", ".join(mixture.languages),
                "gap_s": mixture.gap_s,
                "changes": mixture.n_changes,
                "lost_s": round(lost_s, 2),
                "lost_per_change_s": round(lost_s / mixture.n_changes, 2),
                "reported_s": round(captioner.statistics.untranscribed_s, 2),
            }
            rows.append(row)
            logger.info("%s", row)
    return {"models": [model], "rows": rows}
