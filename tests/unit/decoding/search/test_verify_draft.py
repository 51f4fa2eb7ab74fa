"""Drafts change the cost of decoding, never its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.model_sizes import TOY, TOY_TOKENS
from tests.fakes.scripted_decoder import (
    EOT,
    PREFIX,
    HashedDecoder,
    all_options,
    edited,
    edits,
    from_scratch,
    run,
    saved,
)
from whisper_hailo.core.errors import ModelError
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft, DraftCursor


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3), all_options, edits)
def test_draft_random_edits_keep_the_text(
    seed: int,
    bias: float,
    options: DecodingOptions,
    changes: list[tuple[str, int, int]],
) -> None:
    truth = from_scratch(HashedDecoder(seed, bias), options)
    draft = edited(truth.tokens, changes)
    drafted = run(HashedDecoder(seed, bias), options, draft)
    assert drafted.tokens == truth.tokens
    assert drafted.runaway == truth.runaway
    assert drafted.avg_logprob == pytest.approx(truth.avg_logprob)
    assert drafted.no_speech_prob == truth.no_speech_prob
    assert len(saved(drafted).probabilities) == len(truth.tokens)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), all_options, edits, st.integers(1, 4))
def test_draft_longer_than_a_pass_is_verified_in_parts(
    seed: int,
    options: DecodingOptions,
    changes: list[tuple[str, int, int]],
    at_once: int,
) -> None:
    truth = from_scratch(HashedDecoder(seed), options)
    draft = edited(truth.tokens, changes)
    decoder = HashedDecoder(seed)
    with patch(
        "whisper_hailo.decoding.search.verify_draft.MAX_TOKENS_PER_PASS", at_once
    ):
        drafted = run(decoder, options, draft)
    assert drafted.tokens == truth.tokens
    assert decoder.passes[0] <= len(PREFIX) + at_once
    assert all(n_fed <= 1 + at_once for n_fed in decoder.passes[1:])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), all_options, st.integers(0, 12), st.integers(1, 4))
def test_draft_verified_in_parts_keeps_passes_and_guess(
    seed: int, options: DecodingOptions, horizon: int, at_once: int
) -> None:
    """Neither passes nor the guess that is held back."""
    truth = from_scratch(HashedDecoder(seed), options)
    draft = truth.tokens[: options.budget(TOY, len(PREFIX)) - 1]
    whole = run(HashedDecoder(seed), options, draft, horizon=horizon)
    with patch(
        "whisper_hailo.decoding.search.verify_draft.MAX_TOKENS_PER_PASS", at_once
    ):
        free = run(HashedDecoder(seed), options, draft)
        parts = run(HashedDecoder(seed), options, draft, horizon=horizon)
    n_choices = len(truth.tokens) + (not truth.runaway)
    assert saved(free).n_passes == -(-n_choices // (at_once + 1))
    assert (parts.tokens, saved(parts).guess) == (whole.tokens, saved(whole).guess)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), all_options, edits, st.integers(0, 12))
def test_draft_horizon_result_is_independent_of_draft(
    seed: int,
    options: DecodingOptions,
    changes: list[tuple[str, int, int]],
    horizon: int,
) -> None:
    truth = from_scratch(HashedDecoder(seed), options)
    history = (*PREFIX, *truth.tokens)
    looks = [
        HashedDecoder.looks_at(history[:end])
        for end in range(len(PREFIX), len(history) + 1)
    ]
    n_kept = next((i for i, at in enumerate(looks) if at >= horizon), len(truth.tokens))
    draft = edited(truth.tokens, changes)
    drafted = run(HashedDecoder(seed), options, draft, horizon=horizon)
    assert drafted.tokens == truth.tokens[:n_kept]
    assert bool(saved(drafted).guess) == (n_kept < len(truth.tokens))
    assert saved(drafted).guess[:1] == truth.tokens[n_kept : n_kept + 1]
    assert len(saved(drafted).probabilities) == n_kept
    assert drafted.runaway == (truth.runaway and not bool(saved(drafted).guess))


@pytest.mark.parametrize("horizon", [0, 3, 6, 9, 11, 12])
def test_draft_horizon_ends_text_at_first_attention_to_it(horizon: int) -> None:
    """Whether the token there was drafted, is the first behind a draft, or comes by itself."""
    for seed in range(3):
        truth = from_scratch(HashedDecoder(seed), DecodingOptions()).tokens
        history = (*PREFIX, *truth)
        looks = [
            HashedDecoder.looks_at(history[:end])
            for end in range(len(PREFIX), len(history))
        ]
        n_kept = next((i for i, at in enumerate(looks) if at >= horizon), len(truth))
        for draft in ((), truth[:1], truth[: n_kept + 1], truth):
            found = run(HashedDecoder(seed), DecodingOptions(), draft, horizon=horizon)
            assert found.tokens == truth[:n_kept]
            assert bool(saved(found).guess) == (n_kept < len(truth))
            whole = saved(run(HashedDecoder(seed), DecodingOptions(), draft))
            assert saved(found).probabilities == whole.probabilities[:n_kept]
            assert saved(found).n_fixed == whole.n_fixed == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), edits, st.integers(0, 12))
def test_draft_with_confirmed_guess_saves_a_pass(
    seed: int, changes: list[tuple[str, int, int]], horizon: int
) -> None:
    decoder = HashedDecoder(seed)
    options = DecodingOptions()
    draft = edited(run(decoder, options).tokens, changes)
    held = run(decoder, options, draft, horizon=horizon)
    known = held.tokens
    plain, guessed = (
        run(decoder, options, [*known, *more]) for more in ((), saved(held).guess[:1])
    )
    assert guessed.tokens == plain.tokens
    assert saved(guessed).n_passes == saved(plain).n_passes - bool(saved(held).guess)
    again = run(decoder, options, [*known, *saved(held).guess], horizon=horizon)
    assert (again.tokens, saved(again).guess) == (known, saved(held).guess)
    assert saved(again).n_passes == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), all_options)
def test_draft_of_whole_text_takes_one_pass(
    seed: int, options: DecodingOptions
) -> None:
    truth = from_scratch(HashedDecoder(seed), options)
    drafted = run(HashedDecoder(seed), options, truth.tokens)
    assert drafted.tokens == truth.tokens
    assert saved(drafted).n_passes <= (2 if truth.runaway else 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), all_options, edits)
def test_draft_never_costs_more_passes(
    seed: int, options: DecodingOptions, changes: list[tuple[str, int, int]]
) -> None:
    plain = run(HashedDecoder(seed), options)
    draft = edited(plain.tokens, changes)
    assert (
        saved(run(HashedDecoder(seed), options, draft)).n_passes
        <= saved(plain).n_passes
    )


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000), all_options, st.lists(st.integers(0, 9), max_size=8), edits
)
def test_draft_fixed_tokens_are_kept(
    seed: int,
    options: DecodingOptions,
    fixed: list[int],
    changes: list[tuple[str, int, int]],
) -> None:
    fixed = fixed[: options.budget(TOY, len(PREFIX)) - 1]
    plain = run(HashedDecoder(seed), options, fixed, len(fixed))
    assert list(plain.tokens[: len(fixed)]) == fixed
    rest = edited(plain.tokens[len(fixed) :], changes)
    drafted = run(HashedDecoder(seed), options, [*fixed, *rest], len(fixed))
    assert drafted.tokens == plain.tokens
    assert saved(drafted).probabilities == saved(plain).probabilities
    assert saved(drafted).probabilities[: len(fixed)] == (1.0,) * len(fixed)


def scripted(draft: list[int], truth: list[int]) -> Decoded:
    """A decoder that follows a script, whatever it is fed."""

    class ScriptedDecoder(HashedDecoder):
        def logits(self, history: tuple[int, ...]) -> np.ndarray:
            at = len(history) - len(PREFIX)
            logits = np.zeros(TOY.n_vocab, np.float32)
            logits[truth[at] if 0 <= at < len(truth) else EOT] = 5.0
            return logits

    drafted = run(ScriptedDecoder(), DecodingOptions(), draft)
    assert drafted.tokens == tuple(truth)
    return drafted


def test_draft_difference_costs_one_pass() -> None:
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


def test_draft_ends_at_eot_and_unknown_ids() -> None:
    for stop in (EOT, -1, TOY.n_vocab):
        drafted = scripted([1, 2, stop, 3, 4], [1, 2, 3, 4])
        assert saved(drafted).n_passes == 3


@pytest.mark.parametrize("budget", [1, 3, 5])
def test_draft_fixed_text_leaves_room_for_one_token(budget: int) -> None:
    settled = (1, 2, 3, 4, 5)
    found = run(
        HashedDecoder(4, -9.0),
        DecodingOptions(max_new_tokens=budget),
        settled,
        len(settled),
    )
    assert found.tokens[: budget - 1] == settled[: budget - 1]
    assert len(found.tokens) == budget
    assert saved(found).n_fixed == budget - 1


def test_draft_without_alignment_holds_nothing_back() -> None:
    class Blind(HashedDecoder):
        def step(self, *fed: Any, **asked: Any) -> Any:
            return super().step(*fed, **{**asked, "alignment": False})

    free, held = (
        run(Blind(3), DecodingOptions(), [1, 2], horizon=at) for at in (None, 0)
    )
    assert held.tokens == free.tokens != ()
    assert saved(held).guess == ()


def test_draft_nan_logsumexp_is_refused() -> None:
    with pytest.raises(ModelError):
        run(HashedDecoder(broken=True), DecodingOptions(), [1, 2])


def test_draft_of_live_audio_keeps_fixed_text_with_beam() -> None:
    options = DecodingOptions(search=SearchOptions(beam_size=3))
    settled = from_scratch(HashedDecoder(5), DecodingOptions()).tokens[:2]
    task = DecodingTask(PREFIX, draft=Draft(settled, n_fixed=2), is_running=True)
    loop = DecodingLoop(HashedDecoder(5), TOY_TOKENS, options)  # type: ignore[arg-type]
    (decoded,) = loop.run((), [task])
    assert decoded.tokens[:2] == settled
    assert saved(decoded).n_fixed == 2


DRAFT = tuple(range(20))
STRANGE = 98
STRANGER = 99
"""Tokens that the draft does not have."""


def cursor_after(*tokens: int, draft: Sequence[int] = DRAFT) -> DraftCursor:
    cursor = DraftCursor(tuple(draft))
    for token in tokens:
        cursor.observe(token)
    return cursor


def test_cursor_of_matching_draft_proposes_all() -> None:
    assert cursor_after().proposal() == DRAFT
    assert cursor_after(0, 1, 2).proposal() == cursor_after(0, 1, 2).rest() == DRAFT[3:]
    assert cursor_after(*DRAFT).proposal() == ()


@pytest.mark.parametrize(("token", "holds"), [(0, True), (6, True), (7, False)])
def test_cursor_bridges_up_to_six_dropped_tokens(token: int, holds: bool) -> None:
    cursor = cursor_after(token)
    assert cursor.n_mismatched == (0 if holds else 1)
    assert cursor.rest() == (DRAFT[token + 1 :] if holds else DRAFT[1:])


def test_cursor_with_equal_tokens_takes_the_nearest() -> None:
    assert cursor_after(1, draft=(0, 1, 2, 1, 3)).rest() == (2, 1, 3)


def test_cursor_after_a_mismatch_proposes_eight_tokens() -> None:
    """The strange token is thought to stand for the one that was expected."""
    cursor = cursor_after(0, STRANGE)
    assert cursor.rest() == DRAFT[2:]
    assert cursor.proposal() == DRAFT[2:10]


def test_cursor_after_two_mismatches_proposes_nothing() -> None:
    cursor = cursor_after(0, STRANGE, STRANGER)
    assert cursor.rest() == cursor.proposal() == ()


@pytest.mark.parametrize("surprises", [(STRANGE,), (STRANGE, STRANGER), (STRANGE,) * 9])
@pytest.mark.parametrize(
    ("token", "left"),
    [(1, DRAFT[2:]), (2, DRAFT[3:]), (8, DRAFT[9:]), (0, None), (9, None)],
    ids=[
        "put before it",
        "in its place",
        "six dropped",
        "an earlier token",
        "too far on",
    ],
)
def test_cursor_resumes_at_one_of_the_next_tokens(
    surprises: tuple[int, ...], token: int, left: tuple[int, ...] | None
) -> None:
    """For any length of the mismatch: the surprise came where token 1 was expected."""
    cursor = cursor_after(0, *surprises, token)
    if left is None:
        assert cursor.n_mismatched == len(surprises) + 1
    else:
        assert (cursor.n_mismatched, cursor.rest(), cursor.proposal()) == (
            0,
            left,
            left,
        )


def test_cursor_mismatched_at_start_may_resume_at_first() -> None:
    assert cursor_after(STRANGE, 0).rest() == DRAFT[1:]
    assert cursor_after(STRANGE, 1).rest() == DRAFT[2:]


def test_cursor_behind_the_draft_proposes_nothing() -> None:
    cursor = cursor_after(0, 1, STRANGE, STRANGER, draft=(0,))
    assert cursor.proposal() == ()


TEXT = (1, 2, 3)
PLACES = (2, 5, 8, 11)
"""Places that the decoder attends to for each token and the end."""


@dataclass
class Speaker(HashedDecoder):
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
    [
        (TEXT, (2, 3)),
        ((*TEXT, 9), (2, 3, 9)),
        ((1, 9, 3), (2,)),
        ((1,), (2,)),
        ((), (2,)),
    ],
    ids=["right", "goes on", "goes wrong", "ends there", "none"],
)
def test_draft_horizon_guess_keeps_rest_of_draft(
    draft: tuple[int, ...], guess: tuple[int, ...]
) -> None:
    """If the token there is the draft's; otherwise it is the one token that was chosen."""
    found = run(Speaker(), DecodingOptions(), draft, horizon=PLACES[1])
    assert (found.tokens, saved(found).guess) == (TEXT[:1], guess)


@pytest.mark.parametrize("draft", [(), TEXT])
def test_draft_horizon_never_holds_eot_back(draft: tuple[int, ...]) -> None:
    """The decoder always attends to the end of the audio."""
    found = run(Speaker(), DecodingOptions(), draft, horizon=PLACES[-1])
    whole = from_scratch(Speaker(), DecodingOptions())
    assert (found.tokens, found.runaway, saved(found).guess) == (TEXT, False, ())
    assert found.avg_logprob == pytest.approx(whole.avg_logprob)


@pytest.mark.parametrize("n_fixed", [0, 3])
def test_draft_eot_after_fixed_text_is_no_ends_at_once(n_fixed: int) -> None:
    """No speech follows; a verdict of silence would take the text away."""
    found = run(Speaker(), DecodingOptions(), TEXT, n_fixed)
    assert (found.tokens, found.ends_at_once) == (TEXT, False)


def test_draft_without_horizon_ignores_alignment() -> None:
    class AligningSpeaker(Speaker):
        def step(self, *fed: Any, **_: Any) -> Any:
            return super().step(*fed, alignment=True)

    found = run(AligningSpeaker(), DecodingOptions(), TEXT[:1])
    assert (found.tokens, saved(found).guess) == (TEXT, ())
