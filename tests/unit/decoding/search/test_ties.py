"""Choices so close that another processor, or another batch, may make them otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.decoding.search.oracle import EOT, PREFIX, Oracle, run
from tests.unit.decoding.search.scripted import Scripted, State, decode
from tests.unit.shapes import TOY, toy_spec
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.options import Cures, DecodingOptions, SearchOptions
from whisper_hailo.decoding.rules.token_rules import choose, lead
from whisper_hailo.decoding.search.hypothesis import NEAR_TIE


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=8),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_the_lead_is_what_it_takes_to_flip_the_choice(
    values: list[float], eot: int, boost: float
) -> None:
    logits = np.array(values, np.float32)
    token = choose(logits, eot, boost)
    margin = lead(logits.copy(), token, eot, boost)
    assert margin >= -1e-5
    logits[token] -= margin + 1e-3
    assert choose(logits, eot, boost) != token


@dataclass
class Close(Oracle):
    """Whatever comes, the second best lies so far behind."""

    behind: float = 0.0

    def _logits(self, history: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[[1, 2]] = 5.0, 5.0 - self.behind
        logits[EOT] = 9.0 if len(history) - len(PREFIX) >= 3 else 0.0
        return logits


@pytest.mark.parametrize(
    ("quantization", "behind", "n_ties"),
    [
        *(("none", 9e-4, 3), ("none", 1.1e-3, 0)),
        *(("int8", 0.49, 3), ("int8", 0.5, 0), ("int4", 0.49, 3), ("int4", 0.5, 0)),
        *(("exported int8", 0.99, 3), ("exported int8", 1.0, 0)),
    ],
)
def test_near_ties_are_counted(quantization: str, behind: float, n_ties: int) -> None:
    close = Close(behind=behind)
    close.spec = replace(toy_spec(), quantization=quantization)
    assert run(close, DecodingOptions(), [1, 1]).near_ties == n_ties


@dataclass
class Rivals(Scripted):
    """The script's token, and a rival behind it by so much."""

    rival: int = 9
    behind: float = 1.0

    def step(self, *args: Any, **named: Any) -> tuple[StepOutput, State]:
        output, state = super().step(*args, **named)
        output.logits[:, -1, self.rival] = self.base + 4.0 - self.behind
        logsumexp = np.log(np.exp(output.logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits=output.logits, logsumexp=logsumexp), state


@pytest.mark.parametrize(("behind", "n_ties"), [(NEAR_TIE / 2, 3), (NEAR_TIE * 2, 0)])
def test_choices_that_another_batch_may_flip_are_counted(behind: float, n_ties: int) -> None:
    (decoded,) = decode(Rivals([[1, 2, EOT]], behind=behind))
    assert decoded.tokens == (1, 2)
    assert decoded.near_ties == n_ties


@pytest.mark.parametrize(
    ("quantization", "n_ties"), [("none", 0), ("int8", 3), ("int4", 3), ("exported int8", 3)]
)
def test_rounded_weights_flip_choices_that_lie_farther_apart(
    quantization: str, n_ties: int
) -> None:
    rivals = Rivals([[1, 2, EOT]], behind=0.3)
    rivals.spec = replace(toy_spec(), quantization=quantization)
    (decoded,) = decode(rivals)
    assert decoded.near_ties == n_ties


def test_a_boost_moves_the_tie_to_where_end_of_transcript_wins() -> None:
    boosted = DecodingOptions(cures=Cures(eot_boost=0.5))
    rivals = Rivals([[1, 2, EOT]], rival=EOT, behind=0.5 + NEAR_TIE / 2)
    assert [d.near_ties for d in decode(rivals, boosted)] == [1]
    assert [d.near_ties for d in decode(rivals)] == [0]


@pytest.mark.parametrize(
    ("behind", "n_ties"),
    [(1.0, 0), (3.9999, 1), (0.0001, 1)],
    ids=["none", "edge", "best"],
)
def test_beams_are_tied_at_their_edge_and_for_the_best(behind: float, n_ties: int) -> None:
    beam = DecodingOptions(search=SearchOptions(beam_size=2), max_new_tokens=1)
    rivals = Rivals([[1]], rival=2, behind=behind)  # behind both lie all others, at 4
    assert decode(rivals, beam)[0].near_ties == n_ties


def test_draws_beside_an_edge_are_ties() -> None:
    many = DecodingOptions(search=SearchOptions(best_of=64), max_new_tokens=20)
    decoder = Scripted([[5]])
    decoder.spec = replace(toy_spec(), quantization="int8")
    sure, flat = (
        decode(decoder, many, temperature=temperature)[0].near_ties for temperature in (0.1, 2.0)
    )
    assert type(flat) is int  # JSON knows no other
    assert sure == 0  # a likely id has its edges far apart, thirty equal ones close together
    assert flat > 5
