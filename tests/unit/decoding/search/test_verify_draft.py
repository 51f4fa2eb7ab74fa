"""Drafts change what decoding costs, never what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.decoding.search.oracle import (
    EOT,
    PREFIX,
    Oracle,
    all_options,
    edited,
    edits,
    from_scratch,
    run,
    saved,
)
from tests.unit.shapes import TOY, TOY_TOKENS
from whisper_hailo.core.errors import ModelError
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft, DraftCursor


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3), all_options, edits)
def test_any_draft_gives_the_text_of_none(
    seed: int, bias: float, options: DecodingOptions, changes: list[tuple[str, int, int]]
) -> None:
    truth = from_scratch(Oracle(seed, bias), options)
    draft = edited(truth.tokens, changes)
    drafted = run(Oracle(seed, bias), options, draft)
    assert drafted.tokens == truth.tokens
    assert drafted.runaway == truth.runaway
    assert drafted.avg_logprob == pytest.approx(truth.avg_logprob)
    assert drafted.no_speech_prob == truth.no_speech_prob
    assert len(saved(drafted).probabilities) == len(truth.tokens)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), all_options, edits, st.integers(1, 4))
def test_a_long_draft_is_looked_at_in_parts(
    seed: int, options: DecodingOptions, changes: list[tuple[str, int, int]], at_once: int
) -> None:
    truth = from_scratch(Oracle(seed), options)
    draft, oracle = edited(truth.tokens, changes), Oracle(seed)
    with patch("whisper_hailo.decoding.search.verify_draft.MAX_TOKENS_PER_PASS", at_once):
        drafted = run(oracle, options, draft)
    assert drafted.tokens == truth.tokens
    assert oracle.passes[0] <= len(PREFIX) + at_once
    assert all(n_fed <= 1 + at_once for n_fed in oracle.passes[1:])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), all_options, st.integers(0, 12), st.integers(1, 4))
def test_nothing_of_a_long_draft_is_lost_between_its_parts(
    seed: int, options: DecodingOptions, horizon: int, at_once: int
) -> None:
    """Neither passes nor the guess that is held back."""
    truth = from_scratch(Oracle(seed), options)
    draft = truth.tokens[: options.budget(TOY, len(PREFIX)) - 1]
    whole = run(Oracle(seed), options, draft, horizon=horizon)
    with patch("whisper_hailo.decoding.search.verify_draft.MAX_TOKENS_PER_PASS", at_once):
        free = run(Oracle(seed), options, draft)
        parts = run(Oracle(seed), options, draft, horizon=horizon)
    n_choices = len(truth.tokens) + (not truth.runaway)
    assert saved(free).n_passes == -(-n_choices // (at_once + 1))
    assert (parts.tokens, saved(parts).guess) == (whole.tokens, saved(whole).guess)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), all_options, edits, st.integers(0, 12))
def test_what_is_held_back_does_not_depend_on_the_draft(
    seed: int, options: DecodingOptions, changes: list[tuple[str, int, int]], horizon: int
) -> None:
    truth = from_scratch(Oracle(seed), options)
    history = (*PREFIX, *truth.tokens)
    looks = [Oracle.looks_at(history[:end]) for end in range(len(PREFIX), len(history) + 1)]
    n_heard = next((i for i, at in enumerate(looks) if at >= horizon), len(truth.tokens))
    draft = edited(truth.tokens, changes)
    drafted = run(Oracle(seed), options, draft, horizon=horizon)
    assert drafted.tokens == truth.tokens[:n_heard]
    assert bool(saved(drafted).guess) == (n_heard < len(truth.tokens))
    assert saved(drafted).guess[:1] == truth.tokens[n_heard : n_heard + 1]
    assert len(saved(drafted).probabilities) == n_heard
    assert drafted.runaway == (truth.runaway and not bool(saved(drafted).guess))


@pytest.mark.parametrize("horizon", [0, 3, 6, 9, 11, 12])
def test_the_text_ends_where_the_decoder_first_looks_at_the_end(horizon: int) -> None:
    """Whether the token there was drafted, is the first behind a draft, or comes by itself."""
    for seed in range(3):
        truth = from_scratch(Oracle(seed), DecodingOptions()).tokens
        history = (*PREFIX, *truth)
        looks = [Oracle.looks_at(history[:end]) for end in range(len(PREFIX), len(history))]
        n_heard = next((i for i, at in enumerate(looks) if at >= horizon), len(truth))
        for draft in ((), truth[:1], truth[: n_heard + 1], truth):
            found = run(Oracle(seed), DecodingOptions(), draft, horizon=horizon)
            assert found.tokens == truth[:n_heard]
            assert bool(saved(found).guess) == (n_heard < len(truth))
            whole = saved(run(Oracle(seed), DecodingOptions(), draft))
            assert saved(found).probabilities == whole.probabilities[:n_heard]
            assert saved(found).n_fixed == whole.n_fixed == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), edits, st.integers(0, 12))
def test_a_guess_that_comes_true_takes_no_pass(
    seed: int, changes: list[tuple[str, int, int]], horizon: int
) -> None:
    oracle, options = Oracle(seed), DecodingOptions()
    draft = edited(run(oracle, options).tokens, changes)
    held = run(oracle, options, draft, horizon=horizon)
    known = held.tokens
    plain, guessed = (run(oracle, options, [*known, *more]) for more in ((), saved(held).guess[:1]))
    assert guessed.tokens == plain.tokens
    assert saved(guessed).n_passes == saved(plain).n_passes - bool(saved(held).guess)
    again = run(oracle, options, [*known, *saved(held).guess], horizon=horizon)
    assert (again.tokens, saved(again).guess) == (known, saved(held).guess)
    assert saved(again).n_passes == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), all_options)
def test_the_whole_text_as_draft_takes_one_pass(seed: int, options: DecodingOptions) -> None:
    truth = from_scratch(Oracle(seed), options)
    drafted = run(Oracle(seed), options, truth.tokens)
    assert drafted.tokens == truth.tokens
    assert saved(drafted).n_passes <= (2 if truth.runaway else 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), all_options, edits)
def test_a_draft_never_costs_more_passes_than_none(
    seed: int, options: DecodingOptions, changes: list[tuple[str, int, int]]
) -> None:
    plain = run(Oracle(seed), options)
    draft = edited(plain.tokens, changes)
    assert saved(run(Oracle(seed), options, draft)).n_passes <= saved(plain).n_passes


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), all_options, st.lists(st.integers(0, 9), max_size=8), edits)
def test_fixed_tokens_stay_and_the_rest_follows_from_them(
    seed: int, options: DecodingOptions, fixed: list[int], changes: list[tuple[str, int, int]]
) -> None:
    fixed = fixed[: options.budget(TOY, len(PREFIX)) - 1]
    plain = run(Oracle(seed), options, fixed, len(fixed))
    assert list(plain.tokens[: len(fixed)]) == fixed
    rest = edited(plain.tokens[len(fixed) :], changes)
    drafted = run(Oracle(seed), options, [*fixed, *rest], len(fixed))
    assert drafted.tokens == plain.tokens
    assert saved(drafted).probabilities == saved(plain).probabilities
    assert saved(drafted).probabilities[: len(fixed)] == (1.0,) * len(fixed)


def scripted(draft: list[int], truth: list[int]) -> Decoded:
    """A decoder that follows a script, whatever it is fed."""

    class Scripted(Oracle):
        def logits(self, history: tuple[int, ...]) -> np.ndarray:
            at = len(history) - len(PREFIX)
            logits = np.zeros(TOY.n_vocab, np.float32)
            logits[truth[at] if 0 <= at < len(truth) else EOT] = 5.0
            return logits

    drafted = run(Scripted(), DecodingOptions(), draft)
    assert drafted.tokens == tuple(truth)
    return drafted


def test_one_pass_more_for_every_kind_of_difference() -> None:
    truth = [1, 2, 3, 4, 5, 8, 9]

    def passes(draft: list[int]) -> int:
        return saved(scripted(draft, truth)).n_passes

    assert passes(truth) == 1
    assert passes(truth[:4]) == 4  # three new tokens and the end
    assert passes([1, 2, 0, 4, 5, 8, 9]) == 2
    assert passes([1, 2, 4, 5, 8, 9]) == 3
    assert passes([1, 2, 0, 0, 3, 4, 5, 8, 9]) == 2
    assert passes([1, 2, 3, 4, 5, 8, 9, 0, 0]) == 1
    assert passes([]) == 8


def test_a_draft_ends_at_eot_and_at_ids_that_are_none() -> None:
    for stop in (EOT, -1, TOY.n_vocab):
        drafted = scripted([1, 2, stop, 3, 4], [1, 2, 3, 4])
        assert saved(drafted).n_passes == 3


@pytest.mark.parametrize("budget", [1, 3, 5])
def test_settled_text_leaves_room_for_a_token_at_least(budget: int) -> None:
    settled = (1, 2, 3, 4, 5)
    found = run(Oracle(4, -9.0), DecodingOptions(max_new_tokens=budget), settled, len(settled))
    assert found.tokens[: budget - 1] == settled[: budget - 1]
    assert len(found.tokens) == budget
    assert saved(found).n_fixed == budget - 1


def test_decoder_without_attended_places_holds_nothing_back() -> None:
    class Blind(Oracle):
        def step(self, *fed: Any, **asked: Any) -> Any:
            return super().step(*fed, **{**asked, "alignment": False})

    free, held = (run(Blind(3), DecodingOptions(), [1, 2], horizon=at) for at in (None, 0))
    assert held.tokens == free.tokens != ()
    assert saved(held).guess == ()


def test_broken_weights_are_refused() -> None:
    with pytest.raises(ModelError, match="no numbers"):
        run(Oracle(broken=True), DecodingOptions(), [1, 2])


def test_audio_that_goes_on_keeps_what_is_settled_whatever_beam() -> None:
    options = DecodingOptions(search=SearchOptions(beam_size=3))
    settled = from_scratch(Oracle(5), DecodingOptions()).tokens[:2]
    task = DecodingTask(PREFIX, draft=Draft(settled, n_fixed=2), is_running=True)
    loop = DecodingLoop(Oracle(5), TOY_TOKENS, options)  # type: ignore[arg-type]
    (decoded,) = loop.run((), [task])
    assert decoded.tokens[:2] == settled
    assert saved(decoded).n_fixed == 2


DRAFT = tuple(range(20))
STRANGE, STRANGER = 98, 99
"""Tokens that the draft does not have."""


def after(*said: int, draft: Sequence[int] = DRAFT) -> DraftCursor:
    cursor = DraftCursor(tuple(draft))
    for token in said:
        cursor.observe(token)
    return cursor


def test_a_draft_that_holds_is_proposed_whole() -> None:
    assert after().proposal() == DRAFT
    assert after(0, 1, 2).proposal() == after(0, 1, 2).rest() == DRAFT[3:]
    assert after(*DRAFT).proposal() == ()


@pytest.mark.parametrize(("token", "holds"), [(0, True), (6, True), (7, False)])
def test_up_to_six_dropped_tokens_are_bridged(token: int, holds: bool) -> None:
    cursor = after(token)
    assert cursor.n_mismatched == (0 if holds else 1)
    assert cursor.rest() == (DRAFT[token + 1 :] if holds else DRAFT[1:])


def test_of_equal_tokens_the_nearest_is_meant() -> None:
    assert after(1, draft=(0, 1, 2, 1, 3)).rest() == (2, 1, 3)


def test_behind_surprise_little_is_tried_from_next_token_on() -> None:
    """The strange token is thought to stand for the one that was expected."""
    cursor = after(0, STRANGE)
    assert cursor.rest() == DRAFT[2:]
    assert cursor.proposal() == DRAFT[2:10]


def test_nothing_is_expected_after_two_surprises() -> None:
    cursor = after(0, STRANGE, STRANGER)
    assert cursor.rest() == cursor.proposal() == ()


@pytest.mark.parametrize("surprises", [(STRANGE,), (STRANGE, STRANGER), (STRANGE,) * 9])
@pytest.mark.parametrize(
    ("token", "left"),
    [(1, DRAFT[2:]), (2, DRAFT[3:]), (8, DRAFT[9:]), (0, None), (9, None)],
    ids=["put before it", "in its place", "six dropped", "said already", "too far on"],
)
def test_draft_holds_again_where_one_of_its_next_tokens_comes(
    surprises: tuple[int, ...], token: int, left: tuple[int, ...] | None
) -> None:
    """However long the text n_mismatched: the surprise came where token 1 was expected."""
    cursor = after(0, *surprises, token)
    if left is None:
        assert cursor.n_mismatched == len(surprises) + 1
    else:
        assert (cursor.n_mismatched, cursor.rest(), cursor.proposal()) == (0, left, left)


def test_surprise_at_very_start_may_stand_before_first_token() -> None:
    assert after(STRANGE, 0).rest() == DRAFT[1:]
    assert after(STRANGE, 1).rest() == DRAFT[2:]


def test_behind_its_end_a_draft_proposes_nothing() -> None:
    cursor = after(0, 1, STRANGE, STRANGER, draft=(0,))
    assert cursor.proposal() == ()


TEXT = (1, 2, 3)
PLACES = (2, 5, 8, 11)
"""Where the decoder looks for each of these, and for the end."""


@dataclass
class Speaker(Oracle):
    """Says the text, whatever it is fed."""

    def looks_at(self, history: Sequence[int]) -> int:  # type: ignore[override]
        return PLACES[min(max(0, len(history) - len(PREFIX)), len(TEXT))]

    def logits(self, history: tuple[int, ...]) -> np.ndarray:
        at = len(history) - len(PREFIX)
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[TEXT[at] if 0 <= at < len(TEXT) else EOT] = 5.0
        return logits


@pytest.mark.parametrize(
    ("draft", "guess"),
    [(TEXT, (2, 3)), ((*TEXT, 9), (2, 3, 9)), ((1, 9, 3), (2,)), ((1,), (2,)), ((), (2,))],
    ids=["right", "goes on", "goes wrong", "ends there", "none"],
)
def test_what_is_held_back_of_a_draft_is_all_that_is_left_of_it(
    draft: tuple[int, ...], guess: tuple[int, ...]
) -> None:
    """If the token there is the draft's; otherwise it is the one token that was chosen."""
    found = run(Speaker(), DecodingOptions(), draft, horizon=PLACES[1])
    assert (found.tokens, saved(found).guess) == (TEXT[:1], guess)


@pytest.mark.parametrize("draft", [(), TEXT])
def test_the_end_of_a_text_is_no_guess(draft: tuple[int, ...]) -> None:
    """Where it is looked for is always the end of the audio."""
    found = run(Speaker(), DecodingOptions(), draft, horizon=PLACES[-1])
    whole = from_scratch(Speaker(), DecodingOptions())
    assert (found.tokens, found.runaway, saved(found).guess) == (TEXT, False, ())
    assert found.avg_logprob == pytest.approx(whole.avg_logprob)


@pytest.mark.parametrize("n_fixed", [0, 3])
def test_end_behind_settled_text_is_no_end_before_it(n_fixed: int) -> None:
    """Nothing more is said then; that the window were silence would take the text away."""
    found = run(Speaker(), DecodingOptions(), TEXT, n_fixed)
    assert (found.tokens, found.ends_at_once) == (TEXT, False)


def test_decoder_that_tells_places_unasked_holds_nothing_back() -> None:
    class Telling(Speaker):
        def step(self, *fed: Any, **_: Any) -> Any:
            return super().step(*fed, alignment=True)

    found = run(Telling(), DecodingOptions(), TEXT[:1])
    assert (found.tokens, saved(found).guess) == (TEXT, ())
