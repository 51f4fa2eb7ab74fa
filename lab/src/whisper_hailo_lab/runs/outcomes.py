"""Outcomes of transcripts: errors, loops, words for no speech, languages.

Errors are counted in words, or in characters without blanks in languages that write no blanks
between words, and in Korean, whose writers differ in them. Texts are normalised as in Whisper's
paper.

A **loop** is a hypothesis that repeats itself while its reference does not: a phrase of one to ten
units comes `LOOP_TIMES` times or more in a row, and at least twice as often as in the reference; or
the text compresses better than 2.4 times and the reference does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from whisper_hailo.core.types import UNSPACED_LANGUAGES
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.runs.summary import is_repetitive
from whisper_hailo_lab.runs.transcripts import TranscriptLine
from whisper_hailo_lab.score import count_units, normalise_text

CHARACTER_LANGUAGES: Final = UNSPACED_LANGUAGES | {"ko"}
"""Languages whose errors are counted in characters."""

LOOP_TIMES: Final = 4
"""Least repetitions of a loop."""

LONGEST_LOOP: Final = 10
"""Units of the longest phrase of a loop."""

WHISPER_ALIASES: Final = {"nb": "no", "yue": "zh"}
"""Language codes that count as another one."""


@dataclass(frozen=True, slots=True)
class TranscriptScore:
    """Score of one transcript.

    Attributes:
        score: edit operations in words or characters; without speech all are insertions.
        is_loop: whether the text is a loop.
        invented: words that were written without speech.
        is_right_language: whether the detected language is right; `None` without speech.
    """

    score: Score
    is_loop: bool
    invented: int
    is_right_language: bool | None


@dataclass(frozen=True, slots=True)
class OutcomeTotals:
    """Counts of many transcripts; every figure of a table follows from them.

    Attributes:
        recordings: recordings with speech.
        substitutions: replaced words or characters.
        deletions: missing words or characters.
        insertions: added words or characters.
        hits: equal words or characters.
        loops: texts that are loops, with or without speech.
        no_speech: recordings without speech.
        no_speech_with_text: recordings without speech that were given words.
        invented: words of these texts.
        language_right: recordings with speech whose language was detected.
        failed: recordings that gave an error instead of a text; their words count as deleted.
        seconds: duration of all recordings.
        seconds_cpu: processor time for all recordings.
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
        totals = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
        }
        return OutcomeTotals(**totals)

    @property
    def score(self) -> Score:
        """Edit operations of all recordings with speech."""
        return Score(self.substitutions, self.deletions, self.insertions, self.hits)

    def as_json(self) -> dict[str, Any]:
        """Return all counts, times rounded."""
        times = {
            "seconds": round(self.seconds, 1),
            "seconds_cpu": round(self.seconds_cpu, 1),
        }
        return asdict(self) | times


def split_units(text: str, language: str) -> list[str]:
    """Return the normalised units of a text in which errors are counted."""
    normalised = normalise_text(text, "normalised", language)
    if language in CHARACTER_LANGUAGES:
        return list("".join(normalised.split()))
    return normalised.split()


def score_transcript(line: TranscriptLine) -> TranscriptScore:
    """Score one transcript."""
    language = line.language if line.has_speech else "en"
    expected = split_units(line.reference, language)
    units = split_units(line.text, language)
    is_right_language = None
    if line.has_speech:
        is_right_language = _is_same_language(line.language_found, line.language)
    return TranscriptScore(
        score=count_units(expected, units),
        is_loop=is_loop(expected, units) or _is_compressible(line),
        invented=0 if line.has_speech else len(units),
        is_right_language=is_right_language,
    )


def count_outcome(line: TranscriptLine) -> OutcomeTotals:
    """Return the counts of one transcript."""
    outcome = score_transcript(line)
    score = outcome.score if line.has_speech else Score()
    return OutcomeTotals(
        recordings=int(line.has_speech),
        substitutions=score.substitutions,
        deletions=score.deletions,
        insertions=score.insertions,
        hits=score.hits,
        loops=int(outcome.is_loop),
        no_speech=int(not line.has_speech),
        no_speech_with_text=int(outcome.invented > 0),
        invented=outcome.invented,
        language_right=int(bool(outcome.is_right_language)),
        failed=int(bool(line.error)),
        seconds=line.seconds,
        seconds_cpu=line.seconds_cpu,
    )


def sum_outcomes(lines: Sequence[TranscriptLine]) -> OutcomeTotals:
    """Return the counts of many transcripts."""
    return sum((count_outcome(line) for line in lines), OutcomeTotals())


def is_loop(expected: Sequence[str], units: Sequence[str]) -> bool:
    """Return whether a hypothesis repeats a phrase that its reference does not."""
    times = count_repetitions(units)
    return times >= LOOP_TIMES and times >= 2 * count_repetitions(expected)


def count_repetitions(units: Sequence[str]) -> int:
    """Return how often in a row the most repeated phrase comes; 1 if none repeats."""
    best = min(1, len(units))
    for length in range(1, LONGEST_LOOP + 1):
        equal = 0  # units in a row that equal those one phrase before
        for index in range(length, len(units)):
            equal = equal + 1 if units[index] == units[index - length] else 0
            best = max(best, equal // length + 1)
    return best


def _is_compressible(line: TranscriptLine) -> bool:
    return is_repetitive(line.text) and not is_repetitive(line.reference)


def _is_same_language(language: str | None, expected: str) -> bool:
    return WHISPER_ALIASES.get(language or "", language) == expected
