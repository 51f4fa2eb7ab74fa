"""Where the next window begins, in the recording, whatever window led there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import WordOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.plan import WHOLE, Clip
from whisper_hailo.transcription.longform.seek import SeekPlan
from whisper_hailo.transcription.window import WindowResult

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


def test_a_word_that_ends_where_the_window_begins_does_not_hold_it_up() -> None:
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
def test_the_first_sample_is_worth_a_window_then_only_a_whole_frame(
    samples: int, n_windows: int
) -> None:
    plan = SeekPlan(AudioBuffer(iter([np.zeros(samples, np.float32)])), WHOLE, PLAN)
    count = 0
    for window in plan.windows():
        plan.take(heard(window))
        count += 1
    assert count == n_windows


def test_a_clip_begins_where_it_is_asked_for_and_never_before_the_last_window() -> None:
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
def test_with_a_gate_for_made_up_text_a_word_near_the_end_leads_behind_the_window(
    last_s: float, next_s: float
) -> None:
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


def test_silence_before_a_window_is_that_behind_what_is_left_of_the_one_before() -> None:
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
