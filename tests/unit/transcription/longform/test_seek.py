"""Where the next window begins, in the recording, whatever window led there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.recording_layouts import PLAN as SPLIT_PLAN
from tests.fakes.recording_layouts import feed_of
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import WHOLE, Clip
from whisper_hailo.transcription.longform.seek import SeekPlanner
from whisper_hailo.transcription.segments import split_at_timestamps
from whisper_hailo.transcription.window import WindowResult

PLAN = WindowPlan(10.0, 1.0)


def seeking(
    seconds: float = 60.0,
    word_timestamps: bool = False,
    clips: tuple[Clip, ...] = WHOLE,
) -> SeekPlanner:
    audio = np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)
    return SeekPlanner(AudioBuffer(iter([audio])), clips, PLAN, word_timestamps)


def heard(
    window: Window, *edges: tuple[float, float], advance_s: float = 9.0
) -> WindowResult:
    """Segments of one word each; `edges` in the recording."""
    segments = tuple(
        Segment(a, b, "w", (1,), -0.1, 0.0, words=(Word(a, b, " w", 0.9, (1,)),))
        for a, b in edges
    )
    return WindowResult(
        window, Decoded((), -0.1, 0.0, runaway=False), segments, advance_s
    )


def test_next_window_starts_at_the_last_timestamp() -> None:
    plan = seeking()
    windows = plan.windows()
    starts = []
    # 2.3 and 0.58 s are a hair less than whole frames.
    for advance_s in (5.0, 2.3, 9.0, 0.58):
        window = next(windows)
        starts.append(window.start_s)
        plan.take(heard(window, advance_s=advance_s))
    assert starts == [0.0, 5.0, 7.3, 16.3]
    assert next(windows).start_s == 16.88


def test_next_window_with_words_starts_at_the_last_word() -> None:
    """In the second window, too, whose words lie behind its start."""
    plan = seeking(word_timestamps=True)
    windows = plan.windows()
    plan.take(heard(next(windows), (1.0, 2.0), (3.0, 4.0), advance_s=8.0))
    second = next(windows)
    assert second.start_s == 4.0
    plan.take(heard(second, (5.0, 6.25), advance_s=8.0))
    third = next(windows)
    assert third.start_s == 6.25
    plan.take(heard(third, (7.0, 8.2), advance_s=8.0))
    assert next(windows).start_s == 8.2, "a hair less than a whole number of frames"


def test_word_ending_at_window_start_is_passed() -> None:
    plan = seeking(word_timestamps=True)
    windows = plan.windows()
    plan.take(heard(next(windows), (1.0, 4.0)))
    plan.take(heard(next(windows), (3.5, 4.0), advance_s=2.0))
    assert next(windows).start_s == 6.0


def test_single_last_timestamp_skips_the_window() -> None:
    for words in (False, True):
        plan = seeking(word_timestamps=words)
        windows = plan.windows()
        plan.take(
            replace(heard(next(windows), (1.0, 4.0), advance_s=4.0), ends_alone=True)
        )
        assert next(windows).start_s == 9.0


def test_silent_window_is_skipped() -> None:
    plan = seeking(word_timestamps=True)
    windows = plan.windows()
    result = replace(heard(next(windows), (1.0, 2.0), advance_s=3.0), silent=True)
    assert plan.take(result) == []
    assert next(windows).start_s == 9.0


def test_window_without_advance_moves_two_frames() -> None:
    plan = seeking()
    windows = plan.windows()
    plan.take(heard(next(windows), advance_s=0.0))
    assert next(windows).start_s == pytest.approx(0.02)


def test_segments_of_no_length_are_dropped() -> None:
    plan = seeking()
    window = next(plan.windows())
    taken = plan.take(heard(window, (1.0, 2.0), (2.0, 2.0), (2.0, 3.0)))
    assert [(segment.start_s, segment.end_s) for segment in taken] == [
        (1.0, 2.0),
        (2.0, 3.0),
    ]


@pytest.mark.parametrize(
    ("samples", "n_windows"), [(1, 1), (144_000, 1), (144_159, 1), (144_160, 2)]
)
def test_first_sample_gets_a_window_then_whole_frames(
    samples: int, n_windows: int
) -> None:
    plan = SeekPlanner(AudioBuffer(iter([np.zeros(samples, np.float32)])), WHOLE, PLAN)
    count = 0
    for window in plan.windows():
        plan.take(heard(window))
        count += 1
    assert count == n_windows


def test_clip_never_begins_before_the_last_window() -> None:
    clips = (Clip(16_000, 48_000), Clip(80_000, None))
    plan = seeking(8.0, clips=clips)
    seen = []
    for window in plan.windows():
        seen.append((window.start_s, window.content_s))
        plan.take(heard(window))
    assert seen == [(1.0, 2.0), (5.0, 3.0)]


def test_clip_begins_at_the_frame_before_it() -> None:
    """From 1.005 s to 3 s: the frame that begins at 1 s is heard, and nothing behind the end."""
    window = next(seeking(8.0, clips=(Clip(16_080, 48_000),)).windows())
    assert window.start_s == 1.0
    assert window.content_s == 2.0


def odd(window: Window, *at_s: float, text: tuple[float, ...] = ()) -> WindowResult:
    """Segments of one improbable word of half a second each, then of one that was said."""
    segments = tuple(
        Segment(
            start_s,
            start_s + 0.5,
            "w",
            (1,),
            -0.1,
            0.0,
            words=(Word(start_s, start_s + 0.5, " w", p, (1,)),),
        )
        for start_s, p in [
            *((time_s, 0.05) for time_s in at_s),
            *((time_s, 0.9) for time_s in text),
        ]
    )
    return WindowResult(window, Decoded((), -0.1, 0.0, runaway=False), segments, 9.0)


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
    cut_windows = []
    for window in plan.windows():
        assert not window.needs_words
        cut_windows.append((window.start_s, window.audio.size))
        plan.take(heard(window, advance_s=0.0))
    assert cut_windows == expected


def test_empty_recording_has_no_window() -> None:
    assert list(seeking(0.0).windows()) == []


BEGIN = 1000
"""Id of `<|0.00|>` in the tests below; each utterance is an id of its own."""


@st.composite
def utterances(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Starts and ends on the grid of the timestamps; each fits a window that begins before it."""
    result = []
    start = 0
    for _ in range(draw(st.integers(0, 25))):
        start += draw(st.integers(0, 250))
        end = start + draw(st.integers(5, 190))
        result.append((start * 0.02, end * 0.02))
        start = end
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
def test_seeking_gives_every_utterance_once(
    truth: list[tuple[float, float]],
) -> None:
    n_samples = round(((truth[-1][1] if truth else 0.0) + 0.3) * SAMPLE_RATE_HZ)
    plan = SeekPlanner(feed_of(np.zeros(n_samples, np.float32)), WHOLE, SPLIT_PLAN)
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
    assert [part.text for part in segments] == [
        str(index) for index in range(len(truth))
    ]
    # As in Whisper, a segment that is alone in its window begins where the window does.
    assert all(
        part.start_s <= s + 0.021 for part, (s, _) in zip(segments, truth, strict=True)
    )
    assert [part.end_s for part in segments] == pytest.approx(
        [e for _, e in truth], abs=0.021
    )
    edges = [edge for part in segments for edge in (part.start_s, part.end_s)]
    assert np.all(np.diff(edges) > -1e-6)


SILENCE_S = 2.0
FULL_S = 30.0


def said(*at_s: float, probability: float = 0.9, length_s: float = 0.4) -> Segment:
    """A segment of words that begin at these times."""
    words = tuple(
        Word(start_s, start_s + length_s, " word", probability) for start_s in at_s
    )
    text = "".join(word.text for word in words)
    return Segment(at_s[0], words[-1].end_s, text, (), -0.1, 0.0, words=words)


def odd_word(*at_s: float) -> Segment:
    """A segment that nobody said: all of its words are improbable."""
    return said(*at_s, probability=0.05)


def heard_window(
    *segments: Segment,
    start_s: float = 60.0,
    content_s: float = FULL_S,
    ends_alone: bool = False,
) -> WindowResult:
    audio = np.zeros(round(content_s * SAMPLE_RATE_HZ), np.float32)
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(
        Window(audio, start_s), decoded, segments, content_s, ends_alone=ends_alone
    )


def silent_feed(seconds: float) -> AudioBuffer:
    silence: FloatArray = np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)
    return AudioBuffer(iter([silence]))


def result_of(window: Window, *segments: Segment) -> WindowResult:
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(window, decoded, segments, window.content_s)


THRESHOLD_S = 3.0


def good(at_s: float) -> Segment:
    return said(at_s, length_s=0.5)


def odd_times(at_s: float) -> Segment:
    """A word of half a second that nobody said."""
    return said(at_s, length_s=0.5, probability=0.05)
