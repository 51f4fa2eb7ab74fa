"""Seams that random speech found: words that an edge cut, and words that come again later."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import WHOLE, Clip
from whisper_hailo.transcription.longform.overlap import (
    OverlapPlanner,
    find_silence,
    find_splice_point,
    match_in_order,
    with_words,
)

Said = tuple[float, float, str]


def words(*said: Said) -> list[Word]:
    return [Word(start, end, text, 0.9) for start, end, text in said]


@pytest.mark.parametrize(
    ("left", "right", "expected_words"),
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
            [
                (41.7, 42.1, " In"),
                (42.1, 42.3, " the"),
                (42.3, 42.8, " end"),
                (43.1, 43.6, " all"),
            ],
            [(42.0, 42.4, " Olivia"), (44.2, 44.8, " runs")],
            [" In", " the", " end", " all", " runs"],
            id="a sentence that the right window took for a word at its start",
        ),
        pytest.param(
            [(41.2, 41.8, " runs"), (43.6, 44.0, " Olivia")],
            [
                (42.3, 42.8, " in"),
                (42.8, 43.2, " the"),
                (43.5, 43.8, " end"),
                (44.1, 44.4, " all"),
            ],
            [" runs", " in", " the", " end", " all"],
            id="a sentence that the left window took for a word at its end",
        ),
    ],
)
def test_splice_of_random_words_keeps_each_once(
    left: list[Said], right: list[Said], expected_words: list[str]
) -> None:
    before = words(*left)
    after = words(*right)
    n_left, n_right = find_splice_point(before, after, 42.0, 44.0)
    assert [word.text for word in before[:n_left] + after[n_right:]] == expected_words


OVERLAP = (42.0, 44.0)


def at_seam(left: list[Said], right: list[Said]) -> tuple[int, int]:
    return find_splice_point(words(*left), words(*right), *OVERLAP)


@pytest.mark.parametrize(
    ("at_s", "cut"),
    [(42.8, (3, 2)), (43.2, (2, 1))],
    ids=["nearer to the later window's start", "nearer to the earlier window's end"],
)
def test_splice_point_is_the_pair_nearest_the_middle(
    at_s: float, cut: tuple[int, int]
) -> None:
    """The word at the seam is the earlier window's while it lies in the first half."""
    both: list[Said] = [
        (42.1, 42.3, " a"),
        (at_s - 0.1, at_s + 0.1, " b"),
        (43.7, 43.9, " c"),
    ]
    assert at_seam([(41.0, 41.4, " x"), *both], both) == cut


def test_splice_without_common_words_keeps_all() -> None:
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
def test_splice_pairs_words_by_text_and_time(
    left: tuple[float, float], right: tuple[float, float], cut: tuple[int, int]
) -> None:
    assert at_seam([(*left, " word")], [(*right, " word")]) == cut


def test_splice_compares_letters_without_marks() -> None:
    # Behind each other: one by its text alone.
    shifted: list[Said] = [(42.42, 42.62, " tree")]
    assert at_seam([(42.1, 42.3, " Tree,")], shifted) == (1, 1)
    assert at_seam([(42.1, 42.3, " trees")], shifted) == (1, 0)


def test_splice_compares_lone_marks() -> None:
    shifted: list[Said] = [(42.42, 42.62, "…")]
    assert at_seam([(42.1, 42.3, " …")], shifted) == (1, 1)
    assert at_seam([(42.1, 42.3, " —")], shifted) == (1, 0)


def test_splice_pairs_two_words_in_a_row_by_text() -> None:
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
    assert at_seam([*late, (43.6, 43.8, " bad")], [*later, (44.4, 44.6, " so")]) == (
        0,
        0,
    )
    assert at_seam([(42.1, 42.2, " so"), *late], [(42.5, 42.6, " bad"), *later]) == (
        1,
        1,
    )


def test_splice_of_one_common_word_is_no_row() -> None:
    left: list[Said] = [(42.0, 42.2, " very"), (42.3, 42.5, " bad")]
    right: list[Said] = [(42.8, 43.0, " very"), (43.1, 43.3, " good")]
    assert at_seam(left, right) == (2, 0)
    assert at_seam(left[:1], right) == (1, 0)
    assert at_seam(left, right[:1]) == (2, 0)
    # Nor is the second of two, or one that has the same neighbour on its other side.
    assert at_seam(
        [(42.0, 42.2, " so"), left[1]], [right[0], (43.1, 43.3, " bad")]
    ) == (2, 0)
    swapped: list[Said] = [(43.4, 43.6, " bad"), (43.8, 44.0, " very")]
    assert at_seam([(42.0, 42.2, " very"), (42.4, 42.6, " bad")], swapped) == (2, 0)


def test_splice_keeps_word_that_ends_at_the_seam() -> None:
    left: list[Said] = [(42.7, 43.1, " free"), (43.3, 43.6, " on")]
    right: list[Said] = [(42.9, 43.3, " tree"), (43.6, 44.0, " up")]
    assert at_seam(left, right) == (2, 1)


def test_splice_of_equal_words_pairs_the_nearest() -> None:
    said: list[Said] = [(42.5, 42.7, " no")]
    assert at_seam(said, [(42.55, 42.75, " no"), (42.8, 43.0, " no")]) == (1, 1)
    assert at_seam(said, [(42.2, 42.4, " no"), (42.45, 42.65, " no")]) == (1, 2)


@pytest.mark.parametrize(
    ("left", "right", "cut"),
    [
        ([(42.1, 42.5), (43.0, 43.3), (43.4, 43.7)], [(42.1, 42.5)], (3, 1)),
        (
            [(42.1, 42.5), (43.0, 43.3), (43.4, 43.7)],
            [(42.1, 42.5), (43.3, 43.6)],
            (2, 1),
        ),
        ([(43.5, 43.9)], [(42.2, 42.4), (42.6, 42.9), (43.5, 43.9)], (0, 0)),
        (
            [(42.1, 42.3), (43.5, 43.9)],
            [(42.3, 42.6), (43.5, 43.9), (44.1, 44.4)],
            (1, 0),
        ),
        (
            [(42.1, 42.3), (43.5, 43.9)],
            [(42.28, 42.6), (43.5, 43.9), (44.1, 44.4)],
            (1, 1),
        ),
    ],
    ids=["nothing behind", "up to what follows", "nothing before", "beside", "across"],
)
def test_splice_keeps_words_of_one_window_alone(
    left: list[tuple[float, float]],
    right: list[tuple[float, float]],
    cut: tuple[int, int],
) -> None:
    """No two words read alike; the pair at the seam shares its time."""
    before: list[Said] = [(*times, f" l{n}") for n, times in enumerate(left)]
    after: list[Said] = [(*times, f" r{n}") for n, times in enumerate(right)]
    assert at_seam(before, after) == cut


def test_splice_pairs_misheard_words_by_time() -> None:
    """They share 0.2 s, and a tenth more is granted, of the 0.4 s of the shorter one."""
    assert at_seam([(42.1, 42.5, " free")], [(42.3, 42.7, " tree")]) == (1, 1)
    assert at_seam([(42.1, 42.5, " free")], [(42.6, 43.0, " tree")]) == (1, 0)
    assert at_seam([(42.1, 42.5, " free")], [(42.45, 42.85, " tree")]) == (1, 1)
    assert at_seam([(42.1, 42.5, " free")], [(42.49, 42.89, " tree")]) == (1, 0)
    assert at_seam([(42.1, 42.3, " a")], [(42.1, 43.3, " long")]) == (1, 1), (
        "or a part of one"
    )
    assert at_seam([(42.1, 43.3, " long")], [(42.1, 42.3, " a")]) == (1, 1), "of either"
    assert at_seam([(42.1, 42.3, " a")], [(42.31, 42.41, " e")]) == (1, 1), (
        "or just behind it"
    )


def test_splice_pairs_keep_the_order() -> None:
    """`the` comes twice: the pairing with the most in common is taken."""
    left: list[Said] = [
        (42.0, 42.2, " the"),
        (42.3, 42.6, " cat"),
        (42.7, 42.9, " the"),
    ]
    right: list[Said] = [
        (42.05, 42.25, " the"),
        (42.35, 42.6, " cat"),
        (42.75, 42.9, " the"),
    ]
    n_left, n_right = at_seam(left, right)
    assert n_left == n_right == 3


@pytest.mark.parametrize(("later_s", "cut"), [(2.0, (2, 2)), (2.25, (2, 0))])
def test_splice_of_a_row_is_bounded_by_the_overlap(
    later_s: float, cut: tuple[int, int]
) -> None:
    """From the end of the one to the start of the other, for each of the two; 2 s is the most."""
    left: list[Said] = [(41.5, 41.75, " very"), (41.75, 42.0, " good")]
    right = [(b + later_s, b + later_s + 0.25, word) for _, b, word in left]
    assert at_seam(left, right) == cut


def test_splice_prefers_one_timely_word_to_two_late() -> None:
    """Said three times, 0.3 s apart: the one window heard the first two, the other the last two."""
    left: list[Said] = [(42.4, 42.6, " no"), (42.7, 42.9, " no")]
    right: list[Said] = [(42.7, 42.9, " no"), (43.0, 43.2, " no")]
    assert at_seam(left, right) == (2, 1)


def test_splice_beside_misheard_word_keeps_words_once() -> None:
    """The earlier window's last word goes on beside what the later one heard there."""
    left: list[Said] = [(42.2, 42.5, " free"), (43.7, 44.0, " on")]
    right: list[Said] = [(42.2, 42.5, " tree"), (43.6, 43.9, " off")]
    assert at_seam(left, right) == (1, 1)


def pairings(n: int, m: int) -> Iterator[list[tuple[int, int]]]:
    """Every way to pair so many with so many others in order."""
    for size in range(min(n, m) + 1):
        for left in combinations(range(n), size):
            for right in combinations(range(m), size):
                yield list(zip(left, right, strict=True))


def test_match_in_order_finds_the_largest_sum() -> None:
    rng = np.random.default_rng(0)
    for n, m in [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (4, 4)] * 4:
        likeness = np.where(
            rng.random((n, m)) < 0.5, rng.integers(1, 9, (n, m)) / 4, 0.0
        )
        pairs = match_in_order(likeness.tolist())
        assert all(likeness[pair] > 0 for pair in pairs)
        assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
        best = max(
            sum(likeness[pair] for pair in pairing) for pairing in pairings(n, m)
        )
        assert sum(likeness[pair] for pair in pairs) == best


def test_match_in_order_of_nothing_is_empty() -> None:
    assert match_in_order([]) == []
    assert match_in_order([[], []]) == []


def words_at(*said: tuple[float, str]) -> list[Word]:
    """Of 0.2 s each."""
    return [Word(start, start + 0.2, f" {text}", 0.9) for start, text in said]


def test_splice_of_equal_rows_pairs_the_nearest() -> None:
    """Said twice, 1.2 s apart, and heard 0.6 s too late: the first is 0.6 s away from it."""
    left = words_at((42.4, "very"), (42.7, "good"))
    right = words_at(
        (43.0, "very"), (43.3, "good"), (43.5, "so"), (44.2, "very"), (44.5, "good")
    )
    n_left, n_right = find_splice_point(left, right, *OVERLAP)
    said = [word.text for word in left[:n_left] + right[n_right:]]
    assert said == [" very", " good", " so", " very", " good"]


@pytest.mark.parametrize(("apart_s", "n_words"), [(0.34, 1), (0.36, 2)])
def test_splice_pairs_a_word_within_0_35_s(apart_s: float, n_words: int) -> None:
    left = words_at((42.2, "tree"))
    right = words_at((42.2 + apart_s, "tree"))
    n_left, n_right = find_splice_point(left, right, *OVERLAP)
    assert n_left + 1 - n_right == n_words


@pytest.mark.parametrize(("begins_s", "n_words"), [(44.9, 1), (45.0, 2)])
def test_splice_ignores_words_1_s_behind_the_overlap(
    begins_s: float, n_words: int
) -> None:
    left = words_at((44.8, "tree"))
    right = words_at((begins_s, "tree"))
    n_left, n_right = find_splice_point(left, right, *OVERLAP)
    assert n_left + 1 - n_right == n_words


@pytest.mark.parametrize(("ends_s", "n_words"), [(41.1, 1), (41.0, 2)])
def test_splice_ignores_words_1_s_before_the_overlap(
    ends_s: float, n_words: int
) -> None:
    left = [Word(ends_s - 0.2, ends_s, " tree", 0.9)]
    n_left, n_right = find_splice_point(left, words_at((41.0, "tree")), *OVERLAP)
    assert n_left + 1 - n_right == n_words


@pytest.mark.parametrize("n_words", [1, 2, 3])
def test_cut_segment_has_times_and_text_of_its_words(n_words: int) -> None:
    said = tuple(
        Word(start_s, start_s + 0.5, f" {text}", 0.9, (10 * start_s, 10 * start_s + 1))
        for start_s, text in enumerate(["one", "two", "three"], start=1)
    )[:n_words]
    whole = Segment(
        0.0, 9.0, "one two three four", tuple(range(99)), -0.3, 0.2, language="de"
    )
    cut = with_words(whole, said)
    assert cut.start_s == 1.0
    assert cut.end_s == n_words + 0.5
    assert cut.text == " ".join(["one", "two", "three"][:n_words])
    assert cut.tokens == tuple(token for word in said for token in word.tokens)
    assert cut.words == said
    assert cut.avg_logprob == -0.3
    assert cut.language == "de"


PLAN = WindowPlan(10.0, 1.0)
FROM = 6 * SAMPLE_RATE_HZ


def talk(
    *pauses_s: tuple[float, float], seconds: float = 9.0, floor: float = 0.001
) -> FloatArray:
    """Noise as loud as speech but for the pauses, and for as much silence as any speech has."""
    samples = 0.1 * np.random.default_rng(1).standard_normal(
        round(seconds * SAMPLE_RATE_HZ)
    )
    for start_s, end_s in ((1.0, 2.2), *pauses_s):
        samples[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)] *= (
            floor / 0.1
        )
    return samples.astype(np.float32)


def seconds(position: int | None) -> float:
    assert position is not None
    return position / SAMPLE_RATE_HZ


def test_find_silence_takes_the_longest_pause_s_middle() -> None:
    audio = talk((3.0, 5.0), (6.5, 6.8), (7.5, 8.1))
    assert seconds(find_silence(audio, FROM)) == pytest.approx(7.8, abs=0.02)


def test_find_silence_in_noise_finds_pauses() -> None:
    for floor in (0.0, 0.001, 0.03):
        assert seconds(
            find_silence(talk((7.0, 7.5), floor=floor), FROM)
        ) == pytest.approx(7.25, abs=0.03)


@pytest.mark.parametrize(
    "audio",
    [
        talk((3.0, 5.0)),
        talk((7.0, 7.12)),
        np.zeros(9 * SAMPLE_RATE_HZ, np.float32),
        talk(floor=0.1),
        talk()[:100],
    ],
    ids=["too early", "a closure", "silence", "steady noise", "a blink"],
)
def test_find_silence_without_pause_is_none(audio: FloatArray) -> None:
    assert find_silence(audio, min(FROM, audio.size)) is None


def loud(*frames_db: float) -> FloatArray:
    """Frames of 20 ms, each of one loudness in dB of full scale."""
    samples = np.repeat(10 ** (np.array(frames_db) / 20), 320)
    return (samples * np.resize([1, -1], samples.size)).astype(np.float32)


def steps(n_loud: int, *rest_db: float) -> FloatArray:
    """Frames of 0 dB, then others, then enough silence that the quiet is at -40 dB."""
    return loud(*[0.0] * n_loud, *rest_db, *[0.0] * n_loud, *[-40.0] * n_loud)


@pytest.mark.parametrize(
    ("pause_db", "n_frames", "expected"),
    [
        ([-40.0] * 9, 9, None),
        ([-40.0] * 10, 10, 45),
        ([-40.0] * 11, 11, 45.5),
        ([-30.5] * 10, 10, 45),
        ([-29.5] * 10, 10, None),
        ([-40.0] * 5 + [0.0] + [-40.0] * 5, 11, None),
    ],
    ids=["9 frames", "10", "11", "as quiet as is needed", "not so", "interrupted"],
)
def test_find_silence_needs_ten_quiet_frames(
    pause_db: list[float], n_frames: int, expected: float | None
) -> None:
    """Quiet is -40 dB and loud 0: a pause lies below -30 dB; the end of the audio is cut off."""
    audio = steps(40, *pause_db)[: (80 + n_frames) * 320 + 319]
    quiet = loud(*[-40.0] * 30)  # early, so that it is no pause
    whole = np.concatenate([quiet, audio])
    silence = find_silence(whole, 30 * 320)
    assert silence == (None if expected is None else round((30 + expected) * 320))


@pytest.mark.parametrize(
    ("start", "begins"), [(40 * 320, 40), (40 * 320 + 1, 41), (41 * 320, 41)]
)
def test_find_silence_looks_at_whole_frames(start: int, begins: int) -> None:
    """The pause goes from frame 40 to frame 60."""
    audio = loud(*[0.0] * 40, *[-40.0] * 20, *[0.0] * 40)
    assert find_silence(audio, start) == (begins + 60) * 160


def test_find_silence_of_equal_pauses_takes_the_first() -> None:
    audio = loud(*[0.0] * 20, *[-40.0] * 12, *[0.0] * 9, *[-40.0] * 12, *[0.0] * 20)
    assert find_silence(audio, 0) == 26 * 320
    audio = loud(*[0.0] * 20, *[-40.0] * 12, *[0.0] * 9, *[-40.0] * 13, *[0.0] * 20)
    assert find_silence(audio, 0) == round(47.5 * 320)
    audio = loud(*[0.0] * 20, *[-40.0] * 4, *[0.0] * 9, *[-40.0] * 12, *[0.0] * 20)
    assert find_silence(audio, 0) == 39 * 320, "shorter ones beside it do not matter"


@pytest.mark.parametrize(("apart_db", "is_found"), [(6.5, True), (5.5, False)])
def test_find_silence_needs_6_db_of_range(apart_db: float, is_found: bool) -> None:
    audio = loud(*[-20.0] * 30, *[-20.0 - apart_db] * 15, *[-20.0] * 30)
    assert (find_silence(audio, 0) is not None) is is_found


def test_find_silence_accepts_a_pause_at_the_end() -> None:
    assert find_silence(loud(*[0.0] * 40, *[-40.0] * 20), 0) == 50 * 320
    assert find_silence(loud(*[-40.0] * 20, *[0.0] * 40), 0) == 10 * 320
    assert find_silence(np.empty(0, np.float32), 0) is None
    assert find_silence(loud(0.0, -40.0), 640) is None


def test_windows_meet_in_a_pause_and_overlap_elsewhere() -> None:
    audio = talk((7.0, 7.6), (26.0, 26.1), seconds=30.0)
    feed = AudioBuffer(iter(np.array_split(audio, 30)))
    windows = list(OverlapPlanner(feed, WHOLE, PLAN, 2.0).windows())
    first, second, third = windows[:3]
    assert first.end_s == pytest.approx(7.3, abs=0.02)
    assert second.start_s == pytest.approx(first.end_s)
    assert not first.needs_words
    assert second.needs_words
    assert third.start_s == pytest.approx(second.end_s - 2.0)
    assert windows[-1].end_s == pytest.approx(30.0)
    side_by_side = AudioBuffer(iter(np.array_split(audio, 30)))
    plain = list(OverlapPlanner(side_by_side, WHOLE, PLAN, 0.0).windows())
    assert [window.start_s for window in plain] == [0.0, 9.0, 18.0, 27.0]


def windows(audio: FloatArray, clips: tuple[Clip, ...] = WHOLE) -> list[Window]:
    feed = AudioBuffer(iter(np.array_split(audio, 7)))
    return list(OverlapPlanner(feed, clips, PLAN, 2.0).windows())


@pytest.mark.parametrize(("pause_s", "is_taken"), [(6.0, True), (5.79, False)])
def test_windows_search_pauses_in_the_last_three_seconds(
    pause_s: float, is_taken: bool
) -> None:
    """One and a half overlaps before the end of the window's 9 s; of each pause a part is seen."""
    first, second, *_ = windows(talk((pause_s, pause_s + 0.4), seconds=20.0))
    assert (first.end_s < 9.0) is is_taken
    assert second.start_s == pytest.approx(first.end_s if is_taken else 7.0)


@pytest.mark.parametrize(
    ("n_samples", "n_windows"), [(144_000, 1), (144_159, 1), (144_160, 2)]
)
def test_last_window_is_not_cut_at_a_pause(n_samples: int, n_windows: int) -> None:
    """Only where a whole frame follows does a window end in the pause before its end."""
    audio = talk((8.4, 8.8), seconds=20.0)
    for cut_windows in (
        windows(audio[:n_samples]),
        windows(audio, (Clip(0, n_samples),)),
    ):
        assert len(cut_windows) == n_windows
        assert cut_windows[0].end_s == pytest.approx(
            9.0 if n_windows == 1 else 8.6, abs=0.02
        )
        assert cut_windows[-1].end_s == pytest.approx(
            n_samples // 160 * 160 / SAMPLE_RATE_HZ
        )
        assert not any(window.needs_words for window in cut_windows), (
            "a pause parts them"
        )


def test_first_window_of_a_clip_shares_nothing() -> None:
    clips = (Clip(0, 160_000), Clip(170_000, 330_000))
    steady = 0.1 * np.random.default_rng(0).standard_normal(340_000).astype(np.float32)
    cut_windows = windows(steady, clips)
    starts = [round(window.start_s * SAMPLE_RATE_HZ) for window in cut_windows]
    assert starts == [0, 112_000, 170_000, 282_000]
    assert [window.needs_words for window in cut_windows] == [True] * 4
    short = windows(steady, (Clip(0, 1), Clip(5, 6)))
    assert [(window.audio.size, window.needs_words) for window in short] == [
        (1, False)
    ] * 2


def test_find_silence_takes_silence_as_minus_100_db() -> None:
    """A quarter of the way up to 0 dB: a pause is no louder than -75 dB."""
    for pause_db, expected in ((-80.0, 66 * 320), (-70.0, None)):
        audio = loud(*[-200.0] * 20, *[0.0] * 40, *[pause_db] * 12, *[0.0] * 40)
        assert find_silence(audio, 40 * 320) == expected
