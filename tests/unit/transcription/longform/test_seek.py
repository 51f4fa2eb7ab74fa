"""Where the next window begins, in the recording, whatever window led there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.transcription.longform.layouts import PLAN as SPLIT_PLAN
from tests.unit.transcription.longform.layouts import feed_of
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import WordOptions
from whisper_hailo.transcription.longform.plan import WHOLE, AudioBuffer, Clip
from whisper_hailo.transcription.longform.seek import (
    Kept,
    SeekPlan,
    drop_hallucinations,
    is_odd,
    word_oddity,
)
from whisper_hailo.transcription.window import WindowResult, split_at_timestamps

PLAN = WindowPlan(10.0, 1.0)


def seeking(
    seconds: float = 60.0,
    words: WordOptions | None = None,
    clips: tuple[Clip, ...] = WHOLE,
) -> SeekPlan:
    audio = np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)
    return SeekPlan(AudioBuffer(iter([audio])), clips, PLAN, words)


def heard(window: Window, *edges: tuple[float, float], advance_s: float = 9.0) -> WindowResult:
    """Segments of one word each; `edges` in the recording."""
    segments = tuple(
        Segment(a, b, "w", (1,), -0.1, 0.0, words=(Word(a, b, " w", 0.9, (1,)),)) for a, b in edges
    )
    return WindowResult(window, Decoded((), -0.1, 0.0, runaway=False), segments, advance_s)


def test_the_last_timestamp_counts_from_its_window() -> None:
    plan = seeking()
    windows = plan.windows()
    starts = []
    for advance_s in (5.0, 2.3, 9.0, 0.58):  # 2.3 and 0.58 s are a hair less than whole frames
        window = next(windows)
        starts.append(window.start_s)
        plan.take(heard(window, advance_s=advance_s))
    assert starts == [0.0, 5.0, 7.3, 16.3]
    assert next(windows).start_s == 16.88


def test_the_last_word_s_end_is_a_time_of_the_recording() -> None:
    """In the second window, too, whose words lie behind its start."""
    plan = seeking(words=WordOptions())
    windows = plan.windows()
    plan.take(heard(next(windows), (1.0, 2.0), (3.0, 4.0), advance_s=8.0))
    second = next(windows)
    assert second.start_s == 4.0
    plan.take(heard(second, (5.0, 6.25), advance_s=8.0))
    third = next(windows)
    assert third.start_s == 6.25
    plan.take(heard(third, (7.0, 8.2), advance_s=8.0))
    assert next(windows).start_s == 8.2, "a hair less than a whole number of frames"


def test_word_that_ends_where_window_begins_does_not_hold_it_up() -> None:
    plan = seeking(words=WordOptions())
    windows = plan.windows()
    plan.take(heard(next(windows), (1.0, 4.0)))
    plan.take(heard(next(windows), (3.5, 4.0), advance_s=2.0))
    assert next(windows).start_s == 6.0


def test_behind_a_last_time_that_stands_alone_nothing_was_said() -> None:
    for words in (None, WordOptions()):
        plan = seeking(words=words)
        windows = plan.windows()
        plan.take(replace(heard(next(windows), (1.0, 4.0), advance_s=4.0), ends_alone=True))
        assert next(windows).start_s == 9.0


def test_a_silent_window_is_left_whole() -> None:
    plan = seeking(words=WordOptions())
    windows = plan.windows()
    result = replace(heard(next(windows), (1.0, 2.0), advance_s=3.0), silent=True)
    assert plan.take(result) == []
    assert next(windows).start_s == 9.0


def test_a_model_that_stands_still_is_moved_by_two_frames() -> None:
    plan = seeking()
    windows = plan.windows()
    plan.take(heard(next(windows), advance_s=0.0))
    assert next(windows).start_s == pytest.approx(0.02)


def test_segments_of_no_length_are_dropped() -> None:
    plan = seeking()
    window = next(plan.windows())
    taken = plan.take(heard(window, (1.0, 2.0), (2.0, 2.0), (2.0, 3.0)))
    assert [(one.start_s, one.end_s) for one in taken] == [(1.0, 2.0), (2.0, 3.0)]


@pytest.mark.parametrize(
    ("samples", "n_windows"), [(1, 1), (144_000, 1), (144_159, 1), (144_160, 2)]
)
def test_first_sample_is_worth_window_then_only_whole_frame(samples: int, n_windows: int) -> None:
    plan = SeekPlan(AudioBuffer(iter([np.zeros(samples, np.float32)])), WHOLE, PLAN)
    count = 0
    for window in plan.windows():
        plan.take(heard(window))
        count += 1
    assert count == n_windows


def test_clip_begins_where_asked_never_before_the_last_window() -> None:
    clips = (Clip(16_000, 48_000), Clip(80_000, None))
    plan = seeking(8.0, clips=clips)
    seen = []
    for window in plan.windows():
        seen.append((window.start_s, window.content_s))
        plan.take(heard(window))
    assert seen == [(1.0, 2.0), (5.0, 3.0)]


def test_nothing_of_a_clip_is_lost_before_its_first_whole_frame() -> None:
    """From 1.005 s to 3 s: the frame that begins at 1 s is heard, and nothing behind the end."""
    window = next(seeking(8.0, clips=(Clip(16_080, 48_000),)).windows())
    assert (window.start_s, window.content_s) == (1.0, 2.0)


@pytest.mark.parametrize(("last_s", "next_s"), [(8.9, 9.0), (5.0, 5.0)])
def test_made_up_word_near_the_end_leads_behind_the_window(last_s: float, next_s: float) -> None:
    """The silence behind it is no longer than the threshold's: 0.1 s of 2, but not 4 s."""
    plan = seeking(words=WordOptions(hallucination_silence_s=2.0))
    windows = plan.windows()
    words = (1.0, 1.4), (last_s - 0.4, last_s)
    plan.take(heard(next(windows), *words, advance_s=8.95))
    assert next(windows).start_s == next_s


def test_without_words_or_a_time_the_window_s_advance_leads_on() -> None:
    plan = seeking(words=WordOptions(hallucination_silence_s=3.0))
    windows = plan.windows()
    assert plan.take(heard(next(windows), advance_s=5.0)) == []
    assert next(windows).start_s == 5.0


def odd(window: Window, *at_s: float, text: tuple[float, ...] = ()) -> WindowResult:
    """Segments of one improbable word of half a second each, then of one that was said."""
    segments = tuple(
        Segment(at, at + 0.5, "w", (1,), -0.1, 0.0, words=(Word(at, at + 0.5, " w", p, (1,)),))
        for at, p in [*((one, 0.05) for one in at_s), *((one, 0.9) for one in text)]
    )
    return WindowResult(window, Decoded((), -0.1, 0.0, runaway=False), segments, 9.0)


def test_silence_before_a_window_follows_what_is_left_before_it() -> None:
    """Spoken to 4 s; a window that is made up, all of it, changes nothing of that."""
    plan = seeking(words=WordOptions(hallucination_silence_s=3.0))
    windows = plan.windows()
    plan.take(heard(next(windows), (3.5, 4.0)))
    assert plan.take(odd(next(windows), 5.0)) == []
    third = next(windows)
    assert third.start_s == 5.0
    assert plan.take(odd(third, 7.5, text=(13.5,))) == [], "3.5 s behind what was said"


def test_silence_begins_behind_a_time_without_text() -> None:
    """At 4 s: what is heard 2.5 s later is believed, though nothing was said before it."""
    plan = seeking(words=WordOptions(hallucination_silence_s=3.0))
    windows = plan.windows()
    assert plan.take(replace(heard(next(windows)), end_s=4.0)) == []
    second = next(windows)
    assert second.start_s == 4.0
    assert [one.start_s for one in plan.take(odd(second, 6.5, text=(12.5,)))] == [6.5, 12.5]


@pytest.mark.parametrize(
    ("clips", "expected"),
    [
        ((Clip(0, 0),), []),
        ((Clip(0, 1),), [(0.0, 1)]),
        ((Clip(16_000, 16_159),), []),
        ((Clip(16_000, 16_160),), [(1.0, 160)]),
        ((Clip(16_000, 16_160), Clip(16_160, 16_320)), [(1.0, 160), (1.01, 160)]),
    ],
)
def test_clips_of_a_frame_or_less(
    clips: tuple[Clip, ...], expected: list[tuple[float, int]]
) -> None:
    plan = seeking(clips=clips)
    found = []
    for window in plan.windows():
        assert not window.needs_words
        found.append((window.start_s, window.audio.size))
        plan.take(heard(window, advance_s=0.0))
    assert found == expected


def test_a_recording_of_nothing_has_no_window() -> None:
    assert list(seeking(0.0).windows()) == []


BEGIN = 1000
"""Id of `<|0.00|>` in the tests below; each utterance is an id of its own."""


@st.composite
def utterances(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Starts and ends on the grid of the timestamps; each fits a window that begins before it."""
    result, at = [], 0
    for _ in range(draw(st.integers(0, 25))):
        at += draw(st.integers(0, 250))
        end = at + draw(st.integers(5, 190))
        result.append((at * 0.02, end * 0.02))
        at = end
    return result


def written(truth: list[tuple[float, float]], window: Window) -> list[int]:
    """What a model that hears everything writes: one that is cut has no end."""
    tokens: list[int] = []
    for index, (start_s, end_s) in enumerate(truth):
        if window.start_s - 0.01 <= start_s < window.end_s - 0.01:
            tokens += [BEGIN + round((start_s - window.start_s) * 50), index]
            if end_s <= window.end_s + 0.001:
                tokens.append(BEGIN + round((end_s - window.start_s) * 50))
    return tokens


@given(utterances())
@settings(max_examples=30, deadline=None)
def test_seeking_hears_every_utterance_once_and_times_rise(
    truth: list[tuple[float, float]],
) -> None:
    n_samples = round(((truth[-1][1] if truth else 0.0) + 0.3) * SAMPLE_RATE_HZ)
    plan = SeekPlan(feed_of(np.zeros(n_samples, np.float32)), WHOLE, SPLIT_PLAN)
    segments: list[Segment] = []
    for window in plan.windows():
        tokens = written(truth, window)
        split = split_at_timestamps(tokens, BEGIN, window.content_s)
        parts = tuple(
            Segment(
                window.start_s + part.start_s,
                window.start_s + part.end_s,
                " ".join(str(token) for token in part.tokens if token < BEGIN),
                part.tokens,
                -0.1,
                0.0,
            )
            for part in split.segments
            if tokens
        )
        decoded = Decoded(tuple(tokens), -0.1, 0.0, runaway=False)
        result = WindowResult(
            window, decoded, parts, split.advance_s, split.ends_alone, silent=not tokens
        )
        segments += plan.take(result)
    assert [part.text for part in segments] == [str(index) for index in range(len(truth))]
    # As in Whisper, a segment that is alone in its window begins where the window does.
    assert all(part.start_s <= s + 0.021 for part, (s, _) in zip(segments, truth, strict=True))
    assert [part.end_s for part in segments] == pytest.approx([e for _, e in truth], abs=0.021)
    edges = [edge for part in segments for edge in (part.start_s, part.end_s)]
    assert np.all(np.diff(edges) > -1e-6)


SILENCE_S = 2.0
FULL_S = 30.0


def said(*at_s: float, probability: float = 0.9, length_s: float = 0.4) -> Segment:
    """A segment of words that begin at these times."""
    words = tuple(Word(at, at + length_s, " word", probability) for at in at_s)
    return Segment(at_s[0], words[-1].end_s, " word" * len(words), (), -0.1, 0.0, words=words)


def odd_word(*at_s: float) -> Segment:
    """A segment that nobody said: all of its words are improbable."""
    return said(*at_s, probability=0.05)


def heard_window(
    *segments: Segment, start_s: float = 60.0, content_s: float = FULL_S, ends_alone: bool = False
) -> WindowResult:
    audio = np.zeros(round(content_s * SAMPLE_RATE_HZ), np.float32)
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(Window(audio, start_s), decoded, segments, content_s, ends_alone=ends_alone)


def kept(
    result: WindowResult, *, last_speech_s: float = 59.0, silence_s: float = SILENCE_S
) -> Kept:
    return drop_hallucinations(result, silence_s, last_speech_s=last_speech_s, full_s=FULL_S)


@pytest.mark.parametrize(
    ("length_s", "probability", "oddity"),
    [
        (0.4, 0.15, 0.0),
        (0.4, 0.149, 1.0),
        (0.133, 0.9, 0.0),
        (0.033, 0.9, 1.5),
        (2.0, 0.9, 0.0),
        (3.5, 0.9, 1.5),
        (0.033, 0.1, 2.5),
    ],
)
def test_a_word_is_odd_by_its_probability_and_its_length(
    length_s: float, probability: float, oddity: float
) -> None:
    assert word_oddity(Word(5.0, 5.0 + length_s, " a", probability)) == pytest.approx(oddity)


def test_a_segment_is_odd_when_its_words_mostly_are() -> None:
    assert is_odd(odd_word(1.0))
    assert is_odd(odd_word(1.0, 2.0))
    assert not is_odd(said(1.0, 2.0))
    mixed = (*odd_word(1.0, 2.0).words, *said(3.0).words)
    assert not is_odd(Segment(1.0, 3.4, "", (), -0.1, 0.0, words=mixed)), "two of three"
    mixed = (*odd_word(1.0, 2.0, 3.0).words, *said(4.0, 5.0, 6.0, 7.0).words)
    assert is_odd(Segment(1.0, 7.4, "", (), -0.1, 0.0, words=mixed)), "three are enough"
    assert not is_odd(None)
    assert not is_odd(Segment(1.0, 2.0, "no words", (), -0.1, 0.0))


@pytest.mark.parametrize(("length_s", "expected"), [(0.0665, True), (0.0673, False)])
def test_a_word_alone_is_odd_within_a_hundredth_of_one(length_s: float, expected: bool) -> None:
    """15 for each second that it is shorter than 0.133 s: 0.9975 is enough, 0.9855 is not."""
    word = Word(1.0, 1.0 + length_s, " a", 0.9)
    assert is_odd(Segment(1.0, 1.1, "", (), -0.1, 0.0, words=(word,))) is expected


def test_marks_are_no_words_and_only_the_first_eight_words_count() -> None:
    mark = Word(1.4, 1.7, ".", 0.9)
    words = (*odd_word(1.0).words, mark)
    assert is_odd(Segment(1.0, 2.0, "", (), -0.1, 0.0, words=words)), "the mark is no good word"
    words = (*odd_word(1, 2).words, *said(3).words, *[mark] * 5)
    words += odd_word(9).words
    assert is_odd(Segment(1.0, 9.4, "", (), -0.1, 0.0, words=words)), "the fourth word is the ninth"
    late = (*said(*range(1, 9)).words, *odd_word(9.0, 10.0, 11.0).words)
    assert not is_odd(Segment(1.0, 11.4, "", (), -0.1, 0.0, words=late))


def test_speech_is_kept_and_the_next_window_begins_behind_it() -> None:
    result = heard_window(said(61.0, 62.0), said(70.0, 71.0))
    assert kept(result) == Kept(result.segments, pytest.approx(71.4))
    near_the_end = heard_window(said(61.0, 88.0))
    assert kept(near_the_end) == Kept(near_the_end.segments, pytest.approx(90.0))
    alone = heard_window(said(61.0, 62.0), ends_alone=True)
    assert kept(alone) == Kept(alone.segments, None)


def test_leading_silence_before_odd_text_is_skipped_and_reheard() -> None:
    result = heard_window(odd_word(63.0), said(64.0, 65.0))
    assert kept(result) == Kept((), 63.0)
    assert kept(heard_window(odd_word(62.0), said(63.0, 64.0))).segments != (), (
        "no more than the threshold"
    )
    assert kept(heard_window(said(63.0), said(64.0))).segments != (), "nothing is odd"


def test_odd_text_between_silences_is_dropped_and_heard_again() -> None:
    speech = said(61.0, 62.0)
    result = heard_window(speech, odd_word(70.0), said(80.0, 81.0))
    assert kept(result) == Kept((speech,), 70.0)


def test_odd_text_within_speech_is_kept() -> None:
    for result in (
        heard_window(said(61.0, 69.4), odd_word(70.0), said(80.0, 81.0)),  # nothing before it
        heard_window(said(61.0, 62.0), odd_word(70.0), said(71.0, 81.0)),  # nothing behind it
    ):
        assert kept(result).segments == result.segments


def test_odd_text_beside_odd_text_or_the_window_edges_is_dropped() -> None:
    speech = said(61.0, 62.0)
    assert kept(heard_window(speech, odd_word(70.0), odd_word(71.0), said(72.0))) == Kept(
        (speech,), 70.0
    )
    assert kept(heard_window(said(61.0, 84.0), odd_word(88.0))).seek_s == 88.0, (
        "behind it the window ends"
    )
    begins = heard_window(odd_word(61.5), said(70.0, 71.0))
    assert kept(begins, last_speech_s=61.0) == Kept((), 61.5)
    assert kept(heard_window(odd_word(60.2), said(70.0)), last_speech_s=60.0).seek_s == 61.0, (
        "a second at least"
    )


def test_silence_before_odd_text_counts_from_the_window_before() -> None:
    inside = heard_window(
        odd_word(62.0), said(70.0, 71.0)
    )  # too late for the edge, too early to be skipped to
    assert kept(inside, last_speech_s=61.5).segments == inside.segments
    assert kept(inside, last_speech_s=58.0) == Kept((), 62.0)


def test_before_the_recording_there_is_silence() -> None:
    begins = heard_window(odd_word(2.5), said(10.0, 11.0), start_s=0.0)
    assert kept(begins, last_speech_s=0.0, silence_s=2.6) == Kept((), 2.5)
    later = heard_window(odd_word(2.7), said(10.0, 11.0), start_s=0.2)
    assert kept(later, last_speech_s=0.2, silence_s=2.6).segments == later.segments


def test_odd_text_at_the_end_of_the_recording() -> None:
    speech = said(61.0, 62.0)
    ends = heard_window(speech, odd_word(66.0), content_s=10.0)
    assert kept(ends) == Kept((speech,), 66.0), "the silence behind it is long enough"
    ends = heard_window(speech, odd_word(68.0), content_s=10.0)
    assert kept(ends).segments == ends.segments, "it is not"
    ends = heard_window(speech, odd_word(68.0), odd_word(69.0), content_s=10.0)
    assert kept(ends) == Kept((speech,), 70.0), "too little is left to hear it again"
    full = heard_window(speech, odd_word(88.0), odd_word(89.0))
    assert kept(full) == Kept((speech,), 88.0), "a full window is not the end"


def silent_feed(seconds: float) -> AudioBuffer:
    silence: FloatArray = np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)
    return AudioBuffer(iter([silence]))


def seek_silence(seconds: float, *, margin_s: float = 1.0) -> SeekPlan:
    words = WordOptions(hallucination_silence_s=SILENCE_S)
    return SeekPlan(silent_feed(seconds), WHOLE, WindowPlan(10.0, margin_s), words)


def result_of(window: Window, *segments: Segment) -> WindowResult:
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(window, decoded, segments, window.content_s)


def test_seeking_hears_again_from_what_was_dropped() -> None:
    plan = seek_silence(60.0)
    windows = plan.windows()
    speech = said(1.0, 2.0)
    assert plan.take(result_of(next(windows), speech, odd_word(5.0))) == [speech]
    assert next(windows).start_s == 5.0


def test_a_full_window_is_not_the_end_of_the_recording() -> None:
    """Its last second is kept free: 9 s of audio fill a window of 10 s."""
    plan = seek_silence(60.0)
    windows = plan.windows()
    speech = said(1.0, 2.0)
    assert plan.take(result_of(next(windows), speech, odd_word(8.2))) == [speech]
    assert next(windows).start_s == 8.2
    plan = seek_silence(9.5)
    windows = plan.windows()
    next(windows)
    plan.take(result_of(Window(np.zeros(8 * 16_000, np.float32), 0.0), speech, odd_word(7.2)))
    assert next(windows).start_s == 8.0, "a short window is: it ends there"


def test_a_pause_is_measured_from_what_was_kept() -> None:
    """What was dropped is no speech: the next window's silence begins before it."""
    plan = seek_silence(60.0)
    windows = plan.windows()
    plan.take(result_of(next(windows), said(1.0, 2.0), odd_word(5.0)))
    again = next(windows)
    assert plan.take(result_of(again, odd_word(7.0), said(12.0, 13.0))) == []
    assert next(windows).start_s == 7.0


def test_pause_is_measured_from_last_word_of_window_before() -> None:
    plan = seek_silence(60.0)
    windows = plan.windows()
    plan.take(result_of(next(windows), said(8.0, 8.6)))
    again = next(windows)
    assert again.start_s == 9.0
    segments = [odd_word(11.0), said(15.0, 16.0)]
    assert plan.take(result_of(again, *segments)) == segments, "2 s behind it, and no more"


def test_without_the_option_nothing_is_dropped() -> None:
    plan = SeekPlan(silent_feed(60.0), WHOLE, WindowPlan(10.0, 1.0), WordOptions())
    windows = plan.windows()
    segments = [said(1.0, 2.0), odd_word(5.0)]
    assert plan.take(result_of(next(windows), *segments)) == segments
    assert next(windows).start_s == pytest.approx(5.4)


THRESHOLD_S = 3.0


def good(at_s: float) -> Segment:
    return said(at_s, length_s=0.5)


def odd_times(at_s: float) -> Segment:
    """A word of half a second that nobody said."""
    return said(at_s, length_s=0.5, probability=0.05)


@pytest.mark.parametrize(
    ("segments", "last_speech_s", "is_dropped"),
    [
        # From the word before to the odd one: 3 s, and a quarter more.
        ([good(62.5), odd_times(66.0), good(80.0)], 59.0, False),
        ([good(62.5), odd_times(66.25), good(80.0)], 59.0, True),
        # From the window before, for the first segment; 2 s from the window's start is no edge.
        ([odd_times(62.5), good(80.0)], 59.5, False),
        ([odd_times(62.5), good(80.0)], 59.25, True),
        ([odd_times(62.0), good(80.0)], 61.0, False),
        ([odd_times(61.75), good(80.0)], 61.0, True),
        # From the odd one to the word behind it.
        ([good(61.0), odd_times(70.0), good(73.5)], 59.0, False),
        ([good(61.0), odd_times(70.0), good(73.75)], 59.0, True),
        # To the window's end: an edge is less than 2 s from it.
        ([good(61.0), odd_times(87.5)], 59.0, False),
        ([good(61.0), odd_times(87.75)], 59.0, True),
    ],
)
def test_silence_exceeds_threshold_and_edges_are_under_2_s(
    segments: list[Segment], last_speech_s: float, is_dropped: bool
) -> None:
    found = kept(heard_window(*segments), last_speech_s=last_speech_s, silence_s=THRESHOLD_S)
    at = next(index for index, segment in enumerate(segments) if is_odd(segment))
    assert list(found.segments) == (segments[:at] if is_dropped else segments)
    if is_dropped:
        assert found.seek_s == segments[at].start_s


@pytest.mark.parametrize(("at_s", "is_dropped"), [(2.75, True), (3.0, False)])
def test_at_recording_s_start_less_than_threshold_is_silence(at_s: float, is_dropped: bool) -> None:
    """Whatever was said before it, and 2 s behind the window's start."""
    result = heard_window(odd_times(at_s), good(10.0), start_s=0.5)
    found = kept(result, last_speech_s=2.5, silence_s=THRESHOLD_S)
    assert (found.segments == ()) is is_dropped


@pytest.mark.parametrize(("ends_s", "seek_s"), [(87.0, 90.0), (86.75, 86.75)])
def test_a_rest_no_longer_than_the_threshold_is_not_heard_again(
    ends_s: float, seek_s: float
) -> None:
    assert kept(heard_window(good(ends_s - 0.5)), silence_s=THRESHOLD_S).seek_s == seek_s


def test_a_window_without_text_leads_where_its_last_time_does() -> None:
    assert kept(heard_window()) == Kept((), None)
    timed = replace(heard_window(), end_s=70.0)
    assert kept(timed, silence_s=THRESHOLD_S) == Kept((), 70.0)


def test_a_word_that_ends_with_the_window_s_start_leads_nowhere() -> None:
    assert kept(heard_window(good(59.5)), silence_s=THRESHOLD_S).seek_s is None
    assert kept(heard_window(good(59.75)), silence_s=THRESHOLD_S).seek_s == 60.25


@pytest.mark.parametrize(("content_s", "at_s", "seek_s"), [
    (10.0, 66.5, 66.5), (10.0, 66.75, 70.0), (30.0, 86.75, 86.75)
])  # fmt: skip
def test_dropped_text_at_the_end_is_heard_again(
    content_s: float, at_s: float, seek_s: float
) -> None:
    """3 s behind it are enough; a full window is not the end."""
    result = heard_window(good(61.0), odd_times(at_s), odd_times(at_s + 0.75), content_s=content_s)
    assert kept(result, silence_s=THRESHOLD_S).seek_s == seek_s


@pytest.mark.parametrize(("at_s", "seek_s"), [(60.75, 61.0), (61.0, 61.0), (61.25, 61.25)])
def test_the_next_window_begins_a_second_later_at_least(at_s: float, seek_s: float) -> None:
    found = kept(
        heard_window(odd_times(at_s), good(80.0)), last_speech_s=60.0, silence_s=THRESHOLD_S
    )
    assert (found.segments, found.seek_s) == ((), seek_s)


def test_silence_before_odd_text_follows_the_segment_before_it() -> None:
    """Segments without words say nothing of when somebody spoke."""
    silent = Segment(64.0, 69.0, "no words", (), -0.1, 0.0)
    segments = [good(61.0), silent, odd_times(70.0), silent, good(80.0)]
    assert list(kept(heard_window(*segments), silence_s=THRESHOLD_S).segments) == segments[:2]
    segments = [good(61.0), good(66.75), odd_times(70.0), good(80.0)]
    assert list(kept(heard_window(*segments), silence_s=THRESHOLD_S).segments) == segments


def test_odd_text_that_is_believed_ends_silence_before_next() -> None:
    """2.5 s behind a word, and 2 s behind that; from the word on it would be 5 s."""
    segments = [good(61.0), odd_times(64.0), odd_times(66.5), good(80.0)]
    assert list(kept(heard_window(*segments), silence_s=THRESHOLD_S).segments) == segments


@pytest.mark.parametrize(("at_s", "is_dropped"), [(73.5, False), (73.75, True)])
def test_silence_behind_odd_text_goes_on_to_the_next_word(at_s: float, is_dropped: bool) -> None:
    """Whatever times there are before it: of a segment without words, or of its own."""
    wordless = Segment(71.0, 72.0, "no words", (), -0.1, 0.0)
    early = replace(good(at_s), start_s=70.75)
    for behind in ([wordless, good(at_s)], [early]):
        segments = [good(61.0), odd_times(70.0), *behind]
        found = kept(heard_window(*segments), silence_s=THRESHOLD_S)
        assert list(found.segments) == (segments[:1] if is_dropped else segments)


@pytest.mark.parametrize(("place", "expected"), [(7, True), (8, False)])
def test_the_eighth_word_counts_and_the_ninth_does_not(place: int, expected: bool) -> None:
    """Three odd words make a segment odd: two of them are its first."""
    probabilities = [0.05, 0.05, *[0.9] * 8]
    probabilities[place] = 0.05
    words = tuple(Word(at, at + 0.5, " w", p) for at, p in enumerate(probabilities))
    assert is_odd(Segment(0.0, 9.5, "", (), -0.1, 0.0, words=words)) is expected
