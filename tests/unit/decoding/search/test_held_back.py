"""What is held back of the text of audio that goes on, and told as a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.unit.decoding.search.oracle import (
    EOT,
    PREFIX,
    Oracle,
    from_scratch,
    run,
    saved,
)
from tests.unit.shapes import TOY
from whisper_hailo.decoding.options import DecodingOptions

TEXT = (1, 2, 3)
PLACES = (2, 5, 8, 11)
"""Where the decoder looks for each of these, and for the end."""


@dataclass
class Speaker(Oracle):
    """Says the text, whatever it is fed."""

    def looks_at(self, history: Sequence[int]) -> int:  # type: ignore[override]
        return PLACES[min(max(0, len(history) - len(PREFIX)), len(TEXT))]

    def _logits(self, history: tuple[int, ...]) -> np.ndarray:
        at = len(history) - len(PREFIX)
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[TEXT[at] if 0 <= at < len(TEXT) else EOT] = 5.0
        return logits


@pytest.mark.parametrize(
    ("draft", "guess"),
    [(TEXT, (2, 3)), ((*TEXT, 9), (2, 3, 9)), ((1, 9, 3), (2,)), ((1,), (2,)), ((), (2,))],
    ids=["right", "goes on", "goes wrong", "ends there", "none"],
)
def test_what_is_held_back_of_a_draft_is_all_that_is_left_of_it(
    draft: tuple[int, ...], guess: tuple[int, ...]
) -> None:
    """If the token there is the draft's; otherwise it is the one token that was chosen."""
    found = run(Speaker(), DecodingOptions(), draft, horizon=PLACES[1])
    assert (found.tokens, saved(found).guess) == (TEXT[:1], guess)


@pytest.mark.parametrize("draft", [(), TEXT])
def test_the_end_of_a_text_is_no_guess(draft: tuple[int, ...]) -> None:
    """Where it is looked for is always the end of the audio."""
    found = run(Speaker(), DecodingOptions(), draft, horizon=PLACES[-1])
    whole = from_scratch(Speaker(), DecodingOptions())
    assert (found.tokens, found.runaway, saved(found).guess) == (TEXT, False, ())
    assert found.avg_logprob == pytest.approx(whole.avg_logprob)


@pytest.mark.parametrize("n_fixed", [0, 3])
def test_what_ends_behind_settled_text_did_not_end_before_it_began(n_fixed: int) -> None:
    """Nothing more is said then; that the window were silence would take the text away."""
    found = run(Speaker(), DecodingOptions(), TEXT, n_fixed)
    assert (found.tokens, found.ends_at_once) == (TEXT, False)


def test_a_decoder_that_tells_unasked_where_it_looks_holds_nothing_back() -> None:
    class Telling(Speaker):
        def step(self, *fed: Any, **_: Any) -> Any:
            return super().step(*fed, alignment=True)

    found = run(Telling(), DecodingOptions(), TEXT[:1])
    assert (found.tokens, saved(found).guess) == (TEXT, ())
