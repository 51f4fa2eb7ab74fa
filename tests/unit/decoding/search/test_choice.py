"""Which draws and which edges of a beam are counted as near-ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisper_hailo.decoding.rules.logits_rules import FilteredLogits
from whisper_hailo.decoding.search.choice import BeamChoice, Choice, SampledChoice, highest

EOT = 5
NEAR = 0.5

logits_of_tokens = st.lists(st.floats(-6, 6, width=32), min_size=6, max_size=6)
seeds = st.integers(0, 10_000)


def take(choice: Choice, logits: np.ndarray) -> None:
    total = float(np.log(np.exp(logits.astype(np.float64)).sum()))
    choice.advance([logits.copy()], [FilteredLogits(logits.copy(), total)])


def draw(logits: np.ndarray, temperature: float, seed: int, boost: float = 0.0) -> tuple[int, int]:
    """The token that was drawn, and how many near-ties were counted."""
    choice = SampledChoice(EOT, boost, temperature, [(seed,)], NEAR)
    take(choice, logits.astype(np.float32))
    (drawn,) = choice.finish()
    return (drawn.tokens or (EOT,))[0], choice.near_ties


@settings(max_examples=50, deadline=None)
@given(logits_of_tokens, logits_of_tokens, st.floats(0.05, 2.0), seeds)
def test_a_draw_that_is_not_counted_survives_any_rounding(
    values: list[float], noise: list[float], temperature: float, seed: int
) -> None:
    logits = np.array(values, np.float32)
    moved = logits + np.array(noise) / 12 * NEAR * 0.999  # no two are moved apart by more
    token, n_ties = draw(logits, temperature, seed)
    assert n_ties or draw(moved, temperature, seed)[0] == token


@settings(max_examples=50, deadline=None)
@given(logits_of_tokens, st.floats(0.05, 2.0), seeds)
def test_a_draw_that_is_counted_can_be_led_to_another_token(
    values: list[float], temperature: float, seed: int
) -> None:
    logits = np.array(values, np.float32)
    token, n_ties = draw(logits, temperature, seed)
    ids = np.arange(logits.size)
    to_next = logits + np.where(ids <= token, -NEAR, NEAR) * 0.5001
    to_last = logits + np.where(ids < token, NEAR, -NEAR) * 0.5001
    led = {draw(moved, temperature, seed)[0] for moved in (to_next, to_last)}
    assert not n_ties or led != {token}


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_draws_are_counted_where_they_can_be_led_elsewhere_and_only_there(
    temperature: float,
) -> None:
    """All odds before an edge against those behind it, moved apart by a little more or less."""
    rng, ids, n_counted = np.random.default_rng(0), np.arange(6), 0
    for seed in range(120):
        logits = rng.normal(0, 2, 6).astype(np.float32)
        token, n_ties = draw(logits, temperature, seed)
        steps = [np.where(ids <= token, -NEAR, NEAR), np.where(ids < token, NEAR, -NEAR)]
        far, near = (
            {draw(logits + step * size, temperature, seed)[0] for step in steps}
            for size in (0.502, 0.498)
        )
        assert far != {token} if n_ties else near == {token}
        n_counted += n_ties
    assert 12 < n_counted < 108


def test_sure_tokens_are_no_near_ties() -> None:
    logits = np.zeros(6, np.float32)
    logits[2] = 14.0
    assert sum(draw(logits, 1.0, seed)[1] for seed in range(100)) == 0
    assert sum(draw(np.zeros(6), 1.0, seed)[1] for seed in range(100)) > 50


@pytest.mark.parametrize(("end", "token", "n_ties"), [(13.6, 0, 1), (13.9, EOT, 1), (16, EOT, 0)])
def test_a_boost_that_nearly_decides_otherwise_is_one(end: float, token: int, n_ties: int) -> None:
    logits = np.zeros(6, np.float32)
    logits[[0, EOT]] = 30.0, end
    assert draw(logits, 0.05, 0, boost=16.2) == (token, n_ties)
    beam = BeamChoice(EOT, 16.2, 1, 1.0, NEAR)
    take(beam, logits)
    assert beam.near_ties == n_ties


@pytest.mark.parametrize(("end", "ends"), [(39.0, False), (39.5, True)])
def test_a_lead_of_just_the_boost_ends_no_hypothesis(end: float, *, ends: bool) -> None:
    """Of a beam as of a draw: the best of its tokens has 40, and the boost is 1."""
    logits = np.array([40.0, 39.25, 0.0, 0.0, 0.0, end], np.float32)
    beam = BeamChoice(EOT, 1.0, 2, 1.0, 1e-6)
    take(beam, logits)
    assert [one.tokens for one in beam.running] == ([] if ends else [(0,), (1,)])
    assert (draw(logits, 0.001, 0, boost=1.0)[0] == EOT) is ends


@pytest.mark.parametrize(("next_best", "n_ties"), [(3.6, 1), (3.4, 0)])
def test_only_what_is_right_behind_a_beam_s_edge_may_take_its_place(
    next_best: float, n_ties: int
) -> None:
    """Two rows of three candidates each: the last kept has 4, and one comes right behind it."""
    beam = BeamChoice(EOT, 0.0, 2, 1.0, NEAR)
    take(beam, np.array([9.0, 9.0, 0.0, 0.0, 0.0, -9.0], np.float32))
    beam.near_ties = 0
    rows = np.full((2, 6), -90.0, np.float32)
    rows[0, [0, 1, 2]] = 6.0, 4.0, next_best
    rows[1, [0, 1, 2]] = -20.0, -30.0, -40.0
    beam.advance(list(rows), [FilteredLogits(row.copy(), 0.0) for row in rows])
    assert [one.tokens for one in beam.running] == [(0, 0), (0, 1)]
    assert beam.near_ties == n_ties


@pytest.mark.parametrize(("leads", "n_ties"), [((5.0, 5.0), 0), ((5.0, 0.1), 1), ((0.1, 5.0), 1)])
def test_one_hypothesis_of_a_beam_that_nearly_ends_is_enough(
    leads: tuple[float, float], n_ties: int
) -> None:
    """By a boost of 1: the best of its tokens leads the end by so much more."""
    beam = BeamChoice(EOT, 1.0, 2, 1.0, NEAR)
    take(beam, np.array([40.0, 30.0, 0.0, 0.0, 0.0, 0.0], np.float32))
    assert (len(beam.running), beam.near_ties) == (2, 0)
    rows = np.zeros((2, 6), np.float32)
    rows[:, [1, 2]] = 40.0, 20.0
    rows[:, EOT] = 40.0 - 1.0 - np.array(leads)
    beam.advance(list(rows), [FilteredLogits(row.copy(), 41.0) for row in rows])
    assert beam.near_ties == n_ties


@pytest.mark.parametrize(("end", "n_ties"), [(3.3, 1), (4.0, 0)])
def test_an_end_that_nearly_falls_behind_the_beam_is_one(end: float, n_ties: int) -> None:
    logits = np.array([9.0, 3.0, 0.0, 0.0, 0.0, end], np.float32)
    beam = BeamChoice(EOT, 0.0, 2, 1.0, NEAR)
    take(beam, logits)
    assert [one.tokens for one in beam.running] == [(0,), (1,)]
    assert [one.done for one in beam.finish()].count(True) == 1
    assert beam.near_ties == n_ties


def test_each_sample_goes_on_from_its_own_row() -> None:
    """After a first token that all draw from the same row, each row is sure of another one."""
    choice = SampledChoice(EOT, 0.0, 1.0, [(0,), (1,), (2,)], NEAR)
    take(choice, np.array([0.0, 0.0, 0.0, 0.0, 0.0, -np.inf], np.float32))
    rows = np.zeros((3, 6), np.float32)
    rows[[0, 1, 2], [3, 4, 2]] = 60.0
    assert choice.advance(list(rows), [FilteredLogits(row.copy(), 60.0) for row in rows]) == [
        0,
        1,
        2,
    ]
    assert [one.tokens[-1] for one in choice.running] == [3, 4, 2]


def test_a_sample_is_the_same_whatever_is_drawn_beside_it() -> None:
    """Five samples have the one that is drawn alone among them."""
    even = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -np.inf], np.float32)

    def drawn(*seeds: int) -> list[tuple[int, ...]]:
        choice = SampledChoice(EOT, 0.0, 1.0, [(seed,) for seed in seeds], NEAR)
        for _ in range(8):
            rows = [even] * len(choice.running)
            choice.advance(rows, [FilteredLogits(row.copy(), np.log(5)) for row in rows])
        return [one.tokens for one in choice.finish()]

    assert drawn(1, 2, 3) == [*drawn(1), *drawn(2), *drawn(3)]
    assert len(set(drawn(1, 2, 3))) == 3


def test_a_draw_has_the_model_s_own_probability_and_its_end_has_one() -> None:
    """Not what a penalty left of it: 0.25 for the word, 0.5 for the end."""
    choice = SampledChoice(EOT, 0.0, 1.0, [(0,)], NEAR)
    for token, share in ((2, 0.25), (EOT, 0.5)):
        only = np.full(6, -np.inf, np.float32)
        only[token] = -7.0
        choice.advance([np.full(6, np.log(share), np.float32)], [FilteredLogits(only, 0.0)])
    (drawn,) = choice.finish()
    assert (drawn.tokens, drawn.done) == ((2,), True)
    assert drawn.sum_logprob == pytest.approx(np.log(0.125), abs=1e-5)


@pytest.mark.parametrize(("behind", "n_ties"), [(0.25, 1), (0.5, 0)])
def test_what_lies_just_as_far_apart_is_no_near_tie(behind: float, n_ties: int) -> None:
    """Closer together than 0.5: an end with its boost of 16, and the edge of a beam."""
    logits = np.zeros(6, np.float32)
    logits[[0, EOT]] = 30.0, 14.0 - behind
    assert draw(logits, 0.05, 0, boost=16.0) == (0, n_ties)
    ending, plain = (BeamChoice(EOT, boost, 1, 1.0, NEAR) for boost in (16.0, 0.0))
    ending.advance([logits], [FilteredLogits(logits.copy(), 30.0)])
    logits[[0, 1, EOT]] = 30.0, 30.0 - behind, 0.0
    plain.advance([logits], [FilteredLogits(logits.copy(), 30.0)])
    assert (ending.near_ties, plain.near_ties) == (n_ties, n_ties)


def test_a_draw_of_nothing_at_all_takes_no_id_that_is_barred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A generator gives numbers from 0, which included, to 1; and no other id is near."""

    class Nothing:
        @staticmethod
        def random() -> float:
            return 0.0

    monkeypatch.setattr(np.random, "default_rng", lambda _: Nothing())
    assert draw(np.array([-np.inf, -np.inf, 9.0, 0.0, 0.0, 0.0]), 1.0, 0) == (2, 0)


@pytest.mark.parametrize("n_vocab", [4, 256, 1600, 51_865])
@pytest.mark.parametrize("possible", ["all", "one in a hundred", "three", "the last block", "none"])
def test_the_highest_logits_are_those_of_a_whole_sort(n_vocab: int, possible: str) -> None:
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
        assert highest(logits, count) == expected[:count]
