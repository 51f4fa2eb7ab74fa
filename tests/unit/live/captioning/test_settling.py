"""What the running segment's text expects next, and what it shows."""

from __future__ import annotations

import pytest

from whisper_hailo.core.buffers import BufferText, BufferWord
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.captioning.settling import RunningText


def heard(*ids: int, guess: tuple[int, ...] = ()) -> BufferText:
    return BufferText(tuple(BufferWord(f" w{i}", (i,)) for i in ids), guess=guess)


def test_a_guess_is_tried_next_and_never_shown() -> None:
    text = RunningText(settle_s=1.0)
    text.update(heard(1, 2, guess=(3, 4)), 0.5)
    assert text.draft == Draft((1, 2, 3, 4))
    assert [word.tokens for word in text.known] == [(1,), (2,)]
    text.update(heard(1, 2), 1.5)
    assert text.draft == Draft((1, 2), 1), "one word is settled, and the guess is forgotten"
    assert text.n_corrected == 0
    assert [word.tokens for word in text.finish(heard(1, 2, 5))] == [(1,), (2,), (5,)]


def ids(words: list[BufferWord]) -> list[int]:
    return [token for word in words for token in word.tokens]


def test_one_hypothesis_commits_nothing_however_soon_words_settle() -> None:
    text = RunningText(settle_s=0.0)
    text.update(heard(1, 2, 3), 5.0)
    assert (ids(text.committed), len(text.tentative)) == ([], 3)
    text.update(heard(1, 2, 3), 5.0)
    assert ids(text.committed) == [1, 2], "the last word may not have been said to its end"
    assert [old.word.tokens for old in text.tentative] == [(3,)]


@pytest.mark.parametrize(("later_s", "n_committed"), [(1.49, 0), (1.5, 2), (2.0, 2)])
def test_hypotheses_have_to_lie_apart(later_s: float, n_committed: int) -> None:
    text = RunningText(settle_s=1.0)
    text.update(heard(1, 2, 3), 0.5)
    text.update(heard(1, 2, 3), later_s)
    assert len(text.committed) == n_committed
    assert text.settled_s == (0.5 if n_committed else 0.0)


def test_a_word_that_changes_begins_anew_and_holds_back_those_behind_it() -> None:
    text = RunningText(settle_s=1.0)
    text.update(heard(1, 2, 3, 4), 1.0)
    text.update(heard(1, 5, 3, 4), 2.0)
    assert ids(text.committed) == [1]
    assert [old.times for old in text.tentative] == [1, 1, 1], "what follows it was heard anew"
    assert text.n_corrected == 3
    text.update(heard(1, 5, 3, 4), 2.5)
    assert ids(text.committed) == [1]
    text.update(heard(1, 5, 3, 4), 3.0)
    assert ids(text.committed) == [1, 5, 3]
    assert text.settled_s == 2.0


@pytest.mark.parametrize("other", [BufferWord(" w2", (9,)), BufferWord(" w9", (2,))])
def test_a_word_of_other_letters_or_other_tokens_is_another_word(other: BufferWord) -> None:
    text = RunningText(settle_s=0.0)
    text.update(heard(1, 2, 3), 1.0)
    text.update(BufferText((*heard(1).words, other, *heard(3).words)), 2.0)
    assert ids(text.committed) == [1]
    assert text.n_corrected == 2


def test_words_that_are_taken_back_are_counted() -> None:
    text = RunningText(settle_s=1.0)
    text.update(heard(1, 2, 3), 1.0)
    assert ids(list(text.finish(heard(1, 2)))) == [1, 2]
    assert text.n_corrected == 1


def test_the_draft_is_what_was_heard_and_what_is_settled_of_it() -> None:
    text = RunningText(settle_s=0.5)
    text.update(heard(1, 2, 3), 1.0)
    text.update(heard(1, 2, 3), 2.0)
    assert text.draft == Draft((1, 2, 3), 2)
    assert ids(list(text.known)) == [1, 2, 3]


def spelled(*texts: str) -> BufferText:
    """Of an engine that gives no tokens."""
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
    text = RunningText(settle_s=0.0)
    text.update(spelled("one", "two", "three"), 1.0)
    text.update(spelled("one", "two", "three"), 2.0)
    assert [word.text for word in text.committed] == [" one", " two"]
    found = text.behind_committed(spelled(*later))
    assert tuple(word.text.strip() for word in found) == behind


def test_a_mark_that_joins_the_last_committed_word_is_all_that_is_new() -> None:
    text = RunningText(settle_s=0.0)
    for length_s in (1.0, 2.0):
        text.update(BufferText((BufferWord(" a", (1,)), BufferWord(" b", (2,)))), length_s)
    assert ids(text.committed) == [1]
    joined = BufferText((BufferWord(" a,", (1, 9), 0.5), BufferWord(" c", (3,))))
    words = text.behind_committed(joined)
    assert [(word.text, word.tokens) for word in words] == [(",", (9,)), (" c", (3,))]
