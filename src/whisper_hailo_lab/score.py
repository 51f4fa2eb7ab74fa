"""Word and character error rates, as counts from which every rate follows.

Two forms of text are compared. `normalised` is the field's: Whisper's English normaliser
(Radford et al., 2022, appendix C), or its basic one for other languages. `simple` lower-cases and
strips only, so that punctuation counts as errors: the form of the study whose figures we print
beside ours.

Two summaries: the corpus rate adds up the counts of all files before dividing (the field's), the
mean rate averages the files' rates (the study's).

An empty reference has no rate of its own: it is 0 when the hypothesis is empty too and infinite
otherwise. The corpus rate counts its insertions; the mean rate leaves such files out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Literal, TypeAlias

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.extras import require
from whisper_hailo_lab.bootstrap import FloatTable, drawn_rates, quantiles

Form: TypeAlias = Literal["normalised", "simple"]
"""How texts are prepared before they are compared."""

# Written without blanks: every character is a word, as in Whisper's own evaluation.
_UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


@dataclass(frozen=True, slots=True)
class Score:
    """Edit operations that lead from a reference to a hypothesis, in words or in characters.

    Attributes:
        hits: units that are equal in both.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    hits: int = 0

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_count(self) -> int:
        """Units of the reference."""
        return self.substitutions + self.deletions + self.hits

    @property
    def rate(self) -> float:
        """Errors per reference unit, in [0, inf]; see the module for empty references."""
        if self.reference_count == 0:
            return math.inf if self.insertions else 0.0
        return self.errors / self.reference_count

    def __add__(self, other: Score) -> Score:
        """Counts of both, as in a corpus rate."""
        return Score(
            substitutions=self.substitutions + other.substitutions,
            deletions=self.deletions + other.deletions,
            insertions=self.insertions + other.insertions,
            hits=self.hits + other.hits,
        )


@dataclass(frozen=True, slots=True)
class FileScore:
    """One file: raw texts, and their comparison in words and in characters (blanks included)."""

    reference: str
    hypothesis: str
    words: Score
    characters: Score


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of a set of files in one form of text."""

    form: Form
    language: str
    files: tuple[FileScore, ...]

    @property
    def words(self) -> Score:
        """Word counts of all files; its rate is the corpus WER."""
        return corpus([file.words for file in self.files])

    @property
    def characters(self) -> Score:
        """Character counts of all files; its rate is the corpus CER."""
        return corpus([file.characters for file in self.files])

    @property
    def mean_wer(self) -> float:
        """Average of the files' WER."""
        return mean_rate([file.words for file in self.files])

    @property
    def mean_cer(self) -> float:
        """Average of the files' CER."""
        return mean_rate([file.characters for file in self.files])

    def wer_interval(
        self, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
    ) -> tuple[float, float]:
        """Confidence interval of the corpus WER; see `confidence_interval`."""
        scores = [file.words for file in self.files]
        return confidence_interval(scores, level=level, n_resamples=n_resamples, seed=seed)


def evaluate(
    pairs: Iterable[tuple[str, str]], form: Form = "normalised", language: str = "en"
) -> Evaluation:
    """Score many files.

    Args:
        pairs: `(reference, hypothesis)` raw texts, one pair per file.
        form: how to prepare the texts.
        language: language code such as `en`; `simple` does not look at it.

    Raises:
        OptionError: an unknown form, or the `bench` extra is not installed.
    """
    files = tuple(score_file(ref, hyp, form, language) for ref, hyp in pairs)
    return Evaluation(form=form, language=language, files=files)


def score_file(
    reference: str, hypothesis: str, form: Form = "normalised", language: str = "en"
) -> FileScore:
    """Score one file; arguments and errors as in `evaluate`."""
    expected = normalise(reference, form, language)
    heard = normalise(hypothesis, form, language)
    return FileScore(
        reference=reference,
        hypothesis=hypothesis,
        words=count_units(expected.split(), heard.split()),
        characters=_character_score(expected, heard),
    )


def normalise(text: str, form: Form, language: str = "en") -> str:
    """The text as it is compared.

    Raises:
        OptionError: an unknown form, or the `bench` extra is not installed.
    """
    if form == "simple":
        return text.lower().strip()
    if form == "normalised":
        return _normaliser(language)(text).strip()
    raise OptionError(f"form is {form!r}, expected 'normalised' or 'simple'")


def corpus(scores: Iterable[Score]) -> Score:
    """Counts of all files added up."""
    return sum(scores, Score())


def mean_rate(scores: Sequence[Score]) -> float:
    """Average of the files' rates, leaving out empty references; 0 where nothing is left."""
    rates = [score.rate for score in scores if score.reference_count]
    return sum(rates) / len(rates) if rates else 0.0


def confidence_interval(
    scores: Sequence[Score], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap of the corpus rate, files drawn with replacement (Bisani & Ney, 2004).

    Draws without a reference unit give no rate and are left out.

    Args:
        scores: one per file.
        level: probability in (0, 1) that the interval is meant to cover.
        n_resamples: number of draws.
        seed: same seed, same interval.

    Returns:
        lower and upper bound of the rate; both the corpus rate when no draw has a reference.

    Raises:
        OptionError: `level` or `n_resamples` out of range.
    """
    rates = _drawn([scores], level, n_resamples, seed)
    if not rates.size:
        rate = corpus(scores).rate
        return rate, rate
    return quantiles(rates[0], level)


def difference_interval(
    scores: Sequence[Score],
    others: Sequence[Score],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """The same for the corpus rate of `scores` less that of `others`, on the same files.

    Each draw takes the same files on both sides (Bisani & Ney, 2004, section 4): files that are
    hard for both do not widen it, so it shows differences that two intervals would hide.

    Raises:
        OptionError: `level` or `n_resamples` out of range, or other files.
    """
    if [one.reference_count for one in scores] != [one.reference_count for one in others]:
        raise OptionError(
            f"{len(scores)} and {len(others)} scores are not of the same files, expected pairs"
        )
    rates = _drawn([scores, others], level, n_resamples, seed)
    if not rates.size:
        return 0.0, 0.0
    return quantiles(rates[0] - rates[1], level)


def _drawn(
    sides: Sequence[Sequence[Score]], level: float, n_resamples: int, seed: int
) -> FloatTable:
    errors = np.array([[score.errors for score in side] for side in sides], dtype=np.int64)
    counts = np.array([score.reference_count for score in sides[0]], dtype=np.int64)
    return drawn_rates(errors, counts, level, n_resamples, seed)


def count_units(expected: list[str], heard: list[str]) -> Score:
    """Compare two sequences of words, or of anything written without blanks."""
    if not expected or not heard:  # jiwer refuses an empty reference before version 4.
        return Score(deletions=len(expected), insertions=len(heard))
    # Joined again, since jiwer takes words apart at blanks only, not at tabs and line ends.
    found = _jiwer().process_words(" ".join(expected), " ".join(heard))
    return Score(found.substitutions, found.deletions, found.insertions, found.hits)


def _character_score(expected: str, heard: str) -> Score:
    if not expected or not heard:
        return Score(deletions=len(expected), insertions=len(heard))
    found = _jiwer().process_characters(expected, heard)
    return Score(found.substitutions, found.deletions, found.insertions, found.hits)


def require_scoring() -> None:
    """Raise `OptionError` where what scores is not installed."""
    require("bench", "scoring", "jiwer", "whisper_normalizer")


def _jiwer() -> ModuleType:
    require_scoring()
    import jiwer

    return jiwer


@cache
def _normaliser(language: str) -> Callable[[str], str]:
    require_scoring()
    with warnings.catch_warnings():
        # Its source has an invalid escape, which Python reports when it first compiles it.
        warnings.simplefilter("ignore")
        from whisper_normalizer.basic import BasicTextNormalizer
        from whisper_normalizer.english import EnglishTextNormalizer
    normaliser: Callable[[str], str] = (
        EnglishTextNormalizer()
        if language == "en"
        else BasicTextNormalizer(split_letters=language in _UNSPACED_LANGUAGES)
    )
    return normaliser
