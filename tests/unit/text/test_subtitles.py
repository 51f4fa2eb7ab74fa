"""Subtitles: notation, line breaks, highlighting."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.text.test_outputs import transcript
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment, Transcript, Word
from whisper_hailo.text.outputs import render
from whisper_hailo.text.subtitles import Layout, cues


def spoken(*texts: str) -> Transcript:
    """One segment per text, a word every half second, with times of words."""
    segments, at = [], 0.0
    for text in texts:
        words = []
        for word in text.split():
            words.append(Word(at, at + 0.4, " " + word, 0.9))
            at += 0.5
        segments.append(Segment(words[0].start_s, at, text, (), -0.1, 0.0, words=tuple(words)))
    return replace(transcript(), segments=tuple(segments))


def test_srt() -> None:
    assert render(transcript(), "srt") == (
        "1\n00:00:00,000 --> 00:00:09,000\nGrüße.\n\n"
        "2\n00:00:09,000 --> 00:00:12,500\nAll the rest.\n\n"
    )


def test_vtt() -> None:
    assert render(transcript(), "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:09.000\nGrüße.\n\n"
        "00:00:09.000 --> 00:00:12.500\nAll the rest.\n\n"
    )


def test_tsv() -> None:
    assert render(transcript(), "tsv") == (
        "start\tend\ttext\n0\t9000\tGrüße.\n9000\t12500\tAll the rest.\n"
    )


def test_hours_and_arrows_in_the_text() -> None:
    segment = Segment(3 * 3600 + 61.0015, 4 * 3600.0, "a --> b\tc", (), -0.1, 0.0)
    long = replace(transcript(), segments=(segment,))
    assert "03:01:01,002 --> 04:00:00,000\na -> b c" in render(long, "srt")
    assert render(long, "tsv").splitlines()[1] == "10861002\t14400000\ta --> b c"


def test_speakers_are_named_everywhere() -> None:
    two = tuple(replace(s, speaker=i) for i, s in enumerate(transcript().segments))
    both = replace(transcript(), segments=two)
    assert render(both, "txt") == "Speaker 1: Grüße.\nSpeaker 2: All the rest.\n"
    assert "Speaker 2: All the rest." in render(both, "srt")
    assert "<v Speaker 1>Grüße." in render(both, "vtt")
    assert '"speaker": 1' in render(both, "json")


def test_text_has_a_line_per_segment_where_the_model_wrote_times() -> None:
    timed = replace(transcript(), settings=replace(transcript().settings, timestamps=True))
    assert render(timed, "txt") == "Grüße.\nAll the rest.\n"


def test_lines_and_cues_are_as_long_as_asked_for() -> None:
    shown = spoken("one two three four five six", "seven eight")
    narrow = list(cues(shown, Layout(max_line_width=9)))
    assert [cue.text for cue in narrow] == ["one two\nthree\nfour five\nsix", "seven\neight"]
    paired = list(cues(shown, Layout(max_line_width=9, max_line_count=2)))
    assert [cue.text for cue in paired] == ["one two\nthree", "four five\nsix seven", "eight"]
    by_words = list(cues(shown, Layout(max_words_per_line=4)))
    assert [cue.text for cue in by_words] == ["one two three four", "five six", "seven eight"]
    in_lines = list(cues(shown, Layout(max_words_per_line=4, max_line_width=80)))
    assert [cue.text for cue in in_lines] == ["one two three four\nfive six", "seven eight"]
    assert (paired[1].start_s, paired[1].end_s) == (1.5, 3.4)


def test_segments_without_word_times_break_as_well() -> None:
    plain = replace(
        transcript(), segments=(Segment(0.0, 10.0, "aaaa bbbb cccc dddd", (), -0.1, 0.0),)
    )
    first, second = cues(plain, Layout(max_line_width=9, max_line_count=1))
    assert (first.text, second.text) == ("aaaa bbbb", "cccc dddd")
    assert (first.start_s, first.end_s, second.end_s) == pytest.approx((0.0, 5.0, 10.0))


def test_highlighting_underlines_each_word_in_its_time() -> None:
    shown = [
        (c.start_s, c.end_s, c.text) for c in cues(spoken("a b"), Layout(highlight_words=True))
    ]
    assert shown == [(0.0, 0.4, "<u>a</u> b"), (0.4, 0.5, "a b"), (0.5, 0.9, "a <u>b</u>")]


@given(
    st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=40),
    st.integers(5, 30),
    st.none() | st.integers(1, 3),
)
def test_no_word_is_lost_and_no_line_too_long(
    words: list[str], width: int, count: int | None
) -> None:
    shown = list(cues(spoken(" ".join(words)), Layout(max_line_width=width, max_line_count=count)))
    assert " ".join(cue.text for cue in shown).split() == words
    for cue in shown:
        lines = cue.text.split("\n")
        assert count is None or len(lines) <= count
        assert all(len(line) <= width or " " not in line for line in lines)
    times = [edge for cue in shown for edge in (cue.start_s, cue.end_s)]
    assert times == sorted(times)


@pytest.mark.parametrize("name", ["max_line_width", "max_line_count", "max_words_per_line"])
def test_layouts_of_nothing_are_refused(name: str) -> None:
    option = re.escape("--" + name.replace("_", "-"))
    with pytest.raises(OptionError, match=option):
        Layout(**{name: 0})


def test_a_line_count_needs_a_width() -> None:
    with pytest.raises(OptionError, match="--max-line-count needs --max-line-width"):
        Layout(max_line_count=2)
