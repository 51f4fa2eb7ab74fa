"""Subtitles of a segment: which words are where, when, and a translation beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.outputs.files import CUES, cues_of, timed_words
from whisper_hailo.text.subtitles import Cue, Layout

SAID = Completed(
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


def test_words_are_said_when_the_engine_heard_them() -> None:
    assert times(SAID) == [(1.5, 2.0), (4.0, 4.5), (6.0, 8.0)]
    assert [word.text for word in timed_words(SAID)] == [" aaaa", " bb", " cc"]
    first = replace(SAID.words[0], start_s=0.0, end_s=0.0)
    assert times(replace(SAID, words=(first,))) == [(0.0, 0.0)]


@pytest.mark.parametrize("lost", [{"start_s": None}, {"end_s": None}])
@pytest.mark.parametrize("at", [0, 2])
def test_words_share_the_segment_s_time_where_one_has_none(
    at: int, lost: dict[str, None]
) -> None:
    """By their letters and blanks: 5, 3 and 3 of 11 in 8 s."""
    words = list(SAID.words)
    words[at] = replace(words[at], **lost)
    edges = [1.0, 1.0 + 8 * 5 / 11, 1.0 + 8 * 8 / 11, 9.0]
    shared = times(replace(SAID, words=tuple(words)))
    assert [start for start, _ in shared] == pytest.approx(edges[:-1])
    assert [end for _, end in shared] == pytest.approx(edges[1:])


def test_cues_of_a_segment_follow_each_other_and_fill_it() -> None:
    assert list(cues_of(SAID, CUES)) == [Cue(1.0, 9.0, "aaaa bb cc")]
    assert list(cues_of(SAID, Layout(max_line_width=5, max_line_count=1))) == [
        Cue(1.0, 4.0, "aaaa"),
        Cue(4.0, 9.0, "bb cc"),
    ]
    assert [cue.text for cue in cues_of(SAID, Layout(max_line_width=5))] == [
        "aaaa\nbb cc"
    ]


def test_cues_of_broadcasters_have_two_lines_of_42_letters() -> None:
    words = tuple(CaptionWord(f" {'x' * 20}") for _ in range(5))
    assert [cue.text for cue in cues_of(replace(SAID, words=words))] == [
        "\n".join([" ".join(["x" * 20] * 2)] * 2),
        "x" * 20,
    ]
    assert len("x" * 20 + " " + "x" * 20) == 41
    assert CUES.max_line_width == 42


def test_layout_without_width_has_one_line_however_long_it_is() -> None:
    words = tuple(CaptionWord(f" {'x' * 99}") for _ in range(9))
    (cue,) = cues_of(replace(SAID, words=words), Layout())
    assert cue == Cue(1.0, 9.0, " ".join(["x" * 99] * 9))


def test_translation_is_shown_with_what_it_is_of() -> None:
    event = replace(SAID, translation="dddd ee ff")
    assert list(cues_of(event, Layout(max_line_width=5, max_line_count=1))) == [
        Cue(1.0, 4.0, "aaaa"),
        Cue(1.0, 1.0 + 8 * 5 / 11, "dddd"),
        Cue(4.0, 9.0, "bb cc"),
        Cue(1.0 + 8 * 5 / 11, 9.0, "ee ff"),
    ]


def test_segment_without_words_has_no_cue() -> None:
    assert list(cues_of(replace(SAID, words=()))) == []
