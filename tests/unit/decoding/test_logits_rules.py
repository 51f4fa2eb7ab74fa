"""All rules together: what is left to the ids that are not masked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.shapes import TINY, TOY_TOKENS
from whisper_hailo.decoding.logits_rules import LogitsRules
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions, TokenLimits

N_VOCAB = 521


@pytest.mark.parametrize("generated", [(), (1,), (20, 1, 2, 1, 60), (480, 1, 500), (1, 2, 3, 4, 5)])
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
def test_rules_in_place_are_the_rules(options: DecodingOptions, generated: tuple[int, ...]) -> None:
    """What may come, how likely it is, and what the model itself says of what may come."""
    rules = LogitsRules(TOY_TOKENS, TINY, options, 10.0)
    raw = np.random.default_rng(0).normal(0, 2, N_VOCAB).astype(np.float32)
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    expected = rules.apply(raw, total, generated)
    found, own = rules.apply_in_place(raw.copy(), total, generated)
    assert found.logits.tolist() == expected.logits.tolist()
    assert found.logsumexp == expected.logsumexp
    may_come = expected.logits > -np.inf
    assert own[may_come].tolist() == raw[may_come].tolist()
    left = raw[may_come].astype(np.float64)
    assert found.logsumexp == pytest.approx(float(np.log(np.exp(left).sum())), abs=1e-5)


@pytest.mark.parametrize("timestamps", [False, True])
def test_all_that_was_said_in_a_window_is_penalised(timestamps: bool) -> None:
    """The first word of many as well as the last, and a time that may come again."""
    rules = LogitsRules(
        TOY_TOKENS,
        TINY,
        DecodingOptions(
            anti_repetition=AntiRepetition(repetition_penalty=2.0), timestamps=timestamps
        ),
        10.0,
    )
    raw = np.full(N_VOCAB, 3.0, np.float32)
    raw[20:] = -9.0  # less likely than the words, all together
    said = (20, 1, 2, 3, 4, 5)
    ruled = rules.apply(raw, 9.0, said).logits
    assert ruled[:6].tolist() == [3.0, 1.5, 1.5, 1.5, 1.5, 1.5]
    ends = rules.apply(raw, 9.0, (*said, 60)).logits
    assert ends[[60, 61]].tolist() == [-18.0, -9.0]


@pytest.mark.parametrize("barred", ["by a list", "as a run said before", "at first"])
def test_a_word_that_may_not_come_is_no_rival_of_the_times(barred: str) -> None:
    """Three times have together log(3) more than one, which the best word left cannot match."""
    limits = TokenLimits(no_repeat_ngram=2 if barred == "as a run said before" else 0)
    options = DecodingOptions(timestamps=True, limits=limits)
    rules = LogitsRules(replace(TOY_TOKENS, begin_suppress=()), TINY, options, 10.0)
    word, said = {
        "by a list": (7, (20, 1)),
        "as a run said before": (2, (20, 1, 2, 1)),
        "at first": (3, ()),
    }[barred]
    raw = np.full(N_VOCAB, -20.0, np.float32)
    raw[word], raw[4], raw[[30, 31, 32]] = 9.0, 2.0, 1.5
    left = np.flatnonzero(rules.apply(raw, 9.0, said).logits > 0)
    assert left.tolist() == [30, 31, 32]
    raw[[31, 32]] = -20.0
    left = np.flatnonzero(rules.apply(raw, 9.0, said).logits > 0)
    assert left.tolist() == ([4, 30] if said else [30])


def test_times_that_may_not_come_do_not_count_among_them() -> None:
    """Before the last one said: together they would be likelier than the word."""
    rules = LogitsRules(TOY_TOKENS, TINY, DecodingOptions(timestamps=True), 10.0)
    raw = np.full(N_VOCAB, -20.0, np.float32)
    raw[4], raw[[30, 31, 32, 60]] = 2.0, 1.5
    left = np.flatnonzero(rules.apply(raw, 9.0, (40, 1)).logits > 0)
    assert left.tolist() == [4, 60]


def test_an_id_on_both_suppress_lists_is_taken_off_once() -> None:
    twice = 4
    special = replace(TOY_TOKENS, suppress=(twice,), begin_suppress=(twice, TOY_TOKENS.eot))
    rules = LogitsRules(special, TINY, DecodingOptions())
    raw = np.random.default_rng(0).normal(size=N_VOCAB).astype(np.float32)
    raw[twice] = 5.0  # a part that counts, but not so large that the sum is made anew
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    alone = rules.apply(raw.copy(), total, ())
    left = raw[alone.logits > -np.inf].astype(np.float64)
    exact = float(np.log(np.exp(left).sum()))
    assert alone.logsumexp == pytest.approx(exact, abs=1e-6)
    in_place, _ = rules.apply_in_place(raw.copy(), total, ())
    assert in_place.logsumexp == pytest.approx(exact, abs=1e-6)
