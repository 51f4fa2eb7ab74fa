"""Made-up text beside silence: each bound of OpenAI Whisper's rules, met and just missed.

All times are sums of quarters of a second, which floats hold exactly; a window goes from 60 s to
90 s, and a silence is suspicious from 3 s on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.transcription.longform.test_hallucination import heard, kept, said
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.transcription.longform.seek import Kept, is_odd

SILENCE_S = 3.0


def good(at_s: float) -> Segment:
    return said(at_s, length_s=0.5)


def odd(at_s: float) -> Segment:
    """A word of half a second that nobody said."""
    return said(at_s, length_s=0.5, probability=0.05)


@pytest.mark.parametrize(
    ("segments", "last_speech_s", "is_dropped"),
    [
        # From the word before to the odd one: 3 s, and a quarter more.
        ([good(62.5), odd(66.0), good(80.0)], 59.0, False),
        ([good(62.5), odd(66.25), good(80.0)], 59.0, True),
        # From the window before, for the first segment; 2 s from the window's start is no edge.
        ([odd(62.5), good(80.0)], 59.5, False),
        ([odd(62.5), good(80.0)], 59.25, True),
        ([odd(62.0), good(80.0)], 61.0, False),
        ([odd(61.75), good(80.0)], 61.0, True),
        # From the odd one to the word behind it.
        ([good(61.0), odd(70.0), good(73.5)], 59.0, False),
        ([good(61.0), odd(70.0), good(73.75)], 59.0, True),
        # To the window's end: an edge is less than 2 s from it.
        ([good(61.0), odd(87.5)], 59.0, False),
        ([good(61.0), odd(87.75)], 59.0, True),
    ],
)
def test_a_silence_is_longer_than_the_threshold_and_an_edge_less_than_two_seconds(
    segments: list[Segment], last_speech_s: float, is_dropped: bool
) -> None:
    found = kept(heard(*segments), last_speech_s=last_speech_s, silence_s=SILENCE_S)
    at = next(index for index, segment in enumerate(segments) if is_odd(segment))
    assert list(found.segments) == (segments[:at] if is_dropped else segments)
    if is_dropped:
        assert found.seek_s == segments[at].start_s


@pytest.mark.parametrize(("at_s", "is_dropped"), [(2.75, True), (3.0, False)])
def test_at_the_recording_s_start_less_than_the_threshold_is_silence(
    at_s: float, is_dropped: bool
) -> None:
    """Whatever was said before it, and 2 s behind the window's start."""
    result = heard(odd(at_s), good(10.0), start_s=0.5)
    found = kept(result, last_speech_s=2.5, silence_s=SILENCE_S)
    assert (found.segments == ()) is is_dropped


@pytest.mark.parametrize(("ends_s", "seek_s"), [(87.0, 90.0), (86.75, 86.75)])
def test_a_rest_no_longer_than_the_threshold_is_not_heard_again(
    ends_s: float, seek_s: float
) -> None:
    assert kept(heard(good(ends_s - 0.5)), silence_s=SILENCE_S).seek_s == seek_s


def test_a_window_without_text_leads_where_its_last_time_does() -> None:
    assert kept(heard()) == Kept((), None)
    timed = replace(heard(), end_s=70.0)
    assert kept(timed, silence_s=SILENCE_S) == Kept((), 70.0)


def test_a_word_that_ends_with_the_window_s_start_leads_nowhere() -> None:
    assert kept(heard(good(59.5)), silence_s=SILENCE_S).seek_s is None
    assert kept(heard(good(59.75)), silence_s=SILENCE_S).seek_s == 60.25


@pytest.mark.parametrize(("content_s", "at_s", "seek_s"), [
    (10.0, 66.5, 66.5), (10.0, 66.75, 70.0), (30.0, 86.75, 86.75)
])  # fmt: skip
def test_what_is_dropped_at_the_recording_s_end_is_heard_again_where_enough_is_left(
    content_s: float, at_s: float, seek_s: float
) -> None:
    """3 s behind it are enough; a full window is not the end."""
    result = heard(good(61.0), odd(at_s), odd(at_s + 0.75), content_s=content_s)
    assert kept(result, silence_s=SILENCE_S).seek_s == seek_s


@pytest.mark.parametrize(("at_s", "seek_s"), [(60.75, 61.0), (61.0, 61.0), (61.25, 61.25)])
def test_the_next_window_begins_a_second_later_at_least(at_s: float, seek_s: float) -> None:
    found = kept(heard(odd(at_s), good(80.0)), last_speech_s=60.0, silence_s=SILENCE_S)
    assert (found.segments, found.seek_s) == ((), seek_s)


def test_silence_before_odd_text_is_that_behind_the_segment_before_it() -> None:
    """Segments without words say nothing of when somebody spoke."""
    silent = Segment(64.0, 69.0, "no words", (), -0.1, 0.0)
    segments = [good(61.0), silent, odd(70.0), silent, good(80.0)]
    assert list(kept(heard(*segments), silence_s=SILENCE_S).segments) == segments[:2]
    segments = [good(61.0), good(66.75), odd(70.0), good(80.0)]
    assert list(kept(heard(*segments), silence_s=SILENCE_S).segments) == segments


def test_odd_text_that_is_believed_ends_the_silence_before_the_next() -> None:
    """2.5 s behind a word, and 2 s behind that; from the word on it would be 5 s."""
    segments = [good(61.0), odd(64.0), odd(66.5), good(80.0)]
    assert list(kept(heard(*segments), silence_s=SILENCE_S).segments) == segments


@pytest.mark.parametrize(("at_s", "is_dropped"), [(73.5, False), (73.75, True)])
def test_silence_behind_odd_text_goes_on_to_the_next_word(at_s: float, is_dropped: bool) -> None:
    """Whatever times there are before it: of a segment without words, or of its own."""
    wordless = Segment(71.0, 72.0, "no words", (), -0.1, 0.0)
    early = replace(good(at_s), start_s=70.75)
    for behind in ([wordless, good(at_s)], [early]):
        segments = [good(61.0), odd(70.0), *behind]
        found = kept(heard(*segments), silence_s=SILENCE_S)
        assert list(found.segments) == (segments[:1] if is_dropped else segments)


@pytest.mark.parametrize(("place", "expected"), [(7, True), (8, False)])
def test_the_eighth_word_counts_and_the_ninth_does_not(place: int, expected: bool) -> None:
    """Three odd words make a segment odd: two of them are its first."""
    probabilities = [0.05, 0.05, *[0.9] * 8]
    probabilities[place] = 0.05
    words = tuple(Word(at, at + 0.5, " w", p) for at, p in enumerate(probabilities))
    assert is_odd(Segment(0.0, 9.5, "", (), -0.1, 0.0, words=words)) is expected
