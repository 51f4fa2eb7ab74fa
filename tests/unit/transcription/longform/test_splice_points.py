"""How windows are joined, against the plainest way to say it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest

from whisper_hailo.core.types import Segment, Word
from whisper_hailo.transcription.longform.overlap import (
    _best_in_order,
    find_splice_point,
    with_words,
)

OVERLAP = (42.0, 44.0)


def pairings(n: int, m: int) -> Iterator[list[tuple[int, int]]]:
    """Every way to pair so many with so many others in order."""
    for size in range(min(n, m) + 1):
        for left in combinations(range(n), size):
            for right in combinations(range(m), size):
                yield list(zip(left, right, strict=True))


def test_no_pairing_in_order_has_more_in_common() -> None:
    rng = np.random.default_rng(0)
    for n, m in [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (4, 4)] * 4:
        likeness = np.where(rng.random((n, m)) < 0.5, rng.integers(1, 9, (n, m)) / 4, 0.0)
        found = [(pair.left, pair.right) for pair in _best_in_order(likeness.tolist())]
        assert all(likeness[pair] > 0 for pair in found)
        assert all(a < c and b < d for (a, b), (c, d) in pairwise(found))
        best = max(sum(likeness[pair] for pair in one) for one in pairings(n, m))
        assert sum(likeness[pair] for pair in found) == best


def test_nothing_pairs_with_nothing() -> None:
    assert _best_in_order([]) == []
    assert _best_in_order([[], []]) == []


def words(*said: tuple[float, str]) -> list[Word]:
    """Of 0.2 s each."""
    return [Word(start, start + 0.2, f" {text}", 0.9) for start, text in said]


def test_of_two_rows_that_read_alike_the_one_nearer_in_time_is_meant() -> None:
    """Said twice, 1.2 s apart, and heard 0.6 s too late: the first is 0.6 s away from it."""
    left = words((42.4, "very"), (42.7, "good"))
    right = words((43.0, "very"), (43.3, "good"), (43.5, "so"), (44.2, "very"), (44.5, "good"))
    n_left, n_right = find_splice_point(left, right, *OVERLAP)
    said = [word.text for word in left[:n_left] + right[n_right:]]
    assert said == [" very", " good", " so", " very", " good"]


@pytest.mark.parametrize(("apart_s", "n_words"), [(0.34, 1), (0.36, 2)])
def test_one_word_is_the_same_within_a_third_of_a_second(apart_s: float, n_words: int) -> None:
    left, right = words((42.2, "tree")), words((42.2 + apart_s, "tree"))
    n_left, n_right = find_splice_point(left, right, *OVERLAP)
    assert n_left + 1 - n_right == n_words


@pytest.mark.parametrize(("begins_s", "n_words"), [(44.9, 1), (45.0, 2)])
def test_a_word_a_second_behind_the_overlap_is_not_looked_at(begins_s: float, n_words: int) -> None:
    left, right = words((44.8, "tree")), words((begins_s, "tree"))
    n_left, n_right = find_splice_point(left, right, *OVERLAP)
    assert n_left + 1 - n_right == n_words


@pytest.mark.parametrize(("ends_s", "n_words"), [(41.1, 1), (41.0, 2)])
def test_nor_is_one_a_second_before_it(ends_s: float, n_words: int) -> None:
    left = [Word(ends_s - 0.2, ends_s, " tree", 0.9)]
    n_left, n_right = find_splice_point(left, words((41.0, "tree")), *OVERLAP)
    assert n_left + 1 - n_right == n_words


@pytest.mark.parametrize("n_words", [1, 2, 3])
def test_a_segment_cut_to_some_of_its_words_has_their_times_text_and_tokens(n_words: int) -> None:
    said = tuple(
        Word(at, at + 0.5, f" {text}", 0.9, (10 * at, 10 * at + 1))
        for at, text in enumerate(["one", "two", "three"], start=1)
    )[:n_words]
    whole = Segment(0.0, 9.0, "one two three four", tuple(range(99)), -0.3, 0.2, language="de")
    cut = with_words(whole, said)
    assert (cut.start_s, cut.end_s) == (1.0, n_words + 0.5)
    assert cut.text == " ".join(["one", "two", "three"][:n_words])
    assert cut.tokens == tuple(token for word in said for token in word.tokens)
    assert (cut.words, cut.avg_logprob, cut.language) == (said, -0.3, "de")
