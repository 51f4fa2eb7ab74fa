"""Cues of a completed segment and of its translation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.outputs.files import CUES, cues_of, timed_words
from whisper_hailo.text.subtitles import Cue, Layout

SEGMENT = Completed(
    segment_id=0,
    start_s=1.0,
    end_s=9.0,
    words=(
        CaptionWord(" aaaa", 0.5, 1.5, 2.0),
        CaptionWord(" bb", 0.5, 4.0, 4.5),
        CaptionWord(" cc", 0.5, 6.0, 8.0),
    ),
    reason="silence",
    heard_s=9.0,
    at_s=1.0,
)


def times(event: Completed) -> list[tuple[float, float]]:
    return [(word.start_s, word.end_s) for word in timed_words(event)]


def test_timed_words_keep_times_of_the_recognizer() -> None:
    assert times(SEGMENT) == [(1.5, 2.0), (4.0, 4.5), (6.0, 8.0)]
    assert [word.text for word in timed_words(SEGMENT)] == [" aaaa", " bb", " cc"]
    first = replace(SEGMENT.words[0], start_s=0.0, end_s=0.0)
    assert times(replace(SEGMENT, words=(first,))) == [(0.0, 0.0)]


@pytest.mark.parametrize("lost", [{"start_s": None}, {"end_s": None}])
@pytest.mark.parametrize("at", [0, 2])
def test_timed_words_missing_times_are_spread(at: int, lost: dict[str, None]) -> None:
    """By their letters and blanks: 5, 3 and 3 of 11 in 8 s."""
    words = list(SEGMENT.words)
    words[at] = replace(words[at], **lost)
    edges = [1.0, 1.0 + 8 * 5 / 11, 1.0 + 8 * 8 / 11, 9.0]
    shared = times(replace(SEGMENT, words=tuple(words)))
    assert [start for start, _ in shared] == pytest.approx(edges[:-1])
    assert [end for _, end in shared] == pytest.approx(edges[1:])


def test_cues_of_segment_fill_its_time() -> None:
    assert list(cues_of(SEGMENT, CUES)) == [Cue(1.0, 9.0, "aaaa bb cc")]
    assert list(cues_of(SEGMENT, Layout(max_line_width=5, max_line_count=1))) == [
        Cue(1.0, 4.0, "aaaa"),
        Cue(4.0, 9.0, "bb cc"),
    ]
    assert [cue.text for cue in cues_of(SEGMENT, Layout(max_line_width=5))] == [
        "aaaa\nbb cc"
    ]


def test_cues_of_default_layout_have_2_lines_of_42() -> None:
    words = tuple(CaptionWord(f" {'x' * 20}") for _ in range(5))
    assert [cue.text for cue in cues_of(replace(SEGMENT, words=words))] == [
        "\n".join([" ".join(["x" * 20] * 2)] * 2),
        "x" * 20,
    ]
    assert len("x" * 20 + " " + "x" * 20) == 41
    assert CUES.max_line_width == 42


def test_cues_of_layout_without_width_have_one_line() -> None:
    words = tuple(CaptionWord(f" {'x' * 99}") for _ in range(9))
    (cue,) = cues_of(replace(SEGMENT, words=words), Layout())
    assert cue == Cue(1.0, 9.0, " ".join(["x" * 99] * 9))


def test_cues_of_translation_share_the_segment_s_time() -> None:
    event = replace(SEGMENT, translation="dddd ee ff")
    assert list(cues_of(event, Layout(max_line_width=5, max_line_count=1))) == [
        Cue(1.0, 4.0, "aaaa"),
        Cue(1.0, 1.0 + 8 * 5 / 11, "dddd"),
        Cue(4.0, 9.0, "bb cc"),
        Cue(1.0 + 8 * 5 / 11, 9.0, "ee ff"),
    ]


def test_cues_of_segment_without_words_are_none() -> None:
    assert list(cues_of(replace(SEGMENT, words=()))) == []
