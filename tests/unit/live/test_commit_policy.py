"""Committed and tentative words of the running segment, and the draft for the next pass."""

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
    PLACE_S,
    SENTENCE_S,
    RunningText,
    Tentative,
)


def hypothesis(*token_ids: int, guess: tuple[int, ...] = ()) -> BufferText:
    return BufferText(tuple(BufferWord(f" w{i}", (i,)) for i in token_ids), guess=guess)


def test_running_text_guess_is_drafted_and_never_shown() -> None:
    text = RunningText(1.0)
    text.update(hypothesis(1, 2, guess=(3, 4)), 0.5)
    assert text.draft == Draft((1, 2, 3, 4))
    assert [word.tokens for word in text.known] == [(1,), (2,)]
    text.update(hypothesis(1, 2), 1.5)
    assert text.draft == Draft((1, 2), 1), (
        "one word is settled, and the guess is dropped"
    )
    assert text.n_corrected == 0
    assert [word.tokens for word in text.finish(hypothesis(1, 2, 5))] == [
        (1,),
        (2,),
        (5,),
    ]


def token_ids(words: list[BufferWord]) -> list[int]:
    return [token for word in words for token in word.tokens]


def test_running_text_collapse_is_believed_the_second_time() -> None:
    text = RunningText(9.0)
    text.update(hypothesis(1, 2, 3, 4), 1.0)
    text.update(hypothesis(5), 1.5)
    assert [item.word.tokens for item in text.tentative] == [(1,), (2,), (3,), (4,)]
    assert (text.n_corrected, text.is_collapsed) == (0, True)
    text.update(hypothesis(5), 2.0)
    assert [item.word.tokens for item in text.tentative] == [(5,)]
    assert (text.n_corrected, text.is_collapsed) == (4, False)


@pytest.mark.parametrize(
    "later", [hypothesis(1, 2), hypothesis(5, 6, 7, 8), hypothesis(1, 6)]
)
def test_running_text_change_that_is_no_collapse_is_taken(later: BufferText) -> None:
    text = RunningText(9.0)
    text.update(hypothesis(1, 2, 3, 4), 1.0)
    text.update(later, 1.5)
    assert [item.word for item in text.tentative] == list(later.words)


def test_running_text_longer_guess_keeps_committed_words() -> None:
    text = RunningText(1.0)
    text.update(hypothesis(7, 7, 7, 7, 7, 7), 0.5)
    for length_s in (1.0, 1.5, 2.5):
        text.update(hypothesis(1, 2), length_s)
    assert token_ids(text.committed) == [1]
    assert text.grown_s == text.settled_s == 1.5


def test_running_text_one_hypothesis_commits_nothing() -> None:
    text = RunningText(0.0)
    text.update(hypothesis(1, 2, 3), 5.0)
    assert token_ids(text.committed) == []
    assert len(text.tentative) == 3
    text.update(hypothesis(1, 2, 3), 5.0)
    assert token_ids(text.committed) == [1, 2], "the last word may be incomplete"
    assert [old.word.tokens for old in text.tentative] == [(3,)]


@pytest.mark.parametrize(("later_s", "n_committed"), [(1.49, 0), (1.5, 2), (2.0, 2)])
def test_running_text_commits_after_settle_s(later_s: float, n_committed: int) -> None:
    text = RunningText(1.0)
    text.update(hypothesis(1, 2, 3), 0.5)
    text.update(hypothesis(1, 2, 3), later_s)
    assert len(text.committed) == n_committed
    assert text.settled_s == (0.5 if n_committed else 0.0)


def test_running_text_changed_word_holds_back_later_words() -> None:
    text = RunningText(1.0)
    text.update(hypothesis(1, 2, 3, 4), 1.0)
    text.update(hypothesis(1, 5, 3, 4), 2.0)
    assert token_ids(text.committed) == [1]
    assert [item.n_hypotheses for item in text.tentative] == [1, 2, 2]
    assert [item.since_s for item in text.tentative] == [2.0, 1.0, 1.0]
    assert text.n_corrected == 1
    text.update(hypothesis(1, 5, 3, 4), 2.5)
    assert token_ids(text.committed) == [1]
    text.update(hypothesis(1, 5, 3, 4), 3.0)
    assert token_ids(text.committed) == [1, 5, 3]
    assert text.settled_s == 2.0


def test_running_text_inserted_word_leaves_ages_of_others() -> None:
    text = RunningText(1.0)
    text.update(hypothesis(2, 3, 4), 1.0)
    text.update(hypothesis(1, 2, 3, 4), 1.5)
    assert [item.since_s for item in text.tentative] == [1.5, 1.0, 1.0, 1.0]
    assert text.n_corrected == 0
    text.update(hypothesis(1, 2, 3, 4), 2.5)
    assert token_ids(text.committed) == [1, 2, 3]


def test_running_text_place_that_keeps_changing_is_committed() -> None:
    text = RunningText(2.0)
    start_s = 1.0
    text.update(hypothesis(1, 8, 9), start_s)
    for index in range(7):  # a word that is never two seconds old
        last = 5 + index // 2 % 2
        text.update(hypothesis(last, 8, 9), start_s + 0.5 * (index + 1))
        assert text.committed == []
    text.update(hypothesis(last, 8, 9), start_s + PLACE_S)
    assert token_ids(text.committed) == [last, 8]


def test_running_text_place_whose_last_word_is_new_waits() -> None:
    text = RunningText(2.0)
    text.update(hypothesis(1, 8, 9), 1.0)
    text.update(hypothesis(5, 8, 9), 1.0 + PLACE_S)
    assert text.committed == []


def test_running_text_words_behind_a_replaced_one_have_new_places() -> None:
    text = RunningText(2.0)
    text.update(hypothesis(1), 1.0)
    text.update(hypothesis(5, 6, 7), 3.0)
    assert [item.place_s for item in text.tentative] == [1.0, 3.0, 3.0]


@pytest.mark.parametrize("other", [BufferWord(" w9", (9,)), BufferWord(" w9", (2,))])
def test_running_text_other_letters_or_tokens_are_changes(
    other: BufferWord,
) -> None:
    text = RunningText(0.0)
    text.update(hypothesis(1, 2, 3), 1.0)
    text.update(BufferText((*hypothesis(1).words, other, *hypothesis(3).words)), 2.0)
    assert token_ids(text.committed) == [1]
    assert text.n_corrected == 1


def test_running_text_counts_corrected_words() -> None:
    text = RunningText(1.0)
    text.update(hypothesis(1, 2, 3), 1.0)
    assert token_ids(list(text.finish(hypothesis(1, 2)))) == [1, 2]
    assert text.n_corrected == 1
    text.update(hypothesis(1), 1.5)
    assert token_ids(list(text.known)) == [1]
    assert text.n_corrected == 3


def test_running_text_word_has_its_last_probability() -> None:
    text = RunningText(1.0)
    for length_s, probability in ((1.0, 0.25), (2.0, 0.75), (3.0, 0.9)):
        text.update(
            BufferText((BufferWord(" a", (1,), probability), *hypothesis(2).words)),
            length_s,
        )
        assert text.known[0].probability == min(probability, 0.75), (
            "a committed word does not change"
        )


def test_running_text_doubtful_word_settles_once_sure() -> None:
    text = RunningText(1.0)
    for length_s, probability, n_committed in (
        (5.0, MIN_PROBABILITY - 0.01, 0),
        (6.9, MIN_PROBABILITY - 0.01, 0),
        (7.0, MIN_PROBABILITY, 2),
    ):
        doubtful = BufferWord(" a", (1,), probability)
        sure = BufferWord(" b", (2,), 1.0)
        text.update(BufferText((doubtful, sure, BufferWord(" c", (3,)))), length_s)
        assert len(text.committed) == n_committed


def test_running_text_doubtful_word_settles_after_doubt_s() -> None:
    text = RunningText(1.0)
    doubtful = BufferWord(" a", (1,), 0.1)
    words = (doubtful, *hypothesis(2, 3).words)
    for length_s in (5.0, 5.0 + DOUBT_S / 2, 4.99 + DOUBT_S):
        text.update(BufferText(words), length_s)
        assert text.committed == []
    text.update(BufferText(words), 5.0 + DOUBT_S)
    assert token_ids(text.committed) == [1, 2]


def test_running_text_other_mark_or_case_is_no_change() -> None:
    text = RunningText(1.0)
    text.update(BufferText((BufferWord(" see.", (1, 9)), *hypothesis(3).words)), 1.0)
    text.update(BufferText((BufferWord(" See", (2,)), *hypothesis(3).words)), 2.0)
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
def test_running_text_long_segment_ends_at_a_clause(
    length_s: float, mark: str, n_committed: int
) -> None:
    text = RunningText(1.0)
    words = (
        *hypothesis(1).words,
        BufferWord(f" b{mark}", (2,)),
        *hypothesis(3, 4).words,
    )
    text.update(BufferText(words), length_s - 1.0)
    assert not text.may_end_clause(length_s), "no word is committed yet"
    text.update(BufferText(words), length_s)
    assert len(text.committed) == n_committed
    assert text.ends_clause == (n_committed == 2)
    text.update(BufferText(words), length_s)
    assert len(text.committed) == 3, "the text goes on if it was not cut there"
    assert not text.ends_clause


def test_running_text_rest_after_cut_keeps_its_age() -> None:
    text = RunningText(9.0)
    text.update(hypothesis(1, 2, 3), 2.0)
    text.update(hypothesis(1, 2, 3, 4), 3.0)
    rest = text.split_rest(hypothesis(1, 2, 3, 4, 5).words, 3, 1.5, 3.5)
    assert rest == [
        Tentative(BufferWord(" w3", (3,)), 0.5, 0.5, 2),
        Tentative(BufferWord(" w4", (4,)), 1.5, 1.5, 1),
        Tentative(BufferWord(" w5", (5,)), 2.0, 2.0, 1),
    ]


def test_running_text_grown_s_is_time_of_longest_text() -> None:
    text = RunningText(9.0)
    for length_s, ids_heard, grown_s in (
        (1.0, (1, 2), 1.0),
        (2.0, (1,), 1.0),
        (3.0, (1, 3), 1.0),
        (4.0, (1, 3, 4), 4.0),
    ):
        text.update(hypothesis(*ids_heard), length_s)
        assert text.grown_s == grown_s


def test_running_text_draft_has_settled_prefix() -> None:
    text = RunningText(0.5)
    text.update(hypothesis(1, 2, 3), 1.0)
    text.update(hypothesis(1, 2, 3), 2.0)
    assert text.draft == Draft((1, 2, 3), 2)
    assert token_ids(list(text.known)) == [1, 2, 3]


def untimed_hypothesis(*texts: str) -> BufferText:
    """Return the text of a recognizer without tokens."""
    return BufferText(tuple(BufferWord(f" {text}") for text in texts))


@pytest.mark.parametrize(
    ("later", "rest"),
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
def test_running_text_without_tokens_aligns_words(
    later: tuple[str, ...], rest: tuple[str, ...]
) -> None:
    """The words that stand for the two committed ones are found by the fewest edits."""
    text = RunningText(0.0)
    text.update(untimed_hypothesis("one", "two", "three"), 1.0)
    text.update(untimed_hypothesis("one", "two", "three"), 2.0)
    assert [word.text for word in text.committed] == [" one", " two"]
    rest_words = text.words_behind_committed(untimed_hypothesis(*later))
    assert tuple(word.text.strip() for word in rest_words) == rest


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the fewest words that are substituted, deleted and inserted."""
    if not left or not right:
        return len(left) + len(right)
    return min(
        edit_distance(left[1:], right[1:]) + (left[0] != right[0]),
        edit_distance(left[1:], right) + 1,
        edit_distance(left, right[1:]) + 1,
    )


word_lists = st.lists(st.sampled_from("abc"), max_size=4)


@settings(max_examples=50, deadline=None)
@given(word_lists, word_lists)
@example(["a", "b", "c"], ["a", "x", "b", "c", "d"])  # one put between
@example(["a", "b", "c"], ["a", "c", "d"])  # one dropped
@example(["a", "b", "c"], ["x", "x", "x", "x", "x", "b", "c"])  # too many put before
def test_running_text_alignment_has_the_fewest_edits(
    before: list[str], later: list[str]
) -> None:
    """Among equals, the alignment whose length is nearest to that of the committed words."""
    text = RunningText(0.0, committed=list(untimed_hypothesis(*before).words))
    rest_words = text.words_behind_committed(untimed_hypothesis(*later))
    ways = range(len(later) + 1)
    n_gone = min(
        ways, key=lambda n: (edit_distance(before, later[:n]), abs(n - len(before)))
    )
    assert [word.text.strip() for word in rest_words] == later[
        n_gone if before else 0 :
    ]


def test_running_text_alignment_ignores_marks_around_words() -> None:
    text = RunningText(0.0, committed=list(untimed_hypothesis("one", "two").words))
    rest_words = text.words_behind_committed(
        untimed_hypothesis("(One,", "-TWO-", "…", "two")
    )
    assert [word.text for word in rest_words] == [" …", " two"]


@pytest.mark.parametrize(
    ("joined", "rest"),
    [
        (BufferWord(" b,", (2, 9), 0.5), ","),
        (BufferWord(" B,", (2, 9), 0.5), ""),  # written otherwise: what was shown stays
    ],
)
def test_running_text_mark_joining_a_committed_word_is_new(
    joined: BufferWord, rest: str
) -> None:
    text = RunningText(0.0, committed=[*hypothesis(1).words, BufferWord(" b", (2,))])
    words = text.words_behind_committed(
        BufferText((*hypothesis(1).words, joined, *hypothesis(3).words))
    )
    assert [(word.text, word.tokens) for word in words] == [(rest, (9,)), (" w3", (3,))]
    assert [word.probability for word in words] == [0.5, None]


def test_running_text_committed_words_are_never_changed() -> None:
    text = RunningText(0.0, committed=list(hypothesis(1, 2).words))
    assert token_ids(list(text.words_behind_committed(hypothesis(2, 3)))) == [3]
    assert token_ids(list(text.words_behind_committed(hypothesis(1, 2, 3)))) == [3]
    assert token_ids(list(text.finish(hypothesis(9, 2, 3)))) == [1, 2, 3], (
        "committed words are shown"
    )


def test_running_text_committed_words_get_last_times() -> None:
    """The hypothesis may split them into other words; other tokens have no times."""
    committed = [
        BufferWord(" a", (1,)),
        BufferWord(" bc", (2, 3)),
        BufferWord(" d", (4,)),
    ]
    text = RunningText(0.0, committed=committed)
    last = BufferText(
        (
            BufferWord(" a", (1,), 0.5, 0.0, 0.5),
            BufferWord(" b", (2,), 0.5, 0.5, 0.7),
            BufferWord("c", (3,), 0.5, 0.7, 0.9),
            BufferWord(" e", (5,), 0.5, 0.9, 1.0),
        )
    )
    times = [(word.text, word.start_s, word.end_s) for word in text.finish(last)]
    assert times[:3] == [(" a", 0.0, 0.5), (" bc", 0.5, 0.9), (" d", None, None)]


def test_running_text_counts_hypotheses_of_a_word() -> None:
    text = RunningText(9.0)
    for length_s, n_times in ((1.0, 1), (2.0, 2), (3.0, 3)):
        text.update(hypothesis(1, 2), length_s)
        assert [old.n_hypotheses for old in text.tentative] == [n_times] * 2
        assert [old.since_s for old in text.tentative] == [1.0, 1.0]
