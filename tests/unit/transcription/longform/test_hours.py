"""Hours of silence: heard out by every plan, in the memory of a few windows."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.transcription.longform.layouts import PLAN, Script, heard
from whisper_hailo.core.types import FloatArray
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.overlap import OverlapPlan
from whisper_hailo.transcription.longform.plan import WHOLE, LongOptions, WindowPlanner
from whisper_hailo.transcription.longform.seek import SeekPlan
from whisper_hailo.transcription.longform.speech import SpeechPlan


def test_feed_holds_no_more_than_it_is_asked_for() -> None:
    def endless() -> Iterator[FloatArray]:
        for _ in range(36_000):  # ten hours
            yield np.zeros(16_000, np.float32)

    feed = AudioBuffer(endless())
    largest = 0
    for at in range(0, 36_000 * 16_000, 144_000):
        feed.read(at, 144_000)
        largest = max(largest, feed._held.size)
    assert largest < 200_000
    feed.drain()
    assert feed.duration_s == 36_000


SILENCES: dict[str, tuple[int, Callable[[AudioBuffer], WindowPlanner]]] = {
    "seek": (1, lambda feed: SeekPlan(feed, WHOLE, PLAN)),
    "overlap": (1, lambda feed: OverlapPlan(feed, WHOLE, PLAN, 2.0)),
    "vad": (1, lambda feed: SpeechPlan(feed, WHOLE, PLAN, LongOptions(), Script([]))),
}
"""Hours, as many as take some tenths of a second, or a second, and plans."""


@pytest.mark.parametrize("name", [pytest.param("vad", marks=pytest.mark.slow), "seek", "overlap"])
def test_hours_of_silence_are_heard_out_in_the_memory_of_a_few_windows(name: str) -> None:
    hours, make = SILENCES[name]
    feed = AudioBuffer(np.zeros(16_000, np.float32) for _ in range(3600 * hours))
    plan, end_s, n_windows = make(feed), 0.0, 0
    tracemalloc.start()
    try:
        for window in plan.windows():
            assert window.start_s <= end_s
            end_s, n_windows = window.end_s, n_windows + 1
            assert plan.take(replace(heard(window), silent=True)) == []
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.finish() == []
    assert feed.duration_s == 3600 * hours
    assert end_s == (0 if name == "vad" else feed.duration_s)
    assert n_windows <= 3600 * hours / 7 + 1
    assert most_bytes < 16 * 4 * PLAN.window_samples
