"""What transcripts are worth: errors, loops, words for no speech, languages.

Errors are words, or characters without blanks in languages that do not put blanks between words,
and in Korean, where blanks are a matter of taste. Texts are normalised as Whisper's paper does.

A **loop** is a hypothesis that says the same over and over while its reference does not: one to ten
units come `LOOP_TIMES` times or more in a row, and at least twice as often as in the reference; or
the text compresses better than 2.4 and the reference does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.runs.summary import repetitive
from whisper_hailo_lab.runs.transcripts import TranscriptLine
from whisper_hailo_lab.score import count_units, normalise_text

CHARACTER_LANGUAGES: Final = UNSPACED_LANGUAGES | {"ko"}
"""Languages whose errors are counted in characters."""

LOOP_TIMES: Final = 4
LONGEST_LOOP: Final = 10
"""Units of the longest phrase that is looked for."""

WHISPER_ALIASES: Final = {"nb": "no", "yue": "zh"}
"""Codes that mean the same to a comparison of languages."""


@dataclass(frozen=True, slots=True)
class TranscriptScore:
    """One transcript, scored.

    Attributes:
        score: edit operations in words or characters; of a recording without speech all are
            insertions.
        is_loop: see the module.
        invented: words written for a recording without speech.
        is_right_language: `None` where there is no speech.
    """

    score: Score
    is_loop: bool
    invented: int
    is_right_language: bool | None


@dataclass(frozen=True, slots=True)
class OutcomeTotals:
    """Counts of many transcripts; every figure of a table follows from them.

    Attributes:
        recordings: with speech.
        substitutions: of words or characters, and so on.
        loops: recordings with and without speech whose text is a loop.
        no_speech: recordings without speech.
        no_speech_with_text: of them given words; `invented` counts the words.
        language_right: of the recordings with speech.
        failed: recordings that gave an error instead of a text; their words count as deleted.
        seconds: of audio.
        seconds_cpu: processor time.
    """

    recordings: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    hits: int = 0
    loops: int = 0
    no_speech: int = 0
    no_speech_with_text: int = 0
    invented: int = 0
    language_right: int = 0
    failed: int = 0
    seconds: float = 0.0
    seconds_cpu: float = 0.0

    def __add__(self, other: OutcomeTotals) -> OutcomeTotals:
        names = [field.name for field in fields(self)]
        return OutcomeTotals(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def score(self) -> Score:
        """Edit operations over all recordings with speech."""
        return Score(self.substitutions, self.deletions, self.insertions, self.hits)

    def as_json(self) -> dict[str, Any]:
        """Return all counts, times rounded."""
        times = {"seconds": round(self.seconds, 1), "seconds_cpu": round(self.seconds_cpu, 1)}
        return asdict(self) | times


def split_units(text: str, language: str) -> list[str]:
    """Split a raw text into what errors are counted in, normalised."""
    normalised = normalise_text(text, "normalised", language)
    if language in CHARACTER_LANGUAGES:
        return list("".join(normalised.split()))
    return normalised.split()


def score_transcript(line: TranscriptLine) -> TranscriptScore:
    """Score one transcript."""
    language = line.language if line.has_speech else "en"
    expected = split_units(line.reference, language)
    found = split_units(line.text, language)
    right = _same_language(line.language_found, line.language) if line.has_speech else None
    return TranscriptScore(
        score=count_units(expected, found),
        is_loop=is_loop(expected, found) or _compresses(line),
        invented=0 if line.has_speech else len(found),
        is_right_language=right,
    )


def total_of(line: TranscriptLine) -> OutcomeTotals:
    """Return the counts of one transcript."""
    outcome, spoken = score_transcript(line), line.has_speech
    score = outcome.score if spoken else Score()
    return OutcomeTotals(
        recordings=int(spoken),
        substitutions=score.substitutions,
        deletions=score.deletions,
        insertions=score.insertions,
        hits=score.hits,
        loops=int(outcome.is_loop),
        no_speech=int(not spoken),
        no_speech_with_text=int(outcome.invented > 0),
        invented=outcome.invented,
        language_right=int(bool(outcome.is_right_language)),
        failed=int(bool(line.error)),
        seconds=line.seconds,
        seconds_cpu=line.seconds_cpu,
    )


def sum_outcomes(lines: Sequence[TranscriptLine]) -> OutcomeTotals:
    """Add up the counts of many transcripts."""
    return sum(map(total_of, lines), OutcomeTotals())


def is_loop(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Return whether a hypothesis repeats a phrase that its reference does not."""
    times = longest_run(found)
    return times >= LOOP_TIMES and times >= 2 * longest_run(expected)


def longest_run(units: Sequence[str]) -> int:
    """Return how often in a row the most repeated phrase comes; 1 where none repeats."""
    best = min(1, len(units))
    for length in range(1, LONGEST_LOOP + 1):
        equal = 0  # units in a row that are the same as those one phrase before
        for index in range(length, len(units)):
            equal = equal + 1 if units[index] == units[index - length] else 0
            best = max(best, equal // length + 1)
    return best


def _compresses(line: TranscriptLine) -> bool:
    return repetitive(line.text) and not repetitive(line.reference)


def _same_language(found: str | None, expected: str) -> bool:
    return WHISPER_ALIASES.get(found or "", found) == expected
