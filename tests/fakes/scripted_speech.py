"""Detectors and engines that follow a script, sounds that spell words, and their captions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.segmenter import Segmenter
from whisper_hailo.transcription.partials import PartialBuffer, words_of_text

FRAME = 512
S = 0.9
Q = 0.4
N = 0.1
"""Speech; too quiet to begin and loud enough to go on; silence."""


def quick(**changed: Any) -> CaptionOptions:
    """Return options by which short sounds are segments with partials, so that tests are short."""
    short = {
        "vad_threshold": 0.5,
        "min_silence_s": 0.1,
        "pre_roll_s": 0.1,
        "min_partial_s": 0.2,
        "settle_s": 1.0,
    }
    return CaptionOptions(**{**short, **changed})


class Loudness:
    """Speech is what is not zero."""

    def reset(self) -> None:
        pass

    def probability(self, frame: FloatArray) -> float:
        return float(np.abs(frame).max() > 0)


def silence(seconds: float) -> FloatArray:
    return np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)


def spoken(index: int, seconds: float = 0.25) -> FloatArray:
    """Word number `index`: its amplitude says which it is."""
    return np.full(round(seconds * SAMPLE_RATE_HZ), (index + 1) / 1000, np.float32)


def speech(indices: Sequence[int], gap_s: float = 0.03) -> FloatArray:
    """Words with gaps too short to be pauses."""
    return np.concatenate(
        [part for i in indices for part in (spoken(i), silence(gap_s))]
    )


@dataclass
class Speller:
    """Hears the words that `spoken` says; one that is not there to its end is heard as another.

    Attributes:
        content_s: longest buffer.
        timed: gives the times of words.
        tokens: gives tokens and keeps to those that are fixed.
    """

    content_s: float = 9.0
    timed: bool = True
    tokens: bool = True
    heard: list[FloatArray] = field(default_factory=list)
    name: str = "speller"
    language: str = "en"

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        audio = buffer.audio
        draft = buffer.draft
        word_timestamps = buffer.word_timestamps
        assert audio.size <= self.content_s * SAMPLE_RATE_HZ + 512
        self.heard.append(audio)
        levels = np.rint(audio * 1000).astype(int)
        edges = np.flatnonzero(np.diff(levels, prepend=0, append=0))
        words: list[BufferWord] = []
        for begin, end in itertools.pairwise(edges):
            level = int(levels[begin])
            if level:
                whole = end - begin >= 0.25 * SAMPLE_RATE_HZ
                name = f" w{level - 1}" if whole else f" part-of-w{level - 1}"
                times = (begin / SAMPLE_RATE_HZ, end / SAMPLE_RATE_HZ)
                known = times if self.timed and word_timestamps else (None, None)
                ids = (2 * level + (not whole),) if self.tokens else ()
                words.append(BufferWord(name, ids, 1.0, *known))
        if self.tokens:
            fixed = draft.tokens[: draft.n_fixed]
            assert (
                tuple(t for word in words for t in word.tokens)[: len(fixed)] == fixed
            )
        return BufferText(tuple(words), language or "en", passes=1)


@dataclass
class Fickle:
    """Says something else each time.

    Attributes:
        seed: of what it says.
        tokens: keeps to fixed tokens; otherwise it may contradict everything.
        vocabulary: few words make hypotheses agree often.
    """

    seed: int
    tokens: bool = True
    vocabulary: int = 3
    content_s: float = 3.0
    name: str = "fickle"
    language: str = "en"

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        audio = buffer.audio
        draft = buffer.draft
        word_timestamps = buffer.word_timestamps
        n_words = int(self._random.integers(0, 6))
        ids = [
            int(token) for token in self._random.integers(0, self.vocabulary, n_words)
        ]
        if not self.tokens:
            return BufferText(words_of_text(" ".join(f"w{token}" for token in ids)))
        if self._random.random() < 0.7:  # mostly of one mind
            ids = list(draft.tokens[draft.n_fixed :]) + ids[:1]
        ids = [*draft.tokens[: draft.n_fixed], *ids]
        times = np.sort(
            self._random.uniform(0, audio.size / SAMPLE_RATE_HZ, 2 * len(ids))
        )
        words = [
            BufferWord(
                f" w{token}",
                (token,),
                0.5,
                *(
                    (times[2 * i], times[2 * i + 1])
                    if word_timestamps
                    else (None, None)
                ),
            )
            for i, token in enumerate(ids)
        ]
        return BufferText(tuple(words), "en", passes=1)


class Failing(Speller):
    """Fails at the calls that it is told; -1 is all of them."""

    def __init__(self, *failing: int) -> None:
        super().__init__()
        self._failing = failing
        self._calls = 0

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        self._calls += 1
        if self._calls in self._failing or -1 in self._failing:
            raise DeviceError("the device stalled; wait")
        return super().transcribe(buffer, language)


def run(
    audio: FloatArray,
    recognizer: Any,
    options: CaptionOptions | None = None,
    sizes: Sequence[int] = (3200,),
) -> tuple[list[Event], Captioner]:
    ticks = itertools.count()
    captioner = Captioner(
        recognizer, Loudness(), options or quick(), now=lambda: next(ticks) / 100
    )
    events: list[Event] = []
    at = 0
    for size in itertools.cycle(sizes):
        if at >= audio.size:
            break
        events += captioner.feed(audio[at : at + size])
        at += size
    events += captioner.finish()
    return events, captioner


def completed(events: Sequence[Event]) -> list[Completed]:
    return [event for event in events if isinstance(event, Completed)]


def texts(events: Sequence[Event]) -> str:
    return " ".join(event.text for event in completed(events))


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
