"""Beam search counted out by hand, as OpenAI Whisper's `BeamSearchDecoder` does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY
from tests.fakes.scripted_decoder import (
    EOT,
    ScriptedDecoder,
    State,
    decode,
)
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
)
from whisper_hailo.decoding.search.beam_search import BeamChoice, highest_logits
from whisper_hailo.decoding.search.sampling import SampledChoice
from whisper_hailo.decoding.search.window_search import Choice

Odds = Mapping[int, float]
"""Probability of some ids; the rest have next to none."""

END = 5
"""End-of-transcript of the beams that are advanced by hand."""


def logprobs(odds: Odds, n_vocab: int = 6) -> np.ndarray:
    row = np.full(n_vocab, -30.0, np.float32)
    for token, share in odds.items():
        row[token] = np.log(share)
    return row


def beam(size: int, patience: float = 1.0, boost: float = 0.0) -> BeamChoice:
    return BeamChoice(END, boost, size, patience)


def step(choice: BeamChoice, *rows: Odds) -> list[int]:
    return choice.advance([of(logprobs(odds), 0.0) for odds in rows])


def of(logits: np.ndarray, logsumexp: float) -> FilteredLogits:
    """Logits that no rule changed."""
    return FilteredLogits(logits, logsumexp, logits.copy())


def texts(hypotheses: Sequence[Any]) -> list[tuple[int, ...]]:
    return [one.tokens for one in hypotheses]


def test_beam_continues_the_best_sums() -> None:
    """Sums 0.6 * 0.5, 0.4 * 0.7, 0.6 * 0.3 and so on decide, whichever row they come from."""
    two = beam(2)
    assert step(two, {0: 0.6, 1: 0.4}) == [0, 0]
    assert texts(two.running) == [(0,), (1,)]
    assert step(two, {2: 0.5, 3: 0.3}, {4: 0.7, 0: 0.2}) == [0, 1]
    assert texts(two.running) == [(0, 2), (1, 4)]
    assert step(two, {1: 0.1, 2: 0.1}, {3: 0.6, 4: 0.4}) == [1, 1]
    assert texts(two.running) == [(1, 4, 3), (1, 4, 4)]
    assert two.running[0].sum_logprob == pytest.approx(
        np.log(0.4 * 0.7 * 0.6), abs=1e-5
    )


@pytest.mark.parametrize(
    ("patience", "n_steps"),
    [(0.5, 1), (0.8, 2), (1.0, 2), (1.2, 2), (1.5, 3), (2.0, 4)],
)
def test_beam_patience_sets_the_number_of_ends(patience: float, n_steps: int) -> None:
    """Every step finishes one, the best; two are wanted with patience 1, four with patience 2."""
    two = beam(2, patience)
    rows = 1
    for _ in range(n_steps):
        assert two.running
        step(two, *[{END: 0.5, 0: 0.3, 1: 0.2}, {END: 1e-9, 0: 1e-9, 1: 1e-9}][:rows])
        rows = 2
    assert not two.running
    assert len(two.finish()) == max(2, n_steps)


def test_beam_with_little_patience_waits_for_one_end() -> None:
    one = beam(1, patience=0.1)
    assert one.running
    step(one, {0: 0.7, END: 0.2})
    assert one.running
    step(one, {END: 0.9, 0: 0.1})
    assert not one.running
    assert texts(one.finish()) == [(0,)]


def test_beam_with_enough_ends_drops_running_ones() -> None:
    """Two ends are wanted and found, unlikely ones; what still runs is likelier and no text yet."""
    two = beam(2)
    # Behind the two that are kept, so it is no end.
    step(two, {0: 0.9, 1: 0.06, END: 0.03})
    assert texts(two.running) == [(0,), (1,)]
    step(two, {END: 0.5, 2: 0.4, 3: 0.1}, {END: 0.9, 4: 0.05})
    assert texts(two.running) == [(0, 2), (0, 3)]
    step(two, {END: 0.4, 1: 0.6}, {END: 0.9, 1: 0.1})
    assert texts(two.finish()) == [(0,), (0, 2)]


def test_beam_with_few_ends_adds_running_ones() -> None:
    three = beam(3)
    step(three, {END: 0.5, 0: 0.25, 1: 0.15, 2: 0.1})
    found = three.finish()
    assert texts(found) == [(), (0,), (1,)]
    assert [one.done for one in found] == [True, False, False]


def test_beam_ignores_ends_behind_the_kept_ones() -> None:
    """Only those that are better than the `beam_size` kept are put aside."""
    one = beam(1)
    step(one, {0: 0.6, END: 0.4})
    assert texts(one.running) == [(0,)]
    step(one, {0: 0.4, END: 0.6})
    assert texts(one.finish()) == [(0,)]


def test_beam_with_ends_alone_is_done() -> None:
    two = beam(2, patience=4.0)
    only_end = np.full(6, -np.inf, np.float32)
    only_end[END] = 0.0
    assert two.advance([of(only_end, 0.0)]) == []
    assert not two.running
    assert texts(two.finish()) == [()]


def test_beam_with_boost_takes_near_eot_only() -> None:
    one = beam(1, boost=1.0)
    step(one, {0: 0.5, END: 0.3})  # log(0.5 / 0.3) is 0.51, less than the boost
    assert texts(one.finish()) == [()]
    far = beam(1, boost=0.5)
    step(far, {0: 0.5, END: 0.3})
    assert texts(far.running) == [(0,)]


class Tree(ScriptedDecoder):
    """Each history, as far as it is named, has its odds."""

    odds: Mapping[tuple[int, ...], Odds]

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        histories = getattr(state, "rows", ())
        now = [
            () if state.step == 0 else (*before, int(token))
            for before, token in zip(histories, tokens[:, -1], strict=True)
        ]
        rows = [logprobs(self.odds[history], TOY.n_vocab) for history in now]
        logits = np.repeat(np.stack(rows)[:, np.newaxis], len(positions), axis=1)
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits, sums), State(state.step + 1, tuple(now))  # type: ignore[arg-type]

    def start(self) -> State:
        return State(0, ((),))  # type: ignore[arg-type]

    def select(self, state: State, rows: np.ndarray) -> State:
        return State(state.step, tuple(state.rows[int(row)] for row in rows))


TREE: dict[tuple[int, ...], Odds] = {
    (): {1: 0.5, 2: 0.3, 3: 0.2},
    (1,): {EOT: 0.45, 4: 0.55},
    (2,): {EOT: 0.9, 4: 0.1},
    (1, 4): {EOT: 0.001, 5: 0.999},
    (2, 4): {EOT: 0.6, 5: 0.4},
    (1, 4, 5): {EOT: 0.99, 5: 0.01},
    (2, 4, 5): {EOT: 0.99, 5: 0.01},
}


def found(**search: Any) -> tuple[int, ...]:
    decoder = Tree([[0]])
    decoder.odds = {**TREE, **search.pop("odds", {})}
    options = DecodingOptions(
        search=SearchOptions(beam_size=2, **search), max_new_tokens=6
    )
    return decode(decoder, options)[0].tokens


def test_beam_with_patience_finds_better_text() -> None:
    """(2) has log(0.27), (1) log(0.225); (1, 4, 5) has log(0.272) for three tokens."""
    assert found() == (2,)
    assert found(patience=2.0) == (1, 4, 5)


@pytest.mark.parametrize(
    ("length_penalty", "tokens"), [(None, (1, 4, 5)), (0.0, (2,)), (1.0, (1, 4, 5))]
)
def test_beam_applies_length_penalty(
    length_penalty: float | None, tokens: tuple[int, ...]
) -> None:
    """Three tokens with log(0.247) against one with log(0.27): by 3, by 1, by 8 to 6."""
    odds = {(1, 4, 5): {EOT: 0.9, 5: 0.1}}
    assert found(odds=odds, patience=2.0, length_penalty=length_penalty) == tokens


def test_beam_rows_follow_their_hypotheses() -> None:
    """(2, 3) with 0.36 overtakes (1, 3) with 0.105; it ends, the other one would go on."""
    decoder = Tree([[0]])
    decoder.odds = {
        (): {1: 0.5, 2: 0.4, 4: 0.1},
        (1,): {3: 0.21, 4: 0.2, 5: 0.2, 8: 0.2, 9: 0.19},
        (2,): {3: 0.9, 4: 0.1},
        (2, 3): {EOT: 0.9, 5: 0.1},
        (1, 3): {5: 0.9, 4: 0.1},
        (1, 3, 5): {EOT: 0.99},
        (2, 3, 5): {EOT: 0.99},
    }
    options = DecodingOptions(search=SearchOptions(beam_size=2), max_new_tokens=6)
    (decoded,) = decode(decoder, options)
    assert decoded.tokens == (2, 3)
    assert decoded.avg_logprob == pytest.approx(np.log(0.4 * 0.9 * 0.9) / 3, abs=1e-3)


def test_beams_of_two_windows_match_those_alone() -> None:
    """Two windows with beams of their own give what each gives alone."""
    options = DecodingOptions(search=SearchOptions(beam_size=3), max_new_tokens=5)
    scripts = [[1, 2, EOT], [3, EOT], [4, 5, 6, 8, EOT]]
    alone = [decode(ScriptedDecoder([script]), options)[0] for script in scripts]
    assert list(decode(ScriptedDecoder(scripts), options)) == alone
    assert [one.tokens for one in alone] == [(1, 2), (3,), (4, 5, 6, 8)]


def test_beam_stops_at_its_budget() -> None:
    decoder = ScriptedDecoder([[1]])
    options = DecodingOptions(search=SearchOptions(beam_size=2), max_new_tokens=3)
    (decoded,) = decode(decoder, options)
    assert decoded.tokens == (1, 1, 1)
    assert decoded.runaway
    assert len(decoder.fed) == 3


@pytest.mark.parametrize("penalty", [1.0, 3.0])
def test_beam_compares_penalised_logits(penalty: float) -> None:
    decoder = ScriptedDecoder([[5]], base=3.0)
    options = DecodingOptions(
        search=SearchOptions(beam_size=2),
        anti_repetition=AntiRepetition(repetition_penalty=penalty),
        max_new_tokens=2,
    )
    assert (decode(decoder, options)[0].tokens == (5, 5)) is (penalty == 1.0)


def take(choice: Choice, logits: np.ndarray) -> None:
    total = float(np.log(np.exp(logits.astype(np.float64)).sum()))
    choice.advance([of(logits.copy(), total)])


def draw(logits: np.ndarray, temperature: float, seed: int, boost: float = 0.0) -> int:
    choice = SampledChoice(END, boost, temperature, [(seed,)])
    take(choice, logits.astype(np.float32))
    (drawn,) = choice.finish()
    return (drawn.tokens or (END,))[0]


@pytest.mark.parametrize(("end", "ends"), [(39.0, False), (39.5, True)])
def test_boost_equal_to_the_lead_ends_nothing(end: float, *, ends: bool) -> None:
    """Of a beam as of a draw: the best of its tokens has 40, and the boost is 1."""
    logits = np.array([40.0, 39.25, 0.0, 0.0, 0.0, end], np.float32)
    beam = BeamChoice(END, 1.0, 2, 1.0)
    take(beam, logits)
    assert [one.tokens for one in beam.running] == ([] if ends else [(0,), (1,)])
    assert (draw(logits, 0.001, 0, boost=1.0) == END) is ends


def test_samples_continue_their_own_rows() -> None:
    """After a first token that all draw from the same row, each row is sure of another one."""
    choice = SampledChoice(END, 0.0, 1.0, [(0,), (1,), (2,)])
    take(choice, np.array([0.0, 0.0, 0.0, 0.0, 0.0, -np.inf], np.float32))
    rows = np.zeros((3, 6), np.float32)
    rows[[0, 1, 2], [3, 4, 2]] = 60.0
    assert choice.advance([of(row.copy(), 60.0) for row in rows]) == [
        0,
        1,
        2,
    ]
    assert [one.tokens[-1] for one in choice.running] == [3, 4, 2]


def test_samples_with_own_seeds_are_independent() -> None:
    """Five samples have the one that is drawn alone among them."""
    even = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -np.inf], np.float32)

    def drawn(*seeds: int) -> list[tuple[int, ...]]:
        choice = SampledChoice(END, 0.0, 1.0, [(seed,) for seed in seeds])
        for _ in range(8):
            rows = [even] * len(choice.running)
            choice.advance([of(row.copy(), np.log(5)) for row in rows])
        return [one.tokens for one in choice.finish()]

    assert drawn(1, 2, 3) == [*drawn(1), *drawn(2), *drawn(3)]
    assert len(set(drawn(1, 2, 3))) == 3


def test_sample_logprob_ignores_the_penalty() -> None:
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


def test_draw_of_zero_takes_no_forbidden_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A generator gives numbers from 0, which included, to 1; and no other id is near."""

    class Nothing:
        @staticmethod
        def random() -> float:
            return 0.0

    monkeypatch.setattr(np.random, "default_rng", lambda _: Nothing())
    assert draw(np.array([-np.inf, -np.inf, 9.0, 0.0, 0.0, 0.0]), 1.0, 0) == 2


@pytest.mark.parametrize("n_vocab", [4, 256, 1600, 51_865])
@pytest.mark.parametrize(
    "possible", ["all", "one in a hundred", "three", "the last block", "none"]
)
def test_highest_logits_match_a_whole_sort(n_vocab: int, possible: str) -> None:
    rng = np.random.default_rng(n_vocab)
    logits = np.round(rng.normal(0, 3, n_vocab), 2).astype(np.float32)  # some are equal
    ids = np.arange(n_vocab)
    keep = {
        "all": ids >= 0,
        "one in a hundred": ids % 100 == 3,
        "three": ids >= n_vocab - 3,
        "the last block": ids >= n_vocab - n_vocab % 256,
        "none": ids < 0,
    }[possible]
    logits[~keep] = -np.inf
    expected = [token for token in np.argsort(-logits, kind="stable") if keep[token]]
    for count in (1, 2, 6, 300):
        assert highest_logits(logits, count) == expected[:count]


def test_beam_stops_where_most_hypotheses_loop() -> None:
    one = beam(1)
    for _ in range(40):
        step(one, {0: 0.9, 1: 0.1})
    assert one.drop_loops() == []
    fresh = beam(2)
    step(fresh, {0: 0.6, 1: 0.4})
    assert fresh.drop_loops() == [0, 1]


def test_samples_that_loop_stop_alone() -> None:
    choice = SampledChoice(END, 0.0, 0.4, [(1,), (2,)])
    choice.advance([of(logprobs({0: 1.0}), 0.0)])
    for token in np.random.default_rng(0).integers(0, 5, 40).tolist():
        choice.advance([of(logprobs({0: 1.0}), 0.0), of(logprobs({token: 1.0}), 0.0)])
    loop, other = choice.running
    assert choice.drop_loops() == [1]
    assert list(choice.running) == [other]
    assert choice.advance([of(logprobs({END: 1.0}), 0.0)]) == []
    first, second = choice.finish()
    assert (first, second.done) == (loop, True)


def test_samples_that_all_loop_are_ranked() -> None:
    choice = SampledChoice(END, 0.0, 0.4, [(1,), (2,)])
    for _ in range(40):
        rows = [of(logprobs({0: 1.0}), 0.0)] * 2
        choice.advance(rows[: len(choice.running)])
    assert choice.drop_loops() == []
    assert len(choice.finish()) == 2
    assert not choice.running
