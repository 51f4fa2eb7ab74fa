"""Which ids may come next, counted out: OpenAI Whisper's rules of times, and the lists of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.shapes import TINY, TOY_TOKENS
from whisper_hailo.decoding.logits_rules import (
    LogitsRules,
    allowed_logsumexp,
    block_ngrams,
    choose_token,
    end_lead,
    prefer_timestamps,
)
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions, TokenLimits

BEGIN = 20
EOT = TOY_TOKENS.eot
N_VOCAB = BEGIN + 1501
NO_WORDS = [EOT, *TOY_TOKENS.languages.values()]
"""Control tokens that no rule takes away, as in the reference: no model says a language there."""
TEXT = [0, 1, 2, 3, 4, 5, 6, 8, 9, *NO_WORDS]
"""All but the id on the suppress list."""


def allowed(
    generated: Sequence[int], options: DecodingOptions, window_s: float | None = 10.0
) -> tuple[list[int], list[int]]:
    """Ids before the times that may come next, and steps of time."""
    rules = LogitsRules(TOY_TOKENS, TINY, options, window_s)
    raw = np.zeros(N_VOCAB, np.float32)
    raw[BEGIN:] = -20.0  # no time is likelier than the words
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    left = np.flatnonzero(rules.apply(raw, total, generated).logits > -np.inf)
    return left[left < BEGIN].tolist(), (left[left >= BEGIN] - BEGIN).tolist()


def with_times(latest_s: float | None = 1.0) -> DecodingOptions:
    return DecodingOptions(timestamps=True, max_initial_timestamp_s=latest_s)


def at(step: int) -> int:
    return BEGIN + step


@pytest.mark.parametrize(
    ("latest_s", "window_s", "last"),
    [
        *((1.0, 10.0, 50), (0.0, 10.0, 0), (0.5, 10.0, 25), (None, 10.0, 500), (None, None, 1500)),
        *((0.58, 10.0, 29), (None, 0.58, 29)),  # by 0.02 they are 28.99 in binary
    ],
)
def test_the_first_id_is_a_time_up_to_the_latest(
    latest_s: float | None, window_s: float | None, last: int
) -> None:
    """Steps of 0.02 s: one second is the 50th, and the 51st is refused."""
    assert allowed((), with_times(latest_s), window_s) == ([], list(range(last + 1)))


@pytest.mark.parametrize(
    ("generated", "words", "times"),
    [
        # After the first time, and after a pair: text, or the end.
        ((at(0),), TEXT, []),
        ((at(0), 1, at(40), at(40)), TEXT, []),
        ((at(0), 1, at(40), at(45)), TEXT, []),
        ((at(0), at(0)), TEXT, []),
        # After text: more text, or an end that lies after the start.
        ((at(0), 1), TEXT, range(1, 501)),
        ((at(40), 1), TEXT, range(41, 501)),
        ((at(40), 1, 2), TEXT, range(41, 501)),
        # After a segment's end: the next one's start, from there on, or the end of all.
        ((at(0), 1, at(40)), NO_WORDS, range(40, 501)),
        ((at(0), 1, at(500)), NO_WORDS, [500]),
        # So after a text that began without a time, as settled text may.
        ((1, at(40)), NO_WORDS, range(40, 501)),
        ((1, at(0)), NO_WORDS, range(501)),
        # The second segment, too, has to last.
        ((at(0), 1, at(40), at(45), 2), TEXT, range(46, 501)),
    ],
)
def test_after_each_kind_of_id(
    generated: Sequence[int], words: list[int], times: Sequence[int]
) -> None:
    assert allowed(generated, with_times()) == (words, list(times))


def test_the_list_of_ids_never_taken_is_the_caller_s_or_the_checkpoint_s() -> None:
    after = (1,)
    text = sorted([7, *TEXT])

    def taken(**limits: object) -> list[int]:
        options = DecodingOptions(limits=TokenLimits(**limits))  # type: ignore[arg-type]
        return allowed(after, options)[0]

    assert taken() == [i for i in text if i != 7]
    assert taken(suppress=()) == text
    assert taken(suppress=(2, 3)) == [i for i in text if i not in {2, 3}]


@pytest.mark.parametrize(("suppress_blank", "refused"), [(True, {6, EOT, 7}), (False, {7})])
def test_what_may_not_come_first_is_a_matter_of_asking(
    suppress_blank: bool, refused: set[int]
) -> None:
    options = DecodingOptions(limits=TokenLimits(suppress_blank=suppress_blank))
    assert set(range(EOT + 1)) - set(allowed((), options)[0]) == refused


def test_control_tokens_are_no_text_whatever_the_lists_say() -> None:
    free = DecodingOptions(limits=TokenLimits(suppress=()))
    languages = set(TOY_TOKENS.languages.values())
    assert set(range(EOT + 1, BEGIN)) & set(allowed((1,), free)[0]) == languages


@pytest.mark.parametrize(
    ("generated", "n", "blocked"),
    [
        ((1, 2, 3, 1, 2), 3, {3}),
        ((1, 2, 3, 1, 2), 2, {3}),
        ((1, 2, 3, 1, 2, 4, 1, 2), 3, {3, 4}),
        ((1, 2, 1), 1, {1, 2}),
        ((1, 1), 2, {1}),
        ((1, 2, 3), 3, set()),
        ((1, 2, 3, 2, 1), 3, set()),
        ((1, 2), 3, set()),
        ((1, 2, 1, 2), 0, set()),
        ((), 1, set()),
        ((), 3, set()),
    ],
)
def test_no_run_of_ids_comes_twice(generated: Sequence[int], n: int, blocked: set[int]) -> None:
    ruled = block_ngrams(np.zeros(6, np.float32), generated, n)
    assert set(np.flatnonzero(np.isneginf(ruled)).tolist()) == blocked


def test_runs_are_blocked_in_the_loop_s_own_path_too() -> None:
    rules = LogitsRules(TOY_TOKENS, TINY, DecodingOptions(limits=TokenLimits(no_repeat_ngram=2)))
    raw = np.zeros(30, np.float32)
    ruled, own = rules.apply_in_place(raw, float(np.log(30)), (1, 2, 1))
    assert ruled.logits[2] == -np.inf
    assert own[2] == 0.0  # the model's own logits are left for the log-probability


def test_times_win_together_only_over_a_text_that_is_less_likely() -> None:
    """Two times of 1/5 each against a word of 2/5: no more likely, so the word may stay."""
    even = np.log(np.array([4.0, 2.0, 1.0, 2.0, 2.0], np.float32))
    assert prefer_timestamps(even.copy(), 3)[0] == even[0]
    more = np.log(np.array([3.9, 2.0, 1.0, 2.0, 2.0], np.float32))
    assert np.isneginf(prefer_timestamps(more.copy(), 3)[:3]).all()
    assert prefer_timestamps(more.copy(), 3)[3:].tolist() == more[3:].tolist()
    third = np.array([np.log(2.0), 0.0, 0.0, -np.inf], np.float32)  # as even, and one impossible
    assert prefer_timestamps(third.copy(), 1).tolist() == third.tolist()
    nothing = np.full(3, -np.inf, np.float32)
    assert prefer_timestamps(nothing.copy(), 1).tolist() == nothing.tolist()
    no_times = np.array([1.0, -np.inf, -np.inf], np.float32)
    assert prefer_timestamps(no_times.copy(), 1).tolist() == no_times.tolist()


@pytest.mark.parametrize("height", [-200.0, -1.0, 1.0, 200.0])
def test_times_are_weighed_alike_at_any_height(height: float) -> None:
    """Two that are even have together 0.69 more than one; a third adds next to nothing."""
    logits = np.array([0.68, 0.0, 0.0, -9.0], np.float32) + np.float32(height)
    assert np.isneginf(prefer_timestamps(logits.copy(), 1)[0])
    logits[0] += np.float32(0.03)
    assert prefer_timestamps(logits.copy(), 1).tolist() == logits.tolist()


@pytest.mark.parametrize("n_masked", [1, 2, 30])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.89, 0.95, 0.999999])
def test_what_is_left_to_the_allowed_ids(n_masked: int, share: float) -> None:
    """Log of what the masked ones do not hold, however much they hold."""
    weights = np.full(64, (1 - share) / (64 - n_masked))
    weights[:n_masked] = share / n_masked
    raw = np.log(weights * 7.0).astype(np.float32)
    ruled = raw.copy()
    ruled[:n_masked] = -np.inf
    left = allowed_logsumexp(ruled, raw[:n_masked], float(np.log(7.0)))
    assert left == pytest.approx(np.log(7.0 * (1 - share)), abs=2e-5)


def test_sums_stay_numbers_however_far_apart_the_ids_are() -> None:
    """`exp` of 1000 is none."""
    logits = np.array([-500.0, 500.0, 499.0, -np.inf], np.float32)
    left = allowed_logsumexp(logits, np.full(4, 900.0, np.float32), 901.0)
    assert left == pytest.approx(500.0 + np.log(1 + np.exp(-1.0)), abs=1e-6)


def test_a_row_without_an_allowed_id_keeps_its_sum() -> None:
    nothing = np.full(4, -np.inf, np.float32)
    assert allowed_logsumexp(nothing, np.zeros(4, np.float32), 1.5) == 1.5


def test_end_lead_is_measured_from_the_best_other() -> None:
    logits = np.array([5.0, 3.0, -1.0, 3.5], np.float32)
    assert end_lead(logits, 3, 0.0) == pytest.approx(-1.5)
    assert end_lead(logits, 3, 2.0) == pytest.approx(0.5)
    assert logits.tolist() == [5.0, 3.0, -1.0, 3.5]
    assert end_lead(logits, 0, 1.0) == pytest.approx(2.5)  # of the others the last is the best


def test_a_small_boost_counts_as_well() -> None:
    assert choose_token(np.array([1.0, 0.5], np.float32), 1, 0.75) == 1


def test_the_penalty_leaves_the_model_s_probabilities_alone() -> None:
    """Under a penalty the log-probability is still that of the model among the allowed ids."""
    special = replace(TOY_TOKENS, suppress=())
    rules = LogitsRules(
        special, TINY, DecodingOptions(anti_repetition=AntiRepetition(repetition_penalty=2.0))
    )
    raw = np.zeros(30, np.float32)
    raw[1] = 2.0
    ruled, own = rules.apply_in_place(raw.copy(), float(np.log(29 + np.exp(2.0))), (1,))
    assert ruled.logits[1] == 1.0
    assert own[1] == 2.0
    never = 7  # control tokens, those of languages left out
    assert ruled.logsumexp == pytest.approx(np.log(29 - never + np.exp(2.0)), abs=1e-6)
