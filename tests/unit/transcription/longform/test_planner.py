"""Plans of windows over recordings of known layout: nothing is lost, doubled or held for ever."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.fakes.recording_layouts import (
    PLAN,
    Script,
    feed_of,
    heard,
    ramp,
    segment,
)
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import (
    WHOLE,
    Clip,
    LongOptions,
)
from whisper_hailo.transcription.longform.overlap import OverlapPlanner
from whisper_hailo.transcription.longform.planner import WindowPlanner
from whisper_hailo.transcription.longform.seek import SeekPlanner
from whisper_hailo.transcription.longform.speech import SpeechPlanner
from whisper_hailo.transcription.recording import make_planner


@given(st.integers(1, 1_000_000), st.sampled_from([0.0, 0.5, 2.0, 3.0]))
@settings(max_examples=30, deadline=None)
def test_overlap_planner_windows_cover_everything(
    n_samples: int, overlap_s: float
) -> None:
    plan = OverlapPlanner(feed_of(ramp(n_samples)), WHOLE, PLAN, overlap_s)
    windows = list(plan.windows())
    covered = 0
    for window in windows:
        start = round(window.start_s * SAMPLE_RATE_HZ)
        assert window.audio[0] == start
        assert start <= covered
        covered = start + window.audio.size
    assert n_samples - covered < 160
    assert [window.needs_words for window in windows] == [
        overlap_s > 0 and len(windows) > 1
    ] * len(windows)


@given(st.integers(1, 600_000), st.lists(st.floats(0.0, 9.0), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_seek_planner_gets_to_the_end(n_samples: int, advances: list[float]) -> None:
    plan = SeekPlanner(feed_of(ramp(n_samples)), WHOLE, PLAN)
    end = 0
    for index, window in enumerate(plan.windows()):
        start = round(window.start_s * SAMPLE_RATE_HZ)
        assert window.audio[0] == start
        assert start <= end
        end = start + window.audio.size
        plan.take(heard(window, advance_s=advances[index % len(advances)]))
        assert index < 10 * n_samples // 1600 + 10
    assert n_samples - end < 160


def test_seek_planner_with_words_follows_a_lone_time() -> None:
    audio = ramp(40 * SAMPLE_RATE_HZ)
    for words, at_s in ((True, 1.5), (None, 9.0)):
        plan = SeekPlanner(feed_of(audio), WHOLE, PLAN, words)
        windows = plan.windows()
        result = replace(heard(next(windows)), end_s=1.5)
        assert plan.take(result) == []
        assert next(windows).start_s == pytest.approx(at_s)


def test_clips_bound_the_windows_of_every_planner() -> None:
    audio = ramp(40 * SAMPLE_RATE_HZ)
    clips = (Clip(16_000, 32_000), Clip(160_000, 480_000))
    for plan in (
        OverlapPlanner(feed_of(audio), clips, PLAN, 2.0),
        SeekPlanner(feed_of(audio), clips, PLAN),
        SpeechPlanner(
            feed_of(audio),
            clips,
            PLAN,
            LongOptions(speech_pad_s=0.5),
            Script([1.0] * 999),
        ),
    ):
        inside = np.zeros(audio.size, bool)
        for window in plan.windows():
            inside[window.audio.astype(int)] = True
            plan.take(heard(window))
        expected = np.zeros(audio.size, bool)
        expected[16_000:32_000] = expected[160_000:480_000] = True
        assert np.array_equal(inside, expected)


@st.composite
def speeches(draw: st.DrawFn) -> list[Word]:
    """Half a minute of words with pauses; words may repeat."""
    every = ["the", "a", "cat", "dog", "tree", "very", "no", "yes", "runs"]
    vocabulary = st.sampled_from(every[: draw(st.sampled_from([3, 9]))])
    words = []
    time_s = 0.0
    for _ in range(draw(st.integers(0, 40))):
        time_s += draw(st.sampled_from([0.02, 0.05, 0.1, 0.4, 3.0]))
        length = draw(st.floats(0.15, 0.7))
        words.append(Word(time_s, time_s + length, " " + draw(vocabulary), 0.9))
        time_s += length
    return words


def listen(
    words: list[Word], window: Window, jitter: np.random.Generator
) -> list[Word]:
    """Words that lie in the window, times a little off; those cut by its edge are garbled."""
    result = []
    for word in words:
        inside = min(word.end_s, window.end_s) - max(word.start_s, window.start_s)
        share = inside / (word.end_s - word.start_s)
        off = jitter.uniform(-0.08, 0.08)
        if share >= 0.999:
            result.append(Word(word.start_s + off, word.end_s + off, word.text, 0.9))
        elif share > 0.3:
            start = max(word.start_s, window.start_s)
            result.append(
                Word(start, min(word.end_s, window.end_s), word.text + "zz", 0.2)
            )
    return result


def sound_of(words: list[Word], *, pauses: bool) -> FloatArray:
    """As loud as it takes: words over a murmur, or a sound so steady that no pause shows."""
    n_samples = round((words[-1].end_s + 0.5) * SAMPLE_RATE_HZ) if words else 320_000
    loudness = np.full(n_samples, 0.001 if pauses else 0.1)
    for word in words:
        loudness[
            round(word.start_s * SAMPLE_RATE_HZ) : round(word.end_s * SAMPLE_RATE_HZ)
        ] = 0.1
    return (loudness * noise()[:n_samples]).astype(np.float32)


@cache
def noise() -> NDArray[np.float64]:
    """As long as the longest of the speeches."""
    return np.random.default_rng(0).standard_normal(151 * SAMPLE_RATE_HZ)


@pytest.mark.parametrize("pauses", [False, True], ids=["overlapping", "between pauses"])
@given(speeches(), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_overlap_planner_keeps_each_word_once(
    pauses: bool, words: list[Word], seed: int
) -> None:
    jitter = np.random.default_rng(seed)
    feed = feed_of(sound_of(words, pauses=pauses))
    plan = OverlapPlanner(feed, WHOLE, PLAN, 2.0)
    segments: list[Segment] = []
    for window in plan.windows():
        window_words = listen(words, window, jitter)
        segments += plan.take(
            heard(window, (segment(window_words),) if window_words else ())
        )
    segments += plan.finish()
    said = [word.text for part in segments for word in part.words]
    assert said == [word.text for word in words]
    starts = [part.start_s for part in segments]
    assert starts == sorted(starts)


@given(speeches(), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_dense_planner_shares_half_and_keeps_each_word_once(
    words: list[Word], seed: int
) -> None:
    """Windows overlap whether or not there is a pause near their end."""
    jitter = np.random.default_rng(seed)
    feed = feed_of(sound_of(words, pauses=True))
    plan = OverlapPlanner(feed, WHOLE, PLAN, 4.5, ends_in_pauses=False)
    segments: list[Segment] = []
    starts_s = []
    for window in plan.windows():
        starts_s.append(window.start_s)
        own = listen(words, window, jitter)
        segments += plan.take(heard(window, (segment(own),) if own else ()))
    segments += plan.finish()
    said = [word.text for part in segments for word in part.words]
    assert said == [word.text for word in words]
    assert starts_s == [4.5 * index for index in range(len(starts_s))]


def test_overlap_planner_joins_badly_timed_words_by_text() -> None:
    left = [
        Word(0.0, 9.0, f" {w}", 0.5) for w in ("one", "two", "three", "four", "five")
    ]
    right = [Word(7.0, 16.0, f" {w}", 0.5) for w in ("four", "five", "six", "seven")]
    plan = OverlapPlanner(feed_of(np.zeros(256_000, np.float32)), WHOLE, PLAN, 2.0)
    first, second = plan.windows()
    segments = plan.take(heard(first, (segment(left),)))
    segments += plan.take(heard(second, (segment(right),)))
    segments += plan.finish()
    assert (
        " ".join(part.text for part in segments) == "one two three four five six seven"
    )


def test_seam_within_later_segment_keeps_its_rest() -> None:
    """The second window's first segment and the first word of its second were heard before."""
    first_window = Window(ramp(144_000), 0.0)
    second_window = Window(ramp(144_000), 7.0)
    at_end = [Word(7.2, 7.4, " a", 0.9), Word(7.5, 7.7, " b", 0.9)]
    behind = [Word(9.5, 9.7, " c", 0.9), Word(10.0, 10.2, " d", 0.9)]
    plan = OverlapPlanner(feed_of(ramp(1)), WHOLE, PLAN, 2.0)
    assert plan.take(heard(first_window, (segment(at_end),))) == []
    parts = (segment(at_end[:1]), segment([at_end[1], *behind]))
    (taken,) = plan.take(heard(second_window, parts))
    assert taken.text == "a b"
    (rest,) = plan.finish()
    assert rest.text == "c d"
    assert rest.start_s == 9.5
    assert rest.end_s == 10.2


@pytest.mark.parametrize(
    ("n_samples", "n_windows"),
    [(1, 1), (144_000, 1), (144_159, 1), (144_160, 2), (288_000, 2)],
)
def test_rest_of_less_than_a_frame_gets_no_window(
    n_samples: int, n_windows: int
) -> None:
    feed = feed_of(ramp(n_samples))
    plan = make_planner(
        feed, PLAN, DecodingOptions(), LongOptions("consecutive", skip_silence=False)
    )
    assert len(list(plan.windows())) == n_windows


def test_default_overlap_is_two_seconds() -> None:
    steady = 0.1 * np.random.default_rng(0).standard_normal(20 * SAMPLE_RATE_HZ)
    long = LongOptions(skip_silence=False)
    plan = make_planner(
        feed_of(steady.astype(np.float32)), PLAN, DecodingOptions(), long
    )
    assert [window.start_s for window in plan.windows()] == [0.0, 7.0, 14.0]
    others = OverlapPlanner(feed_of(steady.astype(np.float32)), WHOLE, PLAN, 2.01)
    starts = [round(window.start_s * SAMPLE_RATE_HZ) for window in others.windows()]
    assert starts == [0, 144_000 - 32_160, 2 * (144_000 - 32_160)]


@pytest.mark.parametrize("overlap_s", [0.0, 2.0])
@pytest.mark.parametrize("clips", [WHOLE, (Clip(0, 0), Clip(8000, 8000))])
def test_empty_recording_has_no_window(
    clips: tuple[Clip, ...], overlap_s: float
) -> None:
    """A recording of nothing, and clips of one that are shorter than a sample."""
    audio = ramp(0 if clips is WHOLE else 16_000)
    plan = OverlapPlanner(feed_of(audio), clips, PLAN, overlap_s)
    assert list(plan.windows()) == []


def test_planners_are_not_sequential_by_default() -> None:
    feed = feed_of(ramp(1))
    assert not OverlapPlanner(feed, WHOLE, PLAN, 2.0).sequential
    assert not SpeechPlanner(feed, WHOLE, PLAN, LongOptions(), Script([])).sequential


def test_seam_within_earlier_segment_keeps_its_start() -> None:
    """The first window's last segment, and the last word of the one before, were heard later."""
    first_window = Window(ramp(144_000), 0.0)
    second_window = Window(ramp(144_000), 7.0)
    before = [Word(6.0, 6.2, " x", 0.9)]
    middle = [Word(6.5, 6.7, " y", 0.9)]
    shared = [Word(8.2, 8.4, " a", 0.9), Word(8.7, 8.9, " b", 0.9)]
    plan = OverlapPlanner(feed_of(ramp(1)), WHOLE, PLAN, 2.0)
    parts = (segment(before), segment([*middle, shared[0]]), segment(shared[1:]))
    plan.take(heard(first_window, parts))
    taken = plan.take(heard(second_window, (segment(shared),)))
    assert [part.text for part in taken] == ["x", "y"]
    assert [part.text for part in plan.finish()] == ["a b"]


def test_seam_in_third_segment_drops_two_segments() -> None:
    """What it heard at its very edge, two segments, the earlier window heard better: nothing."""
    plan = OverlapPlanner(feed_of(ramp(1)), WHOLE, PLAN, 2.0)
    shared = Word(8.2, 8.4, " c", 0.9)
    behind = Word(9.5, 9.7, " d", 0.9)
    edge = [Word(7.1, 7.3, " x", 0.9), Word(7.5, 7.7, " y", 0.9)]
    assert plan.take(heard(Window(ramp(144_000), 0.0), (segment([shared]),))) == []
    parts = (segment(edge[:1]), segment(edge[1:]), segment([shared, behind]))
    assert plan.take(heard(Window(ramp(144_000), 7.0), parts)) == []
    assert [part.text for part in plan.finish()] == ["c d"]


def test_equal_words_around_a_pause_are_both_kept() -> None:
    """The windows meet at 7 s; the word before it is said again behind it."""
    plan = OverlapPlanner(feed_of(ramp(1)), WHOLE, PLAN, 2.0)
    plan.take(
        heard(Window(ramp(112_000), 0.0), (segment([Word(6.7, 6.95, " no", 0.9)]),))
    )
    taken = plan.take(
        heard(Window(ramp(144_000), 7.0), (segment([Word(7.0, 7.25, " no", 0.9)]),))
    )
    assert [part.text for part in (*taken, *plan.finish())] == ["no", "no"]


def test_buffer_holds_no_more_than_it_is_asked_for() -> None:
    def endless() -> Iterator[FloatArray]:
        for _ in range(36_000):  # ten hours
            yield np.zeros(16_000, np.float32)

    feed = AudioBuffer(endless())
    largest = 0
    for start in range(0, 36_000 * 16_000, 144_000):
        feed.read(start, 144_000)
        largest = max(largest, feed.n_held)
    assert largest < 200_000
    feed.drain()
    assert feed.duration_s == 36_000


SILENCES: dict[str, tuple[int, Callable[[AudioBuffer], WindowPlanner]]] = {
    "seek": (1, lambda feed: SeekPlanner(feed, WHOLE, PLAN)),
    "overlap": (1, lambda feed: OverlapPlanner(feed, WHOLE, PLAN, 2.0)),
    "vad": (
        1,
        lambda feed: SpeechPlanner(feed, WHOLE, PLAN, LongOptions(), Script([])),
    ),
}
"""Hours, as many as take some tenths of a second, or a second, and plans."""


@pytest.mark.parametrize(
    "name", [pytest.param("vad", marks=pytest.mark.slow), "seek", "overlap"]
)
def test_hours_of_silence_take_little_memory(name: str) -> None:
    hours, make = SILENCES[name]
    feed = AudioBuffer(np.zeros(16_000, np.float32) for _ in range(3600 * hours))
    plan = make(feed)
    end_s = 0.0
    n_windows = 0
    tracemalloc.start()
    try:
        for window in plan.windows():
            assert window.start_s <= end_s
            end_s = window.end_s
            n_windows = n_windows + 1
            assert plan.take(replace(heard(window), silent=True)) == []
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.finish() == []
    assert feed.duration_s == 3600 * hours
    assert end_s == (0 if name == "vad" else feed.duration_s)
    assert n_windows <= 3600 * hours / 7 + 1
    assert most_bytes < 16 * 4 * PLAN.window_samples
