"""Word and character error rates, as counts from which every rate follows.

Texts are compared in two forms. `normalised` is usual: Whisper's English normaliser (Radford et
al., 2022, appendix C), or its basic one for other languages. `simple` lower-cases and strips only,
so that punctuation counts as errors; the study has this form.

There are two summaries. The corpus rate adds up the counts of all files before it divides, as is
usual; the mean rate averages the files' rates, as in the study.

The rate of an empty reference is 0 if the hypothesis is empty, too, and infinite otherwise. The
corpus rate counts its insertions; the mean rate leaves such files out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Literal, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import UNSPACED_LANGUAGES
from whisper_hailo_lab.program import require_extra
from whisper_hailo_lab.rates import Score, confidence_interval, mean_rate, sum_scores

Form: TypeAlias = Literal["normalised", "simple"]
"""Form in which texts are compared."""


@dataclass(frozen=True, slots=True)
class FileScore:
    """Raw texts of one file, and their comparison.

    Attributes:
        reference: raw reference.
        hypothesis: raw hypothesis.
        words: counts in words.
        characters: counts in characters, blanks included.
    """

    reference: str
    hypothesis: str
    words: Score
    characters: Score


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of some files in one form of text.

    Attributes:
        form: form of the texts.
        language: language code such as `en`.
        files: scores of the files.
    """

    form: Form
    language: str
    files: tuple[FileScore, ...]

    @property
    def words(self) -> Score:
        """Word counts of all files; their rate is the corpus WER."""
        return sum_scores([file.words for file in self.files])

    @property
    def characters(self) -> Score:
        """Character counts of all files; their rate is the corpus CER."""
        return sum_scores([file.characters for file in self.files])

    @property
    def mean_wer(self) -> float:
        """Mean of the files' WER."""
        return mean_rate([file.words for file in self.files])

    @property
    def mean_cer(self) -> float:
        """Mean of the files' CER."""
        return mean_rate([file.characters for file in self.files])

    def wer_interval(
        self, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
    ) -> tuple[float, float]:
        """Return the confidence interval of the corpus WER; see `confidence_interval`."""
        scores = [file.words for file in self.files]
        return confidence_interval(
            scores, level=level, n_resamples=n_resamples, seed=seed
        )


def score_texts(
    pairs: Iterable[tuple[str, str]], form: Form = "normalised", language: str = "en"
) -> Evaluation:
    """Score many files.

    Args:
        pairs: raw reference and hypothesis of each file.
        form: form in which they are compared.
        language: language code such as `en`; `simple` is the same for all.
    """
    files = tuple(
        score_file(reference, hypothesis, form, language)
        for reference, hypothesis in pairs
    )
    return Evaluation(form=form, language=language, files=files)


def score_file(
    reference: str, hypothesis: str, form: Form = "normalised", language: str = "en"
) -> FileScore:
    """Score one file; see `score_texts`."""
    expected = normalise_text(reference, form, language)
    got = normalise_text(hypothesis, form, language)
    return FileScore(
        reference=reference,
        hypothesis=hypothesis,
        words=count_units(expected.split(), got.split()),
        characters=_character_score(expected, got),
    )


def normalise_text(text: str, form: Form, language: str = "en") -> str:
    """Return a text in the form in which it is compared.

    Raises:
        OptionError: the form is unknown, or the `bench` extra is not installed.
    """
    if form == "simple":
        return text.lower().strip()
    if form == "normalised":
        return load_normaliser(language)(text).strip()
    raise OptionError(f"form is {form!r}, expected 'normalised' or 'simple'")


def count_units(expected: list[str], got: list[str]) -> Score:
    """Compare two sequences of words, or of other units without blanks."""
    # Joined again, since jiwer splits at blanks only, not at tabs and line ends.
    output = _import_jiwer().process_words(" ".join(expected), " ".join(got))
    return Score(output.substitutions, output.deletions, output.insertions, output.hits)


def _character_score(expected: str, got: str) -> Score:
    output = _import_jiwer().process_characters(expected, got)
    return Score(output.substitutions, output.deletions, output.insertions, output.hits)


def require_scoring() -> None:
    """Refuse to start without the packages that score.

    Raises:
        OptionError: one of them is not installed.
    """
    require_extra("bench", "scoring", "jiwer", "whisper_normalizer")


def _import_jiwer() -> ModuleType:
    require_scoring()
    import jiwer

    return jiwer


@cache
def load_normaliser(language: str) -> Callable[[str], str]:
    """Return the normaliser of a language, loaded once."""
    require_scoring()
    with warnings.catch_warnings():
        # Its source has an invalid escape, which Python reports when it first compiles it.
        warnings.simplefilter("ignore")
        from whisper_normalizer.basic import BasicTextNormalizer
        from whisper_normalizer.english import EnglishTextNormalizer
    normaliser: Callable[[str], str]
    if language == "en":
        normaliser = EnglishTextNormalizer()
    else:
        normaliser = BasicTextNormalizer(split_letters=language in UNSPACED_LANGUAGES)
    return normaliser
