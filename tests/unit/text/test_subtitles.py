"""Subtitles: notation, line breaks, highlighting."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.results import transcript
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment, Transcript, Word
from whisper_hailo.text.formats import render
from whisper_hailo.text.subtitles import (
    SEGMENTS,
    Cue,
    CueWriter,
    Layout,
    cue_time,
    spread_times,
    timed_words,
)
from whisper_hailo.text.transcript_json import as_json

BY_SEGMENT = Layout(cues=SEGMENTS)


def write_cues(segments: Iterable[Segment], layout: Layout) -> list[Cue]:
    writer = CueWriter(layout)
    written = [cue for segment in segments for cue in writer.write(segment)]
    return [*written, *writer.finish()]


def make_transcript(*texts: str) -> Transcript:
    """Return a transcript with a segment per text and a timed word every half second."""
    segments = []
    at = 0.0
    for text in texts:
        words = []
        for word in text.split():
            words.append(Word(at, at + 0.4, " " + word, 0.9))
            at += 0.5
        segments.append(
            Segment(words[0].start_s, at, text, (), -0.1, 0.0, words=tuple(words))
        )
    return replace(transcript(), segments=tuple(segments))


def test_render_srt_has_numbered_cues() -> None:
    assert render(transcript(), "srt", BY_SEGMENT) == (
        "1\n00:00:00,000 --> 00:00:09,000\nGrüße.\n\n"
        "2\n00:00:09,000 --> 00:00:12,500\nAll the rest.\n\n"
    )


def test_render_vtt_has_heading() -> None:
    assert render(transcript(), "vtt", BY_SEGMENT) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:09.000\nGrüße.\n\n"
        "00:00:09.000 --> 00:00:12.500\nAll the rest.\n\n"
    )


def test_render_tsv_has_milliseconds() -> None:
    assert render(transcript(), "tsv") == (
        "start\tend\ttext\n0\t9000\tGrüße.\n9000\t12500\tAll the rest.\n"
    )


def test_timed_words_without_times_share_the_segment_s() -> None:
    words = timed_words(Segment(10.0, 15.0, "one three", (), -0.1, 0.0))
    assert [(word.start_s, word.end_s, word.text) for word in words] == [
        (10.0, 12.0, " one"),
        (12.0, 15.0, " three"),
    ]


@pytest.mark.parametrize(
    ("texts", "times"),
    [
        ([], []),
        (["a"], [(1.0, 3.0)]),
        ([""], [(1.0, 1.0)]),
        (["a", "bbb"], [(1.0, 1.5), (1.5, 3.0)]),
    ],
)
def test_spread_times_follows_word_lengths(
    texts: list[str], times: list[tuple[float, float]]
) -> None:
    words = spread_times(texts, 1.0, 3.0)
    assert [(word.start_s, word.end_s) for word in words] == times
    assert [word.text for word in words] == texts


def test_render_without_segments_has_the_heading_only() -> None:
    nothing = replace(transcript(), segments=())
    assert render(nothing, "srt") == ""
    assert render(nothing, "vtt") == "WEBVTT\n\n"
    assert render(nothing, "tsv") == "start\tend\ttext\n"


def test_render_hours_and_arrows_are_escaped() -> None:
    segment = Segment(3 * 3600 + 61.0015, 4 * 3600.0, "a --> b\tc", (), -0.1, 0.0)
    long = replace(transcript(), segments=(segment,))
    assert "03:01:01,002 --> 04:00:00,000\na -> b c" in render(long, "srt", BY_SEGMENT)
    assert "03:01:01.002 --> 04:00:00.000\na -&gt; b c" in render(
        long, "vtt", BY_SEGMENT
    )
    assert render(long, "tsv").splitlines()[1] == "10861002\t14400000\ta --> b c"


def test_render_every_format_names_speakers() -> None:
    two = tuple(replace(s, speaker=i) for i, s in enumerate(transcript().segments))
    both = replace(transcript(), segments=two)
    assert render(both, "txt") == "Speaker 1: Grüße.\nSpeaker 2: All the rest.\n"
    for fmt in ("srt", "tsv"):
        assert "Speaker 1: Grüße." in render(both, fmt)
        assert "Speaker 2: All the rest." in render(both, fmt)
    assert "<v Speaker 1>Grüße." in render(both, "vtt")
    assert [one["speaker"] for one in as_json(both)["segments"]] == [0, 1]


def test_render_txt_with_timestamps_has_line_per_segment() -> None:
    timed = replace(
        transcript(), settings=replace(transcript().settings, timestamps=True)
    )
    assert render(timed, "txt") == "Grüße.\nAll the rest.\n"


def test_cue_writer_keeps_width_count_and_words() -> None:
    transcript_of_two = make_transcript("one two three four five six", "seven eight")
    narrow = write_cues(transcript_of_two.segments, Layout(max_line_width=9))
    assert [cue.text for cue in narrow] == [
        "one two\nthree\nfour five\nsix",
        "seven\neight",
    ]
    paired = write_cues(
        transcript_of_two.segments, Layout(max_line_width=9, max_line_count=2)
    )
    assert [cue.text for cue in paired] == [
        "one two\nthree",
        "four five\nsix seven",
        "eight",
    ]
    by_words = write_cues(transcript_of_two.segments, Layout(max_words_per_line=4))
    assert [cue.text for cue in by_words] == [
        "one two three four",
        "five six",
        "seven eight",
    ]
    in_lines = write_cues(
        transcript_of_two.segments, Layout(max_words_per_line=4, max_line_width=80)
    )
    assert [cue.text for cue in in_lines] == [
        "one two three four\nfive six",
        "seven eight",
    ]
    assert paired[1].start_s == 1.5
    assert paired[1].end_s == 3.4


def test_cue_writer_breaks_segments_without_word_times() -> None:
    plain = replace(
        transcript(),
        segments=(Segment(0.0, 10.0, "aaaa bbbb cccc dddd", (), -0.1, 0.0),),
    )
    first, second = write_cues(
        plain.segments, Layout(max_line_width=9, max_line_count=1)
    )
    assert first.text == "aaaa bbbb"
    assert second.text == "cccc dddd"
    assert (first.start_s, first.end_s, second.end_s) == pytest.approx((0.0, 5.0, 10.0))


def test_cue_writer_highlighting_underlines_each_word() -> None:
    marked = [
        (c.start_s, c.end_s, c.text)
        for c in write_cues(
            make_transcript("a b").segments, Layout(highlight_words=True)
        )
    ]
    assert marked == [
        (0.0, 0.4, "<u>a</u> b"),
        (0.4, 0.5, "a b"),
        (0.5, 0.9, "a <u>b</u>"),
    ]


@given(
    st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=40),
    st.integers(5, 30),
    st.none() | st.integers(1, 3),
)
def test_cue_writer_random_words_fit_and_stay(
    words: list[str], width: int, count: int | None
) -> None:
    written = list(
        write_cues(
            make_transcript(" ".join(words)).segments,
            Layout(max_line_width=width, max_line_count=count),
        )
    )
    assert " ".join(cue.text for cue in written).split() == words
    for cue in written:
        lines = cue.text.split("\n")
        assert count is None or len(lines) <= count
        assert all(len(line) <= width or " " not in line for line in lines)
    times = [edge for cue in written for edge in (cue.start_s, cue.end_s)]
    assert times == sorted(times)


def test_render_vtt_text_and_voice_are_escaped() -> None:
    """Characters with a meaning in WebVTT; underlines of highlighted words stay."""
    text = "a <b> & c"
    marked = Segment(0.0, 2.0, text, (), -0.1, 0.0, speaker="A&B <x>")
    marked_transcript = replace(transcript(), segments=(marked,))
    for layout in (Layout(), BY_SEGMENT):
        assert "<v A&amp;B &lt;x&gt;>a &lt;b&gt; &amp; c\n" in render(
            marked_transcript, "vtt", layout
        )
        assert "A&B <x>: a <b> & c\n" in render(marked_transcript, "srt", layout)
    assert "<u>a</u> &lt;b&gt;" in render(
        marked_transcript, "vtt", Layout(highlight_words=True)
    )


@pytest.mark.parametrize(
    "name", ["max_line_width", "max_line_count", "max_words_per_line"]
)
def test_layout_zero_limit_raises(name: str) -> None:
    option = re.escape("--" + name.replace("_", "-"))
    with pytest.raises(OptionError, match=option):
        Layout(**{name: 0})


def test_layout_line_count_without_width_raises() -> None:
    with pytest.raises(OptionError, match="--max-line-count"):
        Layout(max_line_count=2)


def make_timed_transcript(
    *said: tuple[str, float, float], speakers: tuple[int | None, ...] = ()
) -> Transcript:
    """Return a transcript with a segment per timed word, each of a speaker."""
    segments = tuple(
        Segment(
            start, end, text, (), -0.1, 0.0, words=(Word(start, end, f" {text}", 0.9),)
        )
        for text, start, end in said
    )
    named = speakers or (None,) * len(said)
    return replace(
        transcript(),
        segments=tuple(
            replace(s, speaker=of) for s, of in zip(segments, named, strict=True)
        ),
    )


def list_cues(
    transcript_of_words: Transcript, **layout: int | bool
) -> list[tuple[float, float, str]]:
    return [
        (cue.start_s, cue.end_s, cue.text)
        for cue in write_cues(transcript_of_words.segments, Layout(**layout))
    ]  # type: ignore[arg-type]


def test_cue_writer_line_width_counts_blanks() -> None:
    """`one two` are 7 characters, `two six` on a line of their own as well."""
    words = make_transcript("one two six ten")
    assert [text for *_, text in list_cues(words, max_line_width=7)] == [
        "one two\nsix ten"
    ]
    assert [text for *_, text in list_cues(words, max_line_width=6)] == [
        "one\ntwo\nsix\nten"
    ]
    assert [text for *_, text in list_cues(words, max_line_width=8)] == [
        "one two\nsix ten"
    ]
    assert [text for *_, text in list_cues(words, max_line_width=11)] == [
        "one two six\nten"
    ]
    assert [text for *_, text in list_cues(words, max_line_width=1)] == [
        "one\ntwo\nsix\nten"
    ]


def test_cue_writer_words_per_line_restart_on_each_line() -> None:
    words = make_transcript("a b c d e f g")
    lines = [
        text for *_, text in list_cues(words, max_words_per_line=2, max_line_width=80)
    ]
    assert lines == ["a b\nc d\ne f\ng"]
    counted = list_cues(
        words, max_words_per_line=2, max_line_width=80, max_line_count=2
    )
    assert [text for *_, text in counted] == ["a b\nc d", "e f\ng"]
    assert [text for *_, text in list_cues(words, max_words_per_line=1)] == [*"abcdefg"]


@pytest.mark.parametrize(("pause_s", "n_cues"), [(2.9, 1), (3.0, 1), (3.1, 2)])
def test_cue_writer_pause_over_3_s_ends_a_cue(pause_s: float, n_cues: int) -> None:
    two = make_timed_transcript(("a", 0.0, 1.0), ("b", 1.0 + pause_s, 5.0))
    assert len(list_cues(two, max_line_width=40, max_line_count=2)) == n_cues


def test_cue_writer_shorter_pauses_stay_within_a_cue() -> None:
    three = make_timed_transcript(("a", 0.0, 1.0), ("b", 2.0, 4.0), ("c", 5.0, 6.0))
    assert list_cues(three, max_line_width=40, max_line_count=2) == [
        (0.0, 6.0, "a b c")
    ]


def test_cue_writer_joins_segments_with_width_and_count_only() -> None:
    two = make_timed_transcript(("a", 0.0, 1.0), ("b", 1.0, 2.0))
    assert list_cues(two) == [(0.0, 1.0, "a"), (1.0, 2.0, "b")]
    assert list_cues(two, max_line_width=40) == [(0.0, 1.0, "a"), (1.0, 2.0, "b")]
    assert list_cues(two, max_words_per_line=9) == [(0.0, 1.0, "a"), (1.0, 2.0, "b")]
    assert list_cues(two, max_line_width=40, max_line_count=1) == [(0.0, 2.0, "a b")]


def test_cue_writer_cue_has_one_speaker() -> None:
    three = make_timed_transcript(
        ("a", 0.0, 1.0), ("b", 1.0, 2.0), ("c", 2.0, 3.0), speakers=(0, 0, 1)
    )
    written = write_cues(three.segments, Layout(max_line_width=40, max_line_count=2))
    assert [(cue.text, cue.speaker) for cue in written] == [
        ("a b", 0),
        ("c", 1),
    ]
    assert [cue.speaker for cue in write_cues(three.segments, Layout())] == [0, 0, 1]
    words = (Word(0.0, 0.4, " a", 0.9), Word(0.6, 1.0, " b", 0.9))
    parted = replace(three.segments[2], words=words)
    marked = write_cues([*three.segments[:2], parted], Layout(highlight_words=True))
    assert [(cue.text, cue.speaker) for cue in marked][1:] == [
        ("<u>b</u>", 0),
        ("<u>a</u> b", 1),
        ("a b", 1),
        ("a <u>b</u>", 1),
    ]


def test_cue_writer_segment_without_text_has_no_cue() -> None:
    silent = Segment(0.0, 1.0, "", (), -0.1, 0.0)
    alone = replace(transcript(), segments=(silent,))
    assert list_cues(alone) == list_cues(alone, max_line_width=9) == []
    assert render(alone, "txt") == "\n"
    among = replace(transcript(), segments=(silent, *transcript().segments))
    assert render(among, "txt") == "Grüße.\nAll the rest.\n"
    assert among.text == "Grüße. All the rest."


def test_cue_writer_adjacent_highlights_leave_no_gap() -> None:
    two = make_transcript("a b")
    (segment,) = two.segments
    touching = (Word(0.0, 0.5, " a", 0.9), Word(0.5, 0.9, " b", 0.9))
    written = list_cues(
        replace(two, segments=(replace(segment, words=touching),)), highlight_words=True
    )
    assert written == [(0.0, 0.5, "<u>a</u> b"), (0.5, 0.9, "a <u>b</u>")]


@pytest.mark.parametrize(
    ("seconds", "time"),
    [
        (-1.0, "00:00:00,000"),
        (0.0004, "00:00:00,000"),
        (0.0006, "00:00:00,001"),
        (59.9996, "00:01:00,000"),
        (61.25, "00:01:01,250"),
        (3599.999, "00:59:59,999"),
        (3600.0, "01:00:00,000"),
        (360_000.5, "100:00:00,500"),
    ],
)
def test_cue_time_carries_over(seconds: float, time: str) -> None:
    assert cue_time(seconds, ",") == time
    assert cue_time(seconds, ".") == time.replace(",", ".")


@pytest.mark.parametrize(
    ("layout", "is_readable"),
    [
        (Layout(), True),
        (Layout(max_line_width=42, max_line_count=2), True),
        (Layout(max_line_width=42, max_line_count=1), True),
        (Layout(max_line_width=42, max_line_count=3), False),
        (Layout(max_line_width=42), False),
        (Layout(max_words_per_line=4), False),
        (Layout(highlight_words=True), False),
        (Layout("segments", max_line_width=42, max_line_count=2), False),
    ],
)
def test_layout_up_to_two_lines_is_readable(layout: Layout, is_readable: bool) -> None:
    """Other layouts fill lines word by word, or follow segments, as in OpenAI Whisper."""
    assert layout.is_readable is is_readable
