"""Probabilities of languages, however large a decoder's logits are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.decoding.search.scripted import Scripted, State
from tests.unit.shapes import TOY, TOY_TOKENS
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.prompt import detect_languages


class Loud(Scripted):
    """Each row's script is its logits of English and German."""

    def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
        logits = np.zeros((len(tokens), 1, TOY.n_vocab), np.float32)
        for row, of in enumerate(self.scripts):
            logits[row, 0, [TOY_TOKENS.languages[code] for code in ("en", "de")]] = of
        return StepOutput(logits, np.zeros(logits.shape[:2], np.float32)), state


def test_each_window_s_languages_add_up_to_one_at_any_height() -> None:
    """`exp` of 1000 is no number, that of -1000 nothing; 1 more is 0.731 of both."""
    decoder = Loud([[1000, 1001], [-1000, -1001], [0, 1000]])
    found = detect_languages(decoder, decoder.start(), TOY_TOKENS)  # type: ignore[arg-type]
    more = 1 / (1 + np.exp(-1.0))
    assert [list(row) for row in found] == [["de", "en"], ["en", "de"], ["de", "en"]]
    assert found[0] == pytest.approx({"de": more, "en": 1 - more})
    assert found[1] == pytest.approx({"en": more, "de": 1 - more})
    assert found[2] == {"de": 1.0, "en": 0.0}
