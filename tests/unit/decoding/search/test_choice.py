"""One step of a draw and of a beam, on logits given by hand."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.search.beam_and_sampling import (
    BeamChoice,
    Choice,
    SampledChoice,
    highest_logits,
)

EOT = 5


def take(choice: Choice, logits: np.ndarray) -> None:
    total = float(np.log(np.exp(logits.astype(np.float64)).sum()))
    choice.advance([logits.copy()], [FilteredLogits(logits.copy(), total)])


def draw(logits: np.ndarray, temperature: float, seed: int, boost: float = 0.0) -> int:
    choice = SampledChoice(EOT, boost, temperature, [(seed,)])
    take(choice, logits.astype(np.float32))
    (drawn,) = choice.finish()
    return (drawn.tokens or (EOT,))[0]


@pytest.mark.parametrize(("end", "ends"), [(39.0, False), (39.5, True)])
def test_a_lead_of_just_the_boost_ends_no_hypothesis(end: float, *, ends: bool) -> None:
    """Of a beam as of a draw: the best of its tokens has 40, and the boost is 1."""
    logits = np.array([40.0, 39.25, 0.0, 0.0, 0.0, end], np.float32)
    beam = BeamChoice(EOT, 1.0, 2, 1.0)
    take(beam, logits)
    assert [one.tokens for one in beam.running] == ([] if ends else [(0,), (1,)])
    assert (draw(logits, 0.001, 0, boost=1.0) == EOT) is ends


def test_each_sample_goes_on_from_its_own_row() -> None:
    """After a first token that all draw from the same row, each row is sure of another one."""
    choice = SampledChoice(EOT, 0.0, 1.0, [(0,), (1,), (2,)])
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
        choice = SampledChoice(EOT, 0.0, 1.0, [(seed,) for seed in seeds])
        for _ in range(8):
            rows = [even] * len(choice.running)
            choice.advance(rows, [FilteredLogits(row.copy(), np.log(5)) for row in rows])
        return [one.tokens for one in choice.finish()]

    assert drawn(1, 2, 3) == [*drawn(1), *drawn(2), *drawn(3)]
    assert len(set(drawn(1, 2, 3))) == 3


def test_a_draw_has_the_model_s_own_probability_and_its_end_has_one() -> None:
    """Not what a penalty left of it: 0.25 for the word, 0.5 for the end."""
    choice = SampledChoice(EOT, 0.0, 1.0, [(0,)])
    for token, share in ((2, 0.25), (EOT, 0.5)):
        only = np.full(6, -np.inf, np.float32)
        only[token] = -7.0
        choice.advance([np.full(6, np.log(share), np.float32)], [FilteredLogits(only, 0.0)])
    (drawn,) = choice.finish()
    assert (drawn.tokens, drawn.done) == ((2,), True)
    assert drawn.sum_logprob == pytest.approx(np.log(0.125), abs=1e-5)


def test_a_draw_of_nothing_at_all_takes_no_id_that_is_barred(
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
        assert highest_logits(logits, count) == expected[:count]
