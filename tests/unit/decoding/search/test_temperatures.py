"""What a temperature changes: which tokens are drawn, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.decoding.search.scripted import EOT, PREFIX, Scripted, State, decode
from tests.unit.decoding.search.torn import Torn, torn
from tests.unit.shapes import TOY, TOY_TOKENS
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask


class Flat(Scripted):
    """Every id is as likely as any other."""

    def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
        logits = np.zeros((len(state.rows), len(positions), TOY.n_vocab), np.float32)
        sums = np.full(logits.shape[:2], np.log(TOY.n_vocab), np.float32)
        return StepOutput(logits, sums), State(state.step + 1, state.rows)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_temperature_draws_anew(beam_size: int) -> None:
    """Where all is even the temperature changes nothing: only other numbers give other texts."""
    search = SearchOptions(best_of=1, beam_size=beam_size)  # which is of temperature 0
    options = DecodingOptions(search=search, max_new_tokens=12)
    drawn = {decode(Flat([[0]]), options, temperature=t)[0].tokens for t in (0.2, 0.4, 0.6)}
    assert len(drawn) == 3


def test_the_best_of_several_draws_is_taken() -> None:
    """The first of five is the one that is drawn alone, so that five are as good or better."""

    def score(best_of: int, seed: int) -> float:
        options = DecodingOptions(
            search=SearchOptions(best_of=best_of, seed=seed), max_new_tokens=6
        )
        return decode(torn(0.7), options, temperature=1.0)[0].avg_logprob

    gained = [score(5, seed) - score(1, seed) for seed in range(10)]
    assert min(gained) == 0.0
    assert sum(gain > 0.1 for gain in gained) > 3


@pytest.mark.parametrize(("temperature", "share"), [(0.5, 0.9), (1.0, 0.75), (2.0, 0.634)])
def test_temperature_is_what_logits_are_divided_by(temperature: float, share: float) -> None:
    """Odds of 3 to 1 become 9 to 1 at half the temperature, and the root of 3 at twice it."""
    options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=1)
    n_taken = 0
    for seed in range(400):
        loop = DecodingLoop(torn(0.75), TOY_TOKENS, options)  # type: ignore[arg-type]
        (decoded,) = loop.run(State(0, (0,)), [DecodingTask(PREFIX, key=seed)], temperature)
        n_taken += decoded.tokens == (0,)
    assert n_taken / 400 == pytest.approx(share, abs=0.06)


def test_a_boost_ends_a_draw_that_end_of_transcript_nearly_leads() -> None:
    """The end has odds of 1 to 3 with the best: within a boost of 1.5, not within one of 1."""

    class Ending(Torn):
        def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
            output, after = super().step(tokens, state, positions)
            output.logits[:, -1, EOT] = np.log(0.33)
            return output, after

    def tokens(boost: float) -> tuple[int, ...]:
        options = DecodingOptions(
            search=SearchOptions(best_of=1),
            anti_repetition=AntiRepetition(eot_boost=boost),
            max_new_tokens=3,
        )
        decoder = Ending([[0]], shares=(0.99,))
        return decode(decoder, options, temperature=0.01)[0].tokens

    assert tokens(1.5) == (0,)  # the first token may not be end-of-transcript
    assert tokens(1.0) == (0, 0, 0)
