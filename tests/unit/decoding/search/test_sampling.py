"""Sampling: draws by temperature and seed, and samples that end or loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY, TOY_TOKENS
from tests.fakes.scripted_decoder import (
    END,
    EOT,
    PREFIX,
    ScriptedDecoder,
    State,
    TwoTokenDecoder,
    decode,
    logprobs,
    two_token_decoder,
    unruled,
)
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
)
from whisper_hailo.decoding.search.beam_search import BeamChoice
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.sampling import SampledChoice
from whisper_hailo.decoding.search.window_search import Choice


def take(choice: Choice, logits: np.ndarray) -> None:
    total = float(np.log(np.exp(logits.astype(np.float64)).sum()))
    choice.advance([unruled(logits.copy(), total)])


def draw(logits: np.ndarray, temperature: float, seed: int, boost: float = 0.0) -> int:
    choice = SampledChoice(END, boost, temperature, [(seed,)])
    take(choice, logits.astype(np.float32))
    (drawn,) = choice.finish()
    return (drawn.tokens or (END,))[0]


@pytest.mark.parametrize(("end", "ends"), [(39.0, False), (39.5, True)])
def test_sampling_boost_equal_to_lead_ends_nothing(end: float, *, ends: bool) -> None:
    """For a beam and a draw: the best token has 40, and the boost is 1."""
    logits = np.array([40.0, 39.25, 0.0, 0.0, 0.0, end], np.float32)
    beam = BeamChoice(END, 1.0, 2, 1.0)
    take(beam, logits)
    assert [one.tokens for one in beam.running] == ([] if ends else [(0,), (1,)])
    assert (draw(logits, 0.001, 0, boost=1.0) == END) is ends


def test_sampling_continues_row_of_each_sample() -> None:
    """After a first token that all draw from the same row, each row is sure of another one."""
    choice = SampledChoice(END, 0.0, 1.0, [(0,), (1,), (2,)])
    take(choice, np.array([0.0, 0.0, 0.0, 0.0, 0.0, -np.inf], np.float32))
    rows = np.zeros((3, 6), np.float32)
    rows[[0, 1, 2], [3, 4, 2]] = 60.0
    assert choice.advance([unruled(row.copy(), 60.0) for row in rows]) == [
        0,
        1,
        2,
    ]
    assert [one.tokens[-1] for one in choice.running] == [3, 4, 2]


def test_sampling_with_own_seeds_is_independent() -> None:
    """Five samples have the one that is drawn alone among them."""
    even = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -np.inf], np.float32)

    def drawn(*seeds: int) -> list[tuple[int, ...]]:
        choice = SampledChoice(END, 0.0, 1.0, [(seed,) for seed in seeds])
        for _ in range(8):
            rows = [even] * len(choice.running)
            choice.advance([unruled(row.copy(), np.log(5)) for row in rows])
        return [one.tokens for one in choice.finish()]

    assert drawn(1, 2, 3) == [*drawn(1), *drawn(2), *drawn(3)]
    assert len(set(drawn(1, 2, 3))) == 3


def test_sampling_logprob_ignores_penalty() -> None:
    """Not what a penalty left of it: 0.25 for the word, 0.5 for the end."""
    choice = SampledChoice(END, 0.0, 1.0, [(0,)])
    for token, share in ((2, 0.25), (END, 0.5)):
        only = np.full(6, -np.inf, np.float32)
        only[token] = -7.0
        choice.advance(
            [FilteredLogits(only, 0.0, np.full(6, np.log(share), np.float32))]
        )
    (drawn,) = choice.finish()
    assert (drawn.tokens, drawn.done) == ((2,), True)
    assert drawn.sum_logprob == pytest.approx(np.log(0.125), abs=1e-5)


def test_sampling_draw_of_zero_takes_no_forbidden_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A generator gives numbers from 0, which included, to 1; and no other id is near."""

    class Nothing:
        @staticmethod
        def random() -> float:
            return 0.0

    monkeypatch.setattr(np.random, "default_rng", lambda _: Nothing())
    assert draw(np.array([-np.inf, -np.inf, 9.0, 0.0, 0.0, 0.0]), 1.0, 0) == 2


def test_sampling_drop_loops_stops_looping_sample_only() -> None:
    choice = SampledChoice(END, 0.0, 1.0, [(3,), (4,)])
    # Seed 3 draws 0.09 first, seed 4 0.94: one takes each id.
    choice.advance([unruled(logprobs({0: 0.5, 1: 0.5}), 0.0)])
    for token in np.random.default_rng(0).integers(0, 5, 40).tolist():
        choice.advance(
            [unruled(logprobs({0: 1.0}), 0.0), unruled(logprobs({token: 1.0}), 0.0)]
        )
    loop, other = choice.running
    assert choice.drop_loops() == [1]
    assert list(choice.running) == [other]
    assert choice.advance([unruled(logprobs({END: 1.0}), 0.0)]) == []
    first, second = choice.finish()
    assert (first, second.done) == (loop, True)


def test_sampling_drop_loops_of_all_keeps_hypotheses() -> None:
    choice = SampledChoice(END, 0.0, 0.4, [(1,), (2,)])
    for _ in range(40):
        rows = [unruled(logprobs({0: 1.0}), 0.0)] * 2
        choice.advance(rows[: len(choice.running)])
    assert choice.drop_loops() == []
    assert len(choice.finish()) == 2
    assert not choice.running


def test_sampling_repeats_with_the_same_seed_and_key() -> None:
    def sample(seed: int, key: int = 0) -> tuple[int, ...]:
        decoder = ScriptedDecoder([[1, 2, 3, 4, EOT]])
        options = DecodingOptions(
            search=SearchOptions(seed=seed, best_of=3), max_new_tokens=12
        )
        loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
        return loop.run(decoder.start(), [DecodingTask(PREFIX, key=key)], 1.5)[0].tokens

    assert sample(0) == sample(0)
    assert len({sample(seed) for seed in range(8)}) > 1
    assert len({sample(0, key) for key in range(8)}) > 1


def test_sampling_default_key_matches_key_zero() -> None:
    class Flat(ScriptedDecoder):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
        ) -> Any:
            logits = np.zeros(
                (len(state.rows), len(positions), TOY.n_vocab), np.float32
            )
            sums = np.full(logits.shape[:2], np.log(TOY.n_vocab), np.float32)
            return StepOutput(logits, sums), State(state.step + 1, state.rows)

    def drawn(*tasks: DecodingTask) -> tuple[int, ...]:
        options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=12)
        loop = DecodingLoop(Flat([[0]]), TOY_TOKENS, options)  # type: ignore[arg-type]
        return loop.run(State(0, (0,)), tasks, 1.0)[0].tokens

    assert drawn(DecodingTask(PREFIX)) == drawn(DecodingTask(PREFIX, key=0))
    assert drawn(DecodingTask(PREFIX)) != drawn(DecodingTask(PREFIX, key=1))


class Flat(ScriptedDecoder):
    """Every id is as likely as any other."""

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        logits = np.zeros((len(state.rows), len(positions), TOY.n_vocab), np.float32)
        sums = np.full(logits.shape[:2], np.log(TOY.n_vocab), np.float32)
        return StepOutput(logits, sums), State(state.step + 1, state.rows)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_sampling_at_each_temperature_differs(beam_size: int) -> None:
    """With equal scores the temperature changes nothing; only other random numbers do."""
    search = SearchOptions(best_of=1, beam_size=beam_size)  # which is of temperature 0
    options = DecodingOptions(search=search, max_new_tokens=12)
    drawn = {
        decode(Flat([[0]]), options, temperature=t)[0].tokens for t in (0.2, 0.4, 0.6)
    }
    assert len(drawn) == 3


def test_sampling_takes_the_best_of_several() -> None:
    """The first of five is the one that is drawn alone, so that five are as good or better."""

    def score(best_of: int, seed: int) -> float:
        options = DecodingOptions(
            search=SearchOptions(best_of=best_of, seed=seed), max_new_tokens=6
        )
        return decode(two_token_decoder(0.7), options, temperature=1.0)[0].avg_logprob

    gained = [score(5, seed) - score(1, seed) for seed in range(10)]
    assert min(gained) == 0.0
    assert sum(gain > 0.1 for gain in gained) > 3


@pytest.mark.parametrize(
    ("temperature", "share"), [(0.5, 0.9), (1.0, 0.75), (2.0, 0.634)]
)
def test_sampling_divides_logits_by_temperature(
    temperature: float, share: float
) -> None:
    """Odds of 3 to 1 become 9 to 1 at half the temperature, and the root of 3 at twice it."""
    options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=1)
    n_taken = 0
    for seed in range(400):
        loop = DecodingLoop(two_token_decoder(0.75), TOY_TOKENS, options)  # type: ignore[arg-type]
        (decoded,) = loop.run(
            State(0, (0,)), [DecodingTask(PREFIX, key=seed)], temperature
        )
        n_taken += decoded.tokens == (0,)
    assert n_taken / 400 == pytest.approx(share, abs=0.06)


def test_sampling_with_boost_takes_near_eot() -> None:
    """The end has odds of 1 to 3 with the best: within a boost of 1.5, not within one of 1."""

    class Ending(TwoTokenDecoder):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
        ) -> Any:
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
