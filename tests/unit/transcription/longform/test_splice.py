"""Seams that random speech found: words that an edge cut, and words that come again later."""

from __future__ import annotations

import pytest

from whisper_hailo.core.types import Word
from whisper_hailo.transcription.longform.overlap import find_splice_point

Said = tuple[float, float, str]


def words(*said: Said) -> list[Word]:
    return [Word(start, end, text, 0.9) for start, end, text in said]


@pytest.mark.parametrize(
    ("left", "right", "kept"),
    [
        pytest.param(
            [(43.92, 44.0, " tre")],
            [(44.0, 44.22, " tree"), (44.84, 45.41, " runs")],
            [" tree", " runs"],
            id="cut by the left window's end, heard whole a little later",
        ),
        pytest.param(
            [(41.14, 41.84, " very"), (41.89, 42.09, " tree")],
            [(42.0, 42.15, " ree"), (44.8, 45.3, " runs")],
            [" very", " tree", " runs"],
            id="cut by the right window's start, its neighbour left alone",
        ),
        pytest.param(
            [(41.1, 41.3, " no"), (41.4, 41.6, " no")],
            [(44.4, 44.6, " no"), (44.7, 44.9, " no")],
            [" no", " no", " no", " no"],
            id="said again after a pause longer than the overlap",
        ),
        pytest.param(
            [(41.7, 42.1, " In"), (42.1, 42.3, " the"), (42.3, 42.8, " end"), (43.1, 43.6, " all")],
            [(42.0, 42.4, " Olivia"), (44.2, 44.8, " runs")],
            [" In", " the", " end", " all", " runs"],
            id="a sentence that the right window took for a word at its start",
        ),
        pytest.param(
            [(41.2, 41.8, " runs"), (43.6, 44.0, " Olivia")],
            [(42.3, 42.8, " in"), (42.8, 43.2, " the"), (43.5, 43.8, " end"), (44.1, 44.4, " all")],
            [" runs", " in", " the", " end", " all"],
            id="a sentence that the left window took for a word at its end",
        ),
    ],
)
def test_every_word_once(left: list[Said], right: list[Said], kept: list[str]) -> None:
    before, after = words(*left), words(*right)
    n_left, n_right = find_splice_point(before, after, 42.0, 44.0)
    assert [word.text for word in before[:n_left] + after[n_right:]] == kept


OVERLAP = (42.0, 44.0)


def at_seam(left: list[Said], right: list[Said]) -> tuple[int, int]:
    return find_splice_point(words(*left), words(*right), *OVERLAP)


@pytest.mark.parametrize(
    ("at_s", "cut"),
    [(42.8, (3, 2)), (43.2, (2, 1))],
    ids=["nearer to the later window's start", "nearer to the earlier window's end"],
)
def test_the_pair_nearest_the_middle_is_the_seam_and_its_word_is_of_the_safer_window(
    at_s: float, cut: tuple[int, int]
) -> None:
    """The word at the seam is the earlier window's while it lies in the first half."""
    both: list[Said] = [
        (42.1, 42.3, " a"),
        (at_s - 0.1, at_s + 0.1, " b"),
        (43.7, 43.9, " c"),
    ]
    assert at_seam([(41.0, 41.4, " x"), *both], both) == cut


def test_without_a_word_in_common_all_are_kept() -> None:
    assert at_seam([(42.1, 42.3, " a")], [(43.4, 43.6, " b")]) == (1, 0)
    assert at_seam([], [(43.4, 43.6, " b")]) == (0, 0)
    assert at_seam([(42.1, 42.3, " a")], []) == (1, 0)


@pytest.mark.parametrize(
    ("left", "right", "cut"),
    [
        # One word, its times apart by so much.
        ((42.0, 42.4), (42.3, 42.7), (1, 1)),
        ((42.0, 42.2), (42.4, 42.6), (1, 0)),
        # Ends a second before the overlap, or begins a second behind it: another word.
        ((40.5, 40.95), (40.6, 41.0), (1, 0)),
        ((45.0, 45.4), (45.05, 45.4), (1, 0)),
    ],
)
def test_a_word_is_the_same_by_its_text_and_its_time(
    left: tuple[float, float], right: tuple[float, float], cut: tuple[int, int]
) -> None:
    assert at_seam([(*left, " word")], [(*right, " word")]) == cut


def test_letters_decide_whether_words_are_the_same_and_marks_do_not() -> None:
    apart: list[Said] = [(42.42, 42.62, " tree")]  # behind each other: one by its text alone
    assert at_seam([(42.1, 42.3, " Tree,")], apart) == (1, 1)
    assert at_seam([(42.1, 42.3, " trees")], apart) == (1, 0)


def test_a_mark_alone_is_itself() -> None:
    apart: list[Said] = [(42.42, 42.62, "…")]
    assert at_seam([(42.1, 42.3, " …")], apart) == (1, 1)
    assert at_seam([(42.1, 42.3, " —")], apart) == (1, 0)


def test_two_words_in_a_row_are_the_same_wherever_they_were_timed() -> None:
    """0.8 s apart: one alone would be another word, two in a row are no chance."""
    left: list[Said] = [(42.0, 42.2, " very"), (42.3, 42.5, " good")]
    right: list[Said] = [(42.8, 43.0, " very"), (43.1, 43.3, " good")]
    n_left, n_right = at_seam(left, right)
    assert (n_left, n_right) == (2, 2), "the second of the two is nearer to the middle"
    alone = at_seam(left[:1], right[:1])
    assert alone == (1, 0)
    # The first of the two is nearer to the middle, so that the seam is there.
    late = [(a + 0.95, b + 0.95, word) for a, b, word in left]
    later = [(a + 0.95, b + 0.95, word) for a, b, word in right]
    assert at_seam(late, later) == (0, 0)
    assert at_seam([*late, (43.6, 43.8, " bad")], [*later, (44.4, 44.6, " so")]) == (0, 0)
    assert at_seam([(42.1, 42.2, " so"), *late], [(42.5, 42.6, " bad"), *later]) == (1, 1)


def test_one_word_in_common_is_no_row_whatever_follows_it() -> None:
    left: list[Said] = [(42.0, 42.2, " very"), (42.3, 42.5, " bad")]
    right: list[Said] = [(42.8, 43.0, " very"), (43.1, 43.3, " good")]
    assert at_seam(left, right) == (2, 0)
    assert at_seam(left[:1], right) == (1, 0)
    assert at_seam(left, right[:1]) == (2, 0)
    # Nor is the second of two, or one that has the same neighbour on its other side.
    assert at_seam([(42.0, 42.2, " so"), left[1]], [right[0], (43.1, 43.3, " bad")]) == (2, 0)
    swapped: list[Said] = [(43.4, 43.6, " bad"), (43.8, 44.0, " very")]
    assert at_seam([(42.0, 42.2, " very"), (42.4, 42.6, " bad")], swapped) == (2, 0)


def test_what_ends_as_the_other_window_goes_on_is_kept() -> None:
    left: list[Said] = [(42.7, 43.1, " free"), (43.3, 43.6, " on")]
    right: list[Said] = [(42.9, 43.3, " tree"), (43.6, 44.0, " up")]
    assert at_seam(left, right) == (2, 1)


def test_of_two_words_alike_the_one_nearer_in_time_is_the_same() -> None:
    said: list[Said] = [(42.5, 42.7, " no")]
    assert at_seam(said, [(42.55, 42.75, " no"), (42.8, 43.0, " no")]) == (1, 1)
    assert at_seam(said, [(42.2, 42.4, " no"), (42.45, 42.65, " no")]) == (1, 2)


@pytest.mark.parametrize(
    ("left", "right", "cut"),
    [
        ([(42.1, 42.5), (43.0, 43.3), (43.4, 43.7)], [(42.1, 42.5)], (3, 1)),
        ([(42.1, 42.5), (43.0, 43.3), (43.4, 43.7)], [(42.1, 42.5), (43.3, 43.6)], (2, 1)),
        ([(43.5, 43.9)], [(42.2, 42.4), (42.6, 42.9), (43.5, 43.9)], (0, 0)),
        ([(42.1, 42.3), (43.5, 43.9)], [(42.3, 42.6), (43.5, 43.9), (44.1, 44.4)], (1, 0)),
        ([(42.1, 42.3), (43.5, 43.9)], [(42.28, 42.6), (43.5, 43.9), (44.1, 44.4)], (1, 1)),
    ],
    ids=["nothing behind", "up to what follows", "nothing before", "beside", "across"],
)
def test_beside_a_word_misheard_what_one_window_heard_alone_is_kept(
    left: list[tuple[float, float]], right: list[tuple[float, float]], cut: tuple[int, int]
) -> None:
    """No two words read alike; the pair at the seam shares its time."""
    before: list[Said] = [(*times, f" l{n}") for n, times in enumerate(left)]
    after: list[Said] = [(*times, f" r{n}") for n, times in enumerate(right)]
    assert at_seam(before, after) == cut


def test_words_of_one_time_are_one_word_misheard() -> None:
    """They share 0.2 s, and a tenth more is granted, of the 0.4 s of the shorter one."""
    assert at_seam([(42.1, 42.5, " free")], [(42.3, 42.7, " tree")]) == (1, 1)
    assert at_seam([(42.1, 42.5, " free")], [(42.6, 43.0, " tree")]) == (1, 0)
    assert at_seam([(42.1, 42.5, " free")], [(42.45, 42.85, " tree")]) == (1, 1)
    assert at_seam([(42.1, 42.5, " free")], [(42.49, 42.89, " tree")]) == (1, 0)
    assert at_seam([(42.1, 42.3, " a")], [(42.1, 43.3, " long")]) == (1, 1), "or a part of one"
    assert at_seam([(42.1, 43.3, " long")], [(42.1, 42.3, " a")]) == (1, 1), "of either"
    assert at_seam([(42.1, 42.3, " a")], [(42.31, 42.41, " e")]) == (1, 1), "or just behind it"


def test_pairs_keep_the_order_of_both_windows() -> None:
    """`the` comes twice: the pairing with the most in common is taken."""
    left: list[Said] = [(42.0, 42.2, " the"), (42.3, 42.6, " cat"), (42.7, 42.9, " the")]
    right: list[Said] = [(42.05, 42.25, " the"), (42.35, 42.6, " cat"), (42.75, 42.9, " the")]
    n_left, n_right = at_seam(left, right)
    assert n_left == n_right == 3


@pytest.mark.parametrize(("later_s", "cut"), [(2.0, (2, 2)), (2.25, (2, 0))])
def test_two_words_in_a_row_are_no_farther_apart_than_the_windows_overlap(
    later_s: float, cut: tuple[int, int]
) -> None:
    """From the end of the one to the start of the other, for each of the two; 2 s is the most."""
    left: list[Said] = [(41.5, 41.75, " very"), (41.75, 42.0, " good")]
    right = [(b + later_s, b + later_s + 0.25, word) for _, b, word in left]
    assert at_seam(left, right) == cut


def test_one_word_at_the_very_time_counts_for_more_than_two_that_are_off() -> None:
    """Said three times, 0.3 s apart: the one window heard the first two, the other the last two."""
    left: list[Said] = [(42.4, 42.6, " no"), (42.7, 42.9, " no")]
    right: list[Said] = [(42.7, 42.9, " no"), (43.0, 43.2, " no")]
    assert at_seam(left, right) == (2, 1)


def test_beside_a_word_misheard_words_that_overlap_are_not_kept_twice() -> None:
    """The earlier window's last word goes on beside what the later one heard there."""
    left: list[Said] = [(42.2, 42.5, " free"), (43.7, 44.0, " on")]
    right: list[Said] = [(42.2, 42.5, " tree"), (43.6, 43.9, " off")]
    assert at_seam(left, right) == (1, 1)
