"""What the running segment's text expects next, and what it shows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.commit_policy import (
    CLAUSE_S,
    DOUBT_S,
    MIN_PROBABILITY,
    SENTENCE_S,
    RunningText,
    Tentative,
)


def heard(*ids: int, guess: tuple[int, ...] = ()) -> BufferText:
    return BufferText(tuple(BufferWord(f" w{i}", (i,)) for i in ids), guess=guess)


def test_guess_is_tried_next_and_never_shown() -> None:
    text = RunningText(1.0)
    text.update(heard(1, 2, guess=(3, 4)), 0.5)
    assert text.draft == Draft((1, 2, 3, 4))
    assert [word.tokens for word in text.known] == [(1,), (2,)]
    text.update(heard(1, 2), 1.5)
    assert text.draft == Draft((1, 2), 1), (
        "one word is settled, and the guess is forgotten"
    )
    assert text.n_corrected == 0
    assert [word.tokens for word in text.finish(heard(1, 2, 5))] == [(1,), (2,), (5,)]


def ids(words: list[BufferWord]) -> list[int]:
    return [token for word in words for token in word.tokens]


def test_committed_words_behind_a_longer_guess_extend_the_text() -> None:
    text = RunningText(1.0)
    text.update(heard(7, 7, 7, 7, 7, 7), 0.5)
    for length_s in (1.0, 2.0):
        text.update(heard(1, 2), length_s)
    assert ids(text.committed) == [1]
    assert text.grown_s == text.settled_s == 1.0


def test_one_hypothesis_commits_nothing_however_short_settle_is() -> None:
    text = RunningText(0.0)
    text.update(heard(1, 2, 3), 5.0)
    assert (ids(text.committed), len(text.tentative)) == ([], 3)
    text.update(heard(1, 2, 3), 5.0)
    assert ids(text.committed) == [1, 2], (
        "the last word may not have been said to its end"
    )
    assert [old.word.tokens for old in text.tentative] == [(3,)]


@pytest.mark.parametrize(("later_s", "n_committed"), [(1.49, 0), (1.5, 2), (2.0, 2)])
def test_hypotheses_have_to_lie_apart(later_s: float, n_committed: int) -> None:
    text = RunningText(1.0)
    text.update(heard(1, 2, 3), 0.5)
    text.update(heard(1, 2, 3), later_s)
    assert len(text.committed) == n_committed
    assert text.settled_s == (0.5 if n_committed else 0.0)


def test_changed_word_begins_again_and_holds_others_back() -> None:
    text = RunningText(1.0)
    text.update(heard(1, 2, 3, 4), 1.0)
    text.update(heard(1, 5, 3, 4), 2.0)
    assert ids(text.committed) == [1]
    assert [old.n_hypotheses for old in text.tentative] == [1, 1, 1], (
        "what follows it was heard anew"
    )
    assert text.n_corrected == 3
    text.update(heard(1, 5, 3, 4), 2.5)
    assert ids(text.committed) == [1]
    text.update(heard(1, 5, 3, 4), 3.0)
    assert ids(text.committed) == [1, 5, 3]
    assert text.settled_s == 2.0


@pytest.mark.parametrize(
    "other", [BufferWord(" w9", (9,)), BufferWord(" w9", (2,)), BufferWord(" W2", (2,))]
)
def test_word_of_other_letters_or_other_tokens_is_another_word(
    other: BufferWord,
) -> None:
    text = RunningText(0.0)
    text.update(heard(1, 2, 3), 1.0)
    text.update(BufferText((*heard(1).words, other, *heard(3).words)), 2.0)
    assert ids(text.committed) == [1]
    assert text.n_corrected == 2


def test_words_that_are_taken_back_are_counted() -> None:
    text = RunningText(1.0)
    text.update(heard(1, 2, 3), 1.0)
    assert ids(list(text.finish(heard(1, 2)))) == [1, 2]
    assert text.n_corrected == 1
    text.update(heard(1), 1.5)
    assert (ids(list(text.known)), text.n_corrected) == ([1], 3)


def test_word_is_as_sure_as_it_was_heard_last() -> None:
    text = RunningText(1.0)
    for length_s, probability in ((1.0, 0.25), (2.0, 0.75), (3.0, 0.9)):
        text.update(
            BufferText((BufferWord(" a", (1,), probability), *heard(2).words)), length_s
        )
        assert text.known[0].probability == min(probability, 0.75), (
            "what stays does not change"
        )


def test_doubtful_word_that_becomes_sure_settles_at_once() -> None:
    text = RunningText(1.0)
    for length_s, probability, n_committed in (
        (5.0, MIN_PROBABILITY - 0.01, 0),
        (6.9, MIN_PROBABILITY - 0.01, 0),
        (7.0, MIN_PROBABILITY, 2),
    ):  # fmt: skip
        doubtful = BufferWord(" a", (1,), probability)
        sure = BufferWord(" b", (2,), 1.0)
        text.update(BufferText((doubtful, sure, BufferWord(" c", (3,)))), length_s)
        assert len(text.committed) == n_committed


def test_doubtful_word_holds_others_up_for_a_while_only() -> None:
    text = RunningText(1.0)
    doubtful = BufferWord(" a", (1,), 0.1)
    words = (doubtful, *heard(2, 3).words)
    for length_s in (5.0, 5.0 + DOUBT_S / 2, 4.99 + DOUBT_S):
        text.update(BufferText(words), length_s)
        assert text.committed == []
    text.update(BufferText(words), 5.0 + DOUBT_S)
    assert ids(text.committed) == [1, 2]


def test_word_with_another_mark_or_capital_is_as_old_as_before() -> None:
    text = RunningText(1.0)
    text.update(BufferText((BufferWord(" see.", (1, 9)), *heard(3).words)), 1.0)
    text.update(BufferText((BufferWord(" See", (2,)), *heard(3).words)), 2.0)
    assert [word.text for word in text.committed] == [" See"]
    assert text.n_corrected == 0


@pytest.mark.parametrize(
    ("length_s", "mark", "n_committed"),
    [
        (SENTENCE_S, ".", 2),
        (SENTENCE_S - 0.1, ".", 3),
        (SENTENCE_S, ",", 3),
        (CLAUSE_S, ",", 2),
    ],
)
def test_long_segment_stops_behind_the_mark_of_a_clause(
    length_s: float, mark: str, n_committed: int
) -> None:
    text = RunningText(1.0)
    words = (*heard(1).words, BufferWord(f" b{mark}", (2,)), *heard(3, 4).words)
    text.update(BufferText(words), length_s - 1.0)
    assert not text.may_end_clause(length_s), "nothing is committed yet"
    text.update(BufferText(words), length_s)
    assert len(text.committed) == n_committed
    assert text.ends_clause == (n_committed == 2)
    text.update(BufferText(words), length_s)
    assert len(text.committed) == 3, "it goes on if it was not cut there"
    assert not text.ends_clause


def test_rest_behind_a_cut_is_as_old_as_it_was() -> None:
    text = RunningText(9.0)
    text.update(heard(1, 2, 3), 2.0)
    text.update(heard(1, 2, 3, 4), 3.0)
    rest = text.split_rest(heard(1, 2, 3, 4, 5).words, 3, 1.5, 3.5)
    assert rest == [
        Tentative(BufferWord(" w3", (3,)), 0.5, 2),
        Tentative(BufferWord(" w4", (4,)), 1.5, 1),
        Tentative(BufferWord(" w5", (5,)), 2.0, 1),
    ]


def test_text_grows_when_it_is_longer_than_ever() -> None:
    text = RunningText(9.0)
    for length_s, ids_heard, grown_s in (
        (1.0, (1, 2), 1.0),
        (2.0, (1,), 1.0),
        (3.0, (1, 3), 1.0),
        (4.0, (1, 3, 4), 4.0),
    ):
        text.update(heard(*ids_heard), length_s)
        assert text.grown_s == grown_s


def test_draft_is_what_was_heard_and_what_is_settled_of_it() -> None:
    text = RunningText(0.5)
    text.update(heard(1, 2, 3), 1.0)
    text.update(heard(1, 2, 3), 2.0)
    assert text.draft == Draft((1, 2, 3), 2)
    assert ids(list(text.known)) == [1, 2, 3]


def spelled(*texts: str) -> BufferText:
    """Of an recognizer that gives no tokens."""
    return BufferText(tuple(BufferWord(f" {text}") for text in texts))


@pytest.mark.parametrize(
    ("later", "behind"),
    [
        (("one", "two", "three", "four"), ("three", "four")),
        (("One,", "two.", "three"), ("three",)),  # written otherwise, but the same
        (("won", "two", "three"), ("three",)),  # one misheard
        (("two", "three"), ("three",)),  # one dropped
        (("well", "one", "two", "three"), ("three",)),  # one put before
        (("one",), ()),
        ((), ()),
    ],
)
def test_words_of_an_engine_without_tokens_are_counted_off(
    later: tuple[str, ...], behind: tuple[str, ...]
) -> None:
    """What stands for the two committed words is found by the fewest edits."""
    text = RunningText(0.0)
    text.update(spelled("one", "two", "three"), 1.0)
    text.update(spelled("one", "two", "three"), 2.0)
    assert [word.text for word in text.committed] == [" one", " two"]
    found = text.words_behind_committed(spelled(*later))
    assert tuple(word.text.strip() for word in found) == behind


def edits(left: Sequence[str], right: Sequence[str]) -> int:
    """The fewest words that are changed, dropped and put in between."""
    if not left or not right:
        return len(left) + len(right)
    return min(
        edits(left[1:], right[1:]) + (left[0] != right[0]),
        edits(left[1:], right) + 1,
        edits(left, right[1:]) + 1,
    )


few_words = st.lists(st.sampled_from("abc"), max_size=4)


@settings(max_examples=50, deadline=None)
@given(few_words, few_words)
@example(["a", "b", "c"], ["a", "x", "b", "c", "d"])  # one put between
@example(["a", "b", "c"], ["a", "c", "d"])  # one dropped
@example(["a", "b", "c"], ["x", "x", "x", "x", "x", "b", "c"])  # too many put before
def test_of_ways_to_count_off_one_with_fewest_edits_is_taken(
    before: list[str], later: list[str]
) -> None:
    """Of several the one that counts off as many words as were committed, or nearly."""
    text = RunningText(0.0, committed=list(spelled(*before).words))
    found = text.words_behind_committed(spelled(*later))
    ways = range(len(later) + 1)
    n_gone = min(ways, key=lambda n: (edits(before, later[:n]), abs(n - len(before))))
    assert [word.text.strip() for word in found] == later[n_gone if before else 0 :]


def test_what_begins_or_ends_a_word_is_no_other_word() -> None:
    text = RunningText(0.0, committed=list(spelled("one", "two").words))
    found = text.words_behind_committed(spelled("(One,", "-TWO-", "…", "two"))
    assert [word.text for word in found] == [" …", " two"]


@pytest.mark.parametrize(
    ("joined", "rest"),
    [
        (BufferWord(" b,", (2, 9), 0.5), ","),
        (BufferWord(" B,", (2, 9), 0.5), ""),  # written otherwise: what was shown stays
    ],
)
def test_mark_that_joins_the_last_of_several_words(
    joined: BufferWord, rest: str
) -> None:
    text = RunningText(0.0, committed=[*heard(1).words, BufferWord(" b", (2,))])
    words = text.words_behind_committed(
        BufferText((*heard(1).words, joined, *heard(3).words))
    )
    assert [(word.text, word.tokens) for word in words] == [(rest, (9,)), (" w3", (3,))]
    assert [word.probability for word in words] == [0.5, None]


def test_changed_committed_words_are_counted_off_by_words() -> None:
    text = RunningText(0.0, committed=list(heard(1, 2).words))
    assert ids(list(text.words_behind_committed(heard(2, 3)))) == [3]
    assert ids(list(text.words_behind_committed(heard(1, 2, 3)))) == [3]
    assert ids(list(text.finish(heard(9, 2, 3)))) == [1, 2, 3], (
        "what was committed is shown"
    )


def test_committed_words_get_times_of_the_last_hypothesis() -> None:
    """It may have them as other words; where it has other tokens, they have no times."""
    committed = [
        BufferWord(" a", (1,)),
        BufferWord(" bc", (2, 3)),
        BufferWord(" d", (4,)),
    ]
    text = RunningText(0.0, committed=committed)
    last = BufferText((
        BufferWord(" a", (1,), 0.5, 0.0, 0.5), BufferWord(" b", (2,), 0.5, 0.5, 0.7),
        BufferWord("c", (3,), 0.5, 0.7, 0.9), BufferWord(" e", (5,), 0.5, 0.9, 1.0),
    ))  # fmt: skip
    times = [(word.text, word.start_s, word.end_s) for word in text.finish(last)]
    assert times[:3] == [(" a", 0.0, 0.5), (" bc", 0.5, 0.9), (" d", None, None)]


def test_words_are_counted_that_were_heard_again() -> None:
    text = RunningText(9.0)
    for length_s, n_times in ((1.0, 1), (2.0, 2), (3.0, 3)):
        text.update(heard(1, 2), length_s)
        assert [old.n_hypotheses for old in text.tentative] == [n_times] * 2
        assert [old.since_s for old in text.tentative] == [1.0, 1.0]


def test_mark_that_joins_last_committed_word_is_all_that_is_new() -> None:
    text = RunningText(0.0)
    for length_s in (1.0, 2.0):
        text.update(
            BufferText((BufferWord(" a", (1,)), BufferWord(" b", (2,)))), length_s
        )
    assert ids(text.committed) == [1]
    joined = BufferText((BufferWord(" a,", (1, 9), 0.5), BufferWord(" c", (3,))))
    words = text.words_behind_committed(joined)
    assert [(word.text, word.tokens) for word in words] == [(",", (9,)), (" c", (3,))]
