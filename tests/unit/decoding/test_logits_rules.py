"""Logits rules: each by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.model_sizes import TINY, TOY_TOKENS
from whisper_hailo.decoding.logits_rules import (
    LogitsRules,
    allowed_logsumexp,
    block_ngrams,
    choose_token,
    end_lead,
    penalise_repetition,
    prefer_timestamps,
)
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions, TokenLimits
from whisper_hailo.transcription.segments import split_at_timestamps

N_VOCAB = 521


@pytest.mark.parametrize(
    "generated", [(), (1,), (20, 1, 2, 1, 60), (480, 1, 500), (1, 2, 3, 4, 5)]
)
@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(),
        DecodingOptions(timestamps=True),
        DecodingOptions(limits=TokenLimits(no_repeat_ngram=2)),
        DecodingOptions(anti_repetition=AntiRepetition(repetition_penalty=1.7)),
        DecodingOptions(
            anti_repetition=AntiRepetition(repetition_penalty=1.7),
            timestamps=True,
            limits=TokenLimits(no_repeat_ngram=2, suppress=tuple(range(2, 9))),
        ),
    ],
)
def test_apply_in_place_gives_the_same_as_apply(
    options: DecodingOptions, generated: tuple[int, ...]
) -> None:
    """Allowed tokens, their log-probabilities, and those of the model alone."""
    rules = LogitsRules(TOY_TOKENS, TINY, options, 10.0)
    raw = np.random.default_rng(0).normal(0, 2, N_VOCAB).astype(np.float32)
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    expected = rules.apply(raw, total, generated)
    found = rules.apply_in_place(raw.copy(), total, generated)
    assert found.logits.tolist() == expected.logits.tolist()
    assert found.logsumexp == expected.logsumexp
    may_come = expected.logits > -np.inf
    assert found.raw[may_come].tolist() == raw[may_come].tolist()
    left = raw[may_come].astype(np.float64)
    assert found.logsumexp == pytest.approx(float(np.log(np.exp(left).sum())), abs=1e-5)


@pytest.mark.parametrize("timestamps", [False, True])
def test_apply_with_penalty_penalises_all_generated_ids(timestamps: bool) -> None:
    """The first word of many as well as the last, and a time that may come again."""
    rules = LogitsRules(
        TOY_TOKENS,
        TINY,
        DecodingOptions(
            anti_repetition=AntiRepetition(repetition_penalty=2.0),
            timestamps=timestamps,
        ),
        10.0,
    )
    raw = np.full(N_VOCAB, 3.0, np.float32)
    raw[20:] = -9.0  # less likely than the words, all together
    generated = (20, 1, 2, 3, 4, 5)
    ruled = rules.apply(raw, 9.0, generated).logits
    assert ruled[:6].tolist() == [3.0, 1.5, 1.5, 1.5, 1.5, 1.5]
    ends = rules.apply(raw, 9.0, (*generated, 60)).logits
    assert ends[[60, 61]].tolist() == [-18.0, -9.0]


@pytest.mark.parametrize("barred", ["by a list", "as a run said before", "at first"])
def test_apply_weighs_timestamps_against_allowed_text_only(barred: str) -> None:
    """Three times have together log(3) more than one, which the best word left cannot match."""
    limits = TokenLimits(no_repeat_ngram=2 if barred == "as a run said before" else 0)
    options = DecodingOptions(timestamps=True, limits=limits)
    rules = LogitsRules(replace(TOY_TOKENS, begin_suppress=()), TINY, options, 10.0)
    word, generated = {
        "by a list": (7, (20, 1)),
        "as a run said before": (2, (20, 1, 2, 1)),
        "at first": (3, ()),
    }[barred]
    raw = np.full(N_VOCAB, -20.0, np.float32)
    raw[word], raw[4], raw[[30, 31, 32]] = 9.0, 2.0, 1.5
    left = np.flatnonzero(rules.apply(raw, 9.0, generated).logits > 0)
    assert left.tolist() == [30, 31, 32]
    raw[[31, 32]] = -20.0
    left = np.flatnonzero(rules.apply(raw, 9.0, generated).logits > 0)
    assert left.tolist() == ([4, 30] if generated else [30])


def test_apply_weighs_allowed_timestamps_only() -> None:
    """Before the last one said: together they would be likelier than the word."""
    rules = LogitsRules(TOY_TOKENS, TINY, DecodingOptions(timestamps=True), 10.0)
    raw = np.full(N_VOCAB, -20.0, np.float32)
    raw[4], raw[[30, 31, 32, 60]] = 2.0, 1.5
    left = np.flatnonzero(rules.apply(raw, 9.0, (40, 1)).logits > 0)
    assert left.tolist() == [4, 60]


def test_apply_logsumexp_drops_twice_listed_id_once() -> None:
    twice = 4
    special = replace(
        TOY_TOKENS, suppress=(twice,), begin_suppress=(twice, TOY_TOKENS.eot)
    )
    rules = LogitsRules(special, TINY, DecodingOptions())
    raw = np.random.default_rng(0).normal(size=N_VOCAB).astype(np.float32)
    raw[twice] = 5.0  # a part that counts, but not so large that the sum is made anew
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    alone = rules.apply(raw.copy(), total, ())
    left = raw[alone.logits > -np.inf].astype(np.float64)
    exact = float(np.log(np.exp(left).sum()))
    assert alone.logsumexp == pytest.approx(exact, abs=1e-6)
    in_place = rules.apply_in_place(raw.copy(), total, ())
    assert in_place.logsumexp == pytest.approx(exact, abs=1e-6)


EOT = 3


def logits(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_penalise_repetition_divides_positive_logits() -> None:
    ruled = penalise_repetition(logits(2.0, -2.0, 0.0, 4.0), [0, 1, 2], 2.0)
    assert ruled.tolist() == [1.0, -4.0, 0.0, 4.0]


def test_penalise_repetition_lowers_every_repeated_id() -> None:
    rng = np.random.default_rng(0)
    raw = rng.normal(size=100).astype(np.float32)
    ruled = penalise_repetition(raw.copy(), range(100), 1.1)
    assert np.all(ruled < raw)


def test_penalise_repetition_of_repeats_counts_id_once() -> None:
    once = penalise_repetition(logits(8.0, 1.0), [0], 2.0)
    often = penalise_repetition(logits(8.0, 1.0), [0, 0, 0, 0], 2.0)
    assert once.tolist() == often.tolist() == [4.0, 1.0]


@pytest.mark.parametrize(("generated", "penalty"), [([], 1.5), ([0, 1], 1.0)])
def test_penalise_repetition_off_keeps_logits(
    generated: list[int], penalty: float
) -> None:
    assert penalise_repetition(logits(2.0, -2.0), generated, penalty).tolist() == [
        2.0,
        -2.0,
    ]


def test_penalise_repetition_keeps_minus_infinity() -> None:
    assert penalise_repetition(logits(-np.inf, 1.0), [0], 1.2)[0] == -np.inf


def test_choose_token_without_boost_takes_the_best() -> None:
    assert choose_token(logits(1.0, 5.0, 2.0, 4.99), EOT, 0.0) == 1


def test_choose_token_with_boost_takes_near_eot_only() -> None:
    near = logits(1.0, 5.0, 2.0, 4.75)
    assert choose_token(near, EOT, 0.5) == EOT
    assert choose_token(near, EOT, 0.25) == 1  # the lead must be smaller than the boost
    assert choose_token(near, EOT, 0.125) == 1


def test_choose_token_with_negative_logits_applies_boost() -> None:
    assert choose_token(logits(-9.0, -5.0, -7.0, -5.25), EOT, 0.5) == EOT
    assert choose_token(logits(-9.0, -5.0, -7.0, -5.75), EOT, 0.5) == 1


def test_choose_token_with_suppressed_eot_takes_the_best() -> None:
    assert choose_token(logits(1.0, 2.0, 0.0, -np.inf), EOT, 0.5) == 1


def test_choose_token_after_penalty_applies_boost_last() -> None:
    """The order of the definition: penalty first, then the boost looks at the result."""
    ruled = penalise_repetition(logits(0.0, 4.0, 0.0, 3.9), [1], 2.0)
    assert choose_token(ruled, EOT, 0.2) == EOT


BEGIN = TOY_TOKENS.timestamp_begin
TIMED_EOT = TOY_TOKENS.eot
TIMED_N_VOCAB = 20 + 501  # times up to 10 s


@given(st.integers(0, 10_000), st.floats(0.5, 8.0))
@settings(max_examples=30, deadline=None)
def test_apply_to_random_logits_gives_rising_pairs(seed: int, spread: float) -> None:
    assert BEGIN is not None
    rng = np.random.default_rng(seed)
    rules = LogitsRules(
        TOY_TOKENS, TINY, DecodingOptions(timestamps=True), window_s=10.0
    )
    tokens: list[int] = []
    for _ in range(60):
        raw = rng.normal(scale=spread, size=TIMED_N_VOCAB).astype(np.float32)
        lse = float(np.log(np.exp(raw.astype(np.float64)).sum()))
        ruled = rules.apply(raw, lse, tokens)
        token = int(np.argmax(ruled.logits))
        assert ruled.logits[token] > -np.inf
        assert ruled.logsumexp <= lse + 1e-6
        if token == TIMED_EOT:
            break
        tokens.append(token)
    times = [token - BEGIN for token in tokens if token >= BEGIN]
    assert tokens[0] >= BEGIN
    assert times[0] <= 50  # one second
    assert times == sorted(times)
    assert times[-1] <= 500
    is_time = [token >= BEGIN for token in tokens]
    assert not any(all(is_time[i : i + 3]) for i in range(len(tokens) - 2))
    split = split_at_timestamps(tokens, BEGIN, 10.0)
    edges = [edge for part in split.segments for edge in (part.start_s, part.end_s)]
    assert edges == sorted(edges)
    assert 0 < split.advance_s <= 10.0


def test_prefer_timestamps_compares_sum_with_best_text() -> None:
    logits = np.array([3.0, 0.0, 2.5, 2.5], np.float32)
    assert prefer_timestamps(logits.copy(), 2).tolist()[:2] == [-np.inf, -np.inf]
    logits[0] = 3.5
    assert prefer_timestamps(logits.copy(), 2).tolist() == logits.tolist()


def times(*parts: float | str) -> list[int]:
    """Timestamps for numbers, a text id for each letter."""
    assert BEGIN is not None
    return [
        BEGIN + round(p * 50) if isinstance(p, float) else ord(p) - 97 for p in parts
    ]


@pytest.mark.parametrize(
    ("tokens", "edges", "advance_s", "alone"),
    [
        (
            times(0.0, "a", 2.0, 2.0, "b", 4.0, 4.0, "c"),
            [(0.0, 2.0), (2.0, 4.0)],
            4.0,
            False,
        ),
        (times(0.0, "a", 2.0, 2.5, "b", 4.0), [(0.0, 2.0), (2.5, 4.0)], 9.0, True),
        (times(0.0, "a", 2.0, 2.5, "b"), [(0.0, 2.0)], 2.0, False),
        (times(0.0, "a", 3.0), [(0.0, 3.0)], 9.0, True),
        (times(1.0, "a", 3.0), [(0.0, 3.0)], 9.0, True),
        (times(0.0, "a", "b"), [(0.0, 9.0)], 9.0, False),
        ([1, 2, 3], [(0.0, 9.0)], 9.0, False),
        ([], [(0.0, 9.0)], 9.0, False),
        (times("a", 3.0), [(0.0, 3.0)], 9.0, True),
        (times(0.0, "a", 0.0), [(0.0, 9.0)], 9.0, True),
        (times("a", 2.0, 2.0, "b", 4.0, 4.0), [(0.0, 2.0), (2.0, 4.0)], 4.0, False),
        (times("a", 2.0, 2.0, "b", 4.0), [(0.0, 2.0), (2.0, 4.0)], 9.0, True),
        (times(1.0, 1.0, "a", 2.0), [(1.0, 1.0), (1.0, 2.0)], 9.0, True),
    ],
)
def test_split_at_timestamps_gives_edges_and_advance(
    tokens: list[int], edges: list[tuple[float, float]], advance_s: float, alone: bool
) -> None:
    split = split_at_timestamps(tokens, BEGIN, 9.0)
    assert [(part.start_s, part.end_s) for part in split.segments] == edges
    assert (split.advance_s, split.ends_alone) == (advance_s, alone)


def test_split_at_timestamps_keeps_timestamps_in_segments() -> None:
    tokens = times(0.0, "a", 2.0, 2.0, "b", 4.0, 4.0, "c")
    split = split_at_timestamps(tokens, BEGIN, 9.0)
    assert [part.tokens for part in split.segments] == [
        tuple(tokens[:3]),
        tuple(tokens[3:6]),
    ]


@pytest.mark.parametrize(
    ("tokens", "edges", "advance_s"),
    [
        (times(0.0, "a", 2.0, 2.5, "b"), [(0.0, 2.0), (2.5, 9.0)], 9.0),
        (
            times(0.0, "a", 2.0, 2.0, "b", 4.0, 4.0),
            [(0.0, 2.0), (2.0, 4.0), (4.0, 4.0)],
            4.0,
        ),
        (times(0.0, "a", 2.0, 2.5, "b", 4.0), [(0.0, 2.0), (2.5, 4.0)], 9.0),
        (times(0.0, "a", "b"), [(0.0, 9.0)], 9.0),
        (times(0.0, "a", 3.0), [(0.0, 3.0)], 9.0),
    ],
)
def test_split_at_timestamps_keeping_rest_loses_nothing(
    tokens: list[int], edges: list[tuple[float, float]], advance_s: float
) -> None:
    split = split_at_timestamps(tokens, BEGIN, 9.0, keeps_rest=True)
    assert [(part.start_s, part.end_s) for part in split.segments] == edges
    assert [token for part in split.segments for token in part.tokens] == tokens, (
        "nothing is lost"
    )
    assert split.advance_s == advance_s


def test_split_without_timestamps_gives_one_segment() -> None:
    split = split_at_timestamps([1, 600, 2], None, 7.5)
    (whole,) = split.segments
    assert (whole.start_s, whole.end_s, whole.tokens) == (0.0, 7.5, (1, 600, 2))
    assert (split.advance_s, split.ends_alone) == (7.5, False)


FIRST_TIME = 20
END = TOY_TOKENS.eot
N_IDS = FIRST_TIME + 1501
NO_WORDS = [END, *TOY_TOKENS.languages.values()]
"""Control tokens that no rule takes away, as in the reference: no model says a language there."""
TEXT = [0, 1, 2, 3, 4, 5, 6, 8, 9, *NO_WORDS]
"""All but the id on the suppress list."""


def allowed(
    generated: Sequence[int], options: DecodingOptions, window_s: float | None = 10.0
) -> tuple[list[int], list[int]]:
    """Ids before the times that may come next, and steps of time."""
    rules = LogitsRules(TOY_TOKENS, TINY, options, window_s)
    raw = np.zeros(N_IDS, np.float32)
    raw[FIRST_TIME:] = -20.0  # no time is likelier than the words
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    left = np.flatnonzero(rules.apply(raw, total, generated).logits > -np.inf)
    return left[left < FIRST_TIME].tolist(), (
        left[left >= FIRST_TIME] - FIRST_TIME
    ).tolist()


def with_times(latest_s: float | None = 1.0) -> DecodingOptions:
    return DecodingOptions(timestamps=True, max_initial_timestamp_s=latest_s)


def at(step: int) -> int:
    return FIRST_TIME + step


@pytest.mark.parametrize(
    ("latest_s", "window_s", "last"),
    [
        *(
            (1.0, 10.0, 50),
            (0.0, 10.0, 0),
            (0.5, 10.0, 25),
            (None, 10.0, 500),
            (None, None, 1500),
        ),
        *((0.58, 10.0, 29), (None, 0.58, 29)),  # by 0.02 they are 28.99 in binary
    ],
)
def test_apply_first_id_is_timestamp_up_to_the_latest(
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
def test_apply_allowed_ids_depend_on_last_ids(
    generated: Sequence[int], words: list[int], times: Sequence[int]
) -> None:
    assert allowed(generated, with_times()) == (words, list(times))


def test_apply_suppresses_ids_of_options_or_checkpoint() -> None:
    after = (1,)
    text = sorted([7, *TEXT])

    def taken(**limits: object) -> list[int]:
        options = DecodingOptions(limits=TokenLimits(**limits))  # type: ignore[arg-type]
        return allowed(after, options)[0]

    assert taken() == [i for i in text if i != 7]
    assert taken(suppress=()) == text
    assert taken(suppress=(2, 3)) == [i for i in text if i not in {2, 3}]


@pytest.mark.parametrize(
    ("suppress_blank", "refused"), [(True, {6, END, 7}), (False, {7})]
)
def test_apply_suppress_blank_off_allows_blank_at_start(
    suppress_blank: bool, refused: set[int]
) -> None:
    options = DecodingOptions(limits=TokenLimits(suppress_blank=suppress_blank))
    assert set(range(END + 1)) - set(allowed((), options)[0]) == refused


def test_apply_always_suppresses_control_tokens() -> None:
    free = DecodingOptions(limits=TokenLimits(suppress=()))
    languages = set(TOY_TOKENS.languages.values())
    assert set(range(END + 1, FIRST_TIME)) & set(allowed((1,), free)[0]) == languages


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
def test_block_ngrams_forbids_repeated_runs(
    generated: Sequence[int], n: int, blocked: set[int]
) -> None:
    ruled = block_ngrams(np.zeros(6, np.float32), generated, n)
    assert set(np.flatnonzero(np.isneginf(ruled)).tolist()) == blocked


def test_apply_in_place_blocks_ngrams() -> None:
    rules = LogitsRules(
        TOY_TOKENS, TINY, DecodingOptions(limits=TokenLimits(no_repeat_ngram=2))
    )
    raw = np.zeros(30, np.float32)
    ruled = rules.apply_in_place(raw, float(np.log(30)), (1, 2, 1))
    assert ruled.logits[2] == -np.inf
    # The model's own logits are left for the log-probability.
    assert ruled.raw[2] == 0.0


def test_prefer_timestamps_on_a_tie_keeps_text() -> None:
    """Two times of 1/5 each against a word of 2/5: no more likely, so the word may stay."""
    even = np.log(np.array([4.0, 2.0, 1.0, 2.0, 2.0], np.float32))
    assert prefer_timestamps(even.copy(), 3)[0] == even[0]
    more = np.log(np.array([3.9, 2.0, 1.0, 2.0, 2.0], np.float32))
    assert np.isneginf(prefer_timestamps(more.copy(), 3)[:3]).all()
    assert prefer_timestamps(more.copy(), 3)[3:].tolist() == more[3:].tolist()
    # As even, and one impossible.
    third = np.array([np.log(2.0), 0.0, 0.0, -np.inf], np.float32)
    assert prefer_timestamps(third.copy(), 1).tolist() == third.tolist()
    nothing = np.full(3, -np.inf, np.float32)
    assert prefer_timestamps(nothing.copy(), 1).tolist() == nothing.tolist()
    no_times = np.array([1.0, -np.inf, -np.inf], np.float32)
    assert prefer_timestamps(no_times.copy(), 1).tolist() == no_times.tolist()


@pytest.mark.parametrize("height", [-200.0, -1.0, 1.0, 200.0])
def test_prefer_timestamps_is_the_same_at_any_height(height: float) -> None:
    """Two that are even have together 0.69 more than one; a third adds next to nothing."""
    logits = np.array([0.68, 0.0, 0.0, -9.0], np.float32) + np.float32(height)
    assert np.isneginf(prefer_timestamps(logits.copy(), 1)[0])
    logits[0] += np.float32(0.03)
    assert prefer_timestamps(logits.copy(), 1).tolist() == logits.tolist()


@pytest.mark.parametrize("n_masked", [1, 2, 30])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.89, 0.95, 0.999999])
def test_allowed_logsumexp_matches_what_is_not_masked(
    n_masked: int, share: float
) -> None:
    """Log of what the masked ones do not hold, however much they hold."""
    weights = np.full(64, (1 - share) / (64 - n_masked))
    weights[:n_masked] = share / n_masked
    raw = np.log(weights * 7.0).astype(np.float32)
    ruled = raw.copy()
    ruled[:n_masked] = -np.inf
    left = allowed_logsumexp(ruled, raw[:n_masked], float(np.log(7.0)))
    assert left == pytest.approx(np.log(7.0 * (1 - share)), abs=2e-5)


def test_allowed_logsumexp_of_large_logits_is_finite() -> None:
    """`exp` of 1000 is none."""
    logits = np.array([-500.0, 500.0, 499.0, -np.inf], np.float32)
    left = allowed_logsumexp(logits, np.full(4, 900.0, np.float32), 901.0)
    assert left == pytest.approx(500.0 + np.log(1 + np.exp(-1.0)), abs=1e-6)


def test_allowed_logsumexp_without_allowed_ids_is_unchanged() -> None:
    nothing = np.full(4, -np.inf, np.float32)
    assert allowed_logsumexp(nothing, np.zeros(4, np.float32), 1.5) == 1.5


def test_end_lead_is_measured_from_the_best_other_id() -> None:
    logits = np.array([5.0, 3.0, -1.0, 3.5], np.float32)
    assert end_lead(logits, 3, 0.0) == pytest.approx(-1.5)
    assert end_lead(logits, 3, 2.0) == pytest.approx(0.5)
    assert logits.tolist() == [5.0, 3.0, -1.0, 3.5]
    # Of the others the last is the best.
    assert end_lead(logits, 0, 1.0) == pytest.approx(2.5)


def test_choose_token_with_small_boost_takes_eot() -> None:
    assert choose_token(np.array([1.0, 0.5], np.float32), 1, 0.75) == 1


def test_apply_in_place_with_penalty_keeps_model_logits() -> None:
    """Under a penalty the log-probability is still that of the model among the allowed ids."""
    special = replace(TOY_TOKENS, suppress=())
    rules = LogitsRules(
        special,
        TINY,
        DecodingOptions(anti_repetition=AntiRepetition(repetition_penalty=2.0)),
    )
    raw = np.zeros(30, np.float32)
    raw[1] = 2.0
    ruled = rules.apply_in_place(raw.copy(), float(np.log(29 + np.exp(2.0))), (1,))
    assert ruled.logits[1] == 1.0
    assert ruled.raw[1] == 2.0
    never = 7  # control tokens, those of languages left out
    assert ruled.logsumexp == pytest.approx(np.log(29 - never + np.exp(2.0)), abs=1e-6)
