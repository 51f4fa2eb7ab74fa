"""Logits rules: negative logits, empty history, end-of-transcript."""

import numpy as np
import pytest

from whisper_hailo.decoding.logits_rules import choose_token, penalise_repetition, suppress_ids

EOT = 3


def logits(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_suppress_makes_ids_impossible_and_leaves_the_rest() -> None:
    ruled = suppress_ids(logits(1.0, 2.0, 3.0), np.array([2, 0]))
    assert ruled.tolist() == [-np.inf, 2.0, -np.inf]


def test_suppress_nothing() -> None:
    ruled = suppress_ids(logits(1.0, -2.0), np.array([], dtype=np.int64))
    assert ruled.tolist() == [1.0, -2.0]


def test_penalty_divides_positive_and_multiplies_other_logits() -> None:
    ruled = penalise_repetition(logits(2.0, -2.0, 0.0, 4.0), [0, 1, 2], 2.0)
    assert ruled.tolist() == [1.0, -4.0, 0.0, 4.0]


def test_penalty_makes_every_repeated_id_less_likely() -> None:
    rng = np.random.default_rng(0)
    raw = rng.normal(size=100).astype(np.float32)
    ruled = penalise_repetition(raw.copy(), range(100), 1.1)
    assert np.all(ruled < raw)


def test_penalty_counts_an_id_once_however_often_it_came() -> None:
    once = penalise_repetition(logits(8.0, 1.0), [0], 2.0)
    often = penalise_repetition(logits(8.0, 1.0), [0, 0, 0, 0], 2.0)
    assert once.tolist() == often.tolist() == [4.0, 1.0]


@pytest.mark.parametrize(("generated", "penalty"), [([], 1.5), ([0, 1], 1.0)])
def test_penalty_off_changes_nothing(generated: list[int], penalty: float) -> None:
    assert penalise_repetition(logits(2.0, -2.0), generated, penalty).tolist() == [2.0, -2.0]


def test_penalty_keeps_suppressed_ids_impossible() -> None:
    assert penalise_repetition(logits(-np.inf, 1.0), [0], 1.2)[0] == -np.inf


def test_choose_takes_the_best_without_boost() -> None:
    assert choose_token(logits(1.0, 5.0, 2.0, 4.99), EOT, 0.0) == 1


def test_boost_takes_eot_within_the_threshold_only() -> None:
    near = logits(1.0, 5.0, 2.0, 4.75)
    assert choose_token(near, EOT, 0.5) == EOT
    assert choose_token(near, EOT, 0.25) == 1  # the lead must be smaller than the boost
    assert choose_token(near, EOT, 0.125) == 1


def test_boost_works_among_negative_logits() -> None:
    assert choose_token(logits(-9.0, -5.0, -7.0, -5.25), EOT, 0.5) == EOT
    assert choose_token(logits(-9.0, -5.0, -7.0, -5.75), EOT, 0.5) == 1


def test_boost_never_takes_a_suppressed_eot() -> None:
    assert choose_token(logits(1.0, 2.0, 0.0, -np.inf), EOT, 0.5) == 1


def test_a_penalised_eot_would_be_penalised_before_the_boost() -> None:
    """The order of the definition: penalty first, then the boost looks at the result."""
    ruled = penalise_repetition(logits(0.0, 4.0, 0.0, 3.9), [1], 2.0)
    assert choose_token(ruled, EOT, 0.2) == EOT
