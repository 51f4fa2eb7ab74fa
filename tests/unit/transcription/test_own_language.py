"""Windows that are likely in another language than their recording."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.decoding.search.loop import DecodingTask
from whisper_hailo.transcription.own_language import OwnLanguages

SPECIAL = SpecialTokens(sot=0, eot=1, languages={"en": 2, "de": 3, "fr": 4})
PROMPT = (9, SPECIAL.sot, 2, 7)
"""A word of before, then what is forced, in English."""


@dataclass
class LanguageDecoder:
    """Gives each window the probability of German that it was made with, the rest to English.

    Attributes:
        german: of each window of the batch.
    """

    german: tuple[float, ...]

    def select(self, state: NDArray[np.int64], rows: NDArray[np.int64]) -> Any:
        return state[rows]

    def batch_size(self, state: NDArray[np.int64]) -> int:
        return state.size

    def step(
        self, tokens: NDArray[np.int64], state: NDArray[np.int64], positions: object
    ) -> tuple[Any, object]:
        del tokens, positions
        probabilities = np.full((state.size, 1, 8), 1e-9)
        for row, window in enumerate(state):
            probabilities[row, 0, 2] = 1 - self.german[window]
            probabilities[row, 0, 3] = self.german[window]
        return SimpleNamespace(logits=np.log(probabilities)), state


def make_languages(
    *german: float, may_change: bool = True, special: SpecialTokens = SPECIAL
) -> OwnLanguages:
    n_windows = len(german)
    decoder: Any = LanguageDecoder(german)
    state: Any = np.arange(n_windows)
    task = DecodingTask(PROMPT, language="en")
    return OwnLanguages(
        decoder, special, state, [task] * n_windows, [may_change] * n_windows
    )


def test_find_tasks_likely_language_replaces_the_prompts() -> None:
    languages = make_languages(0.9, 0.1, 0.8)
    tasks = languages.find_tasks([1, 2])
    assert list(tasks) == [2]
    assert tasks[2].language == "de"
    assert tasks[2].prompt == (9, SPECIAL.sot, 3, 7)
    assert languages.likely == {2: "de"}


@pytest.mark.parametrize(("probability", "rows"), [(0.51, [0]), (0.49, [])])
def test_find_tasks_needs_half_the_probability(
    probability: float, rows: list[int]
) -> None:
    assert list(make_languages(probability).find_tasks([0])) == rows


def test_find_tasks_given_language_stays() -> None:
    assert not make_languages(0.9, may_change=False).find_tasks([0])


def test_find_tasks_of_english_model_is_empty() -> None:
    assert not make_languages(0.9, special=SpecialTokens(0, 1)).find_tasks([0])
