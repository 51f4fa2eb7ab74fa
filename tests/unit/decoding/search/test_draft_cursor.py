"""How a draft is followed where the text strays from it, counted out token by token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from whisper_hailo.decoding.search.verify_draft import DraftCursor

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
    assert after(0, 1, 2).proposal() == after(0, 1, 2).left() == DRAFT[3:]
    assert after(*DRAFT).proposal() == ()


@pytest.mark.parametrize(("token", "holds"), [(0, True), (6, True), (7, False)])
def test_up_to_six_dropped_tokens_are_bridged(token: int, holds: bool) -> None:
    cursor = after(token)
    assert cursor.n_mismatched == (0 if holds else 1)
    assert cursor.left() == (DRAFT[token + 1 :] if holds else DRAFT[1:])


def test_of_equal_tokens_the_nearest_is_meant() -> None:
    assert after(1, draft=(0, 1, 2, 1, 3)).left() == (2, 1, 3)


def test_behind_a_surprise_a_little_is_tried_from_the_next_token_on() -> None:
    """The strange token is thought to stand for the one that was expected."""
    cursor = after(0, STRANGE)
    assert cursor.left() == DRAFT[2:]
    assert cursor.proposal() == DRAFT[2:10]


def test_nothing_is_expected_after_two_surprises() -> None:
    cursor = after(0, STRANGE, STRANGER)
    assert cursor.left() == cursor.proposal() == ()


@pytest.mark.parametrize("surprises", [(STRANGE,), (STRANGE, STRANGER), (STRANGE,) * 9])
@pytest.mark.parametrize(
    ("token", "left"),
    [(1, DRAFT[2:]), (2, DRAFT[3:]), (8, DRAFT[9:]), (0, None), (9, None)],
    ids=["put before it", "in its place", "six dropped", "said already", "too far on"],
)
def test_the_draft_holds_again_where_one_of_its_next_tokens_comes(
    surprises: tuple[int, ...], token: int, left: tuple[int, ...] | None
) -> None:
    """However long the text n_mismatched: the surprise came where token 1 was expected."""
    cursor = after(0, *surprises, token)
    if left is None:
        assert cursor.n_mismatched == len(surprises) + 1
    else:
        assert (cursor.n_mismatched, cursor.left(), cursor.proposal()) == (0, left, left)


def test_a_surprise_at_the_very_start_may_stand_before_the_first_token() -> None:
    assert after(STRANGE, 0).left() == DRAFT[1:]
    assert after(STRANGE, 1).left() == DRAFT[2:]


def test_behind_its_end_a_draft_proposes_nothing() -> None:
    cursor = after(0, 1, STRANGE, STRANGER, draft=(0,))
    assert cursor.proposal() == ()
