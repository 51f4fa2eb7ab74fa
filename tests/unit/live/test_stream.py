"""Listening never waits for computing: what comes meanwhile is heard, partials are skipped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.live.scripted import Loudness, Speller, silence, speech
from whisper_hailo.core.buffers import BufferText
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import AudioError, DeviceError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event, Partial, violations
from whisper_hailo.live.sources import Block
from whisper_hailo.live.stream import CaptionStream


class Played(Closing):
    """A source of prepared pieces; it may break, or wait until it is closed."""

    endless = True
    name = "played"

    def __init__(
        self,
        audio: FloatArray,
        *,
        live: bool = True,
        pause_s: float = 0.0,
        failure: Exception | None = None,
        waits: bool = False,
    ) -> None:
        self.live = live
        self._audio = audio
        self._pause_s = pause_s
        self._failure = failure
        self._waits = waits
        self._closed = threading.Event()

    def open(self) -> Played:
        return self

    def blocks(self) -> Iterator[Block]:
        for at in range(0, self._audio.size, 512):
            if self._pause_s:
                time.sleep(self._pause_s)
            yield Block(self._audio[at : at + 512], time.perf_counter())
        if self._failure is not None:
            raise self._failure
        if self._waits:
            self._closed.wait(10)

    def close(self) -> None:
        self._closed.set()


class Slow(Speller):
    """Takes its time, and fails where it is told to."""

    def __init__(self, seconds: float = 0.0, failing: tuple[int, ...] = ()) -> None:
        super().__init__()
        self._seconds = seconds
        self._failing = failing
        self._calls = 0

    def hear(self, audio: FloatArray, *rest: Any, **named: Any) -> BufferText:
        self._calls += 1
        time.sleep(self._seconds)
        if self._calls in self._failing or -1 in self._failing:
            raise DeviceError("the device stalled; wait")
        return super().hear(audio, *rest, **named)


AUDIO = np.concatenate([silence(0.3), speech(range(20)), silence(0.4), speech(range(20, 30))])
TEXT = " ".join(f"w{index}" for index in range(30))


def events_of(source: Played, engine: Any) -> tuple[list[Event], Captioner]:
    captioner = Captioner(engine, Loudness())
    with source:
        return list(CaptionStream(source, captioner).events()), captioner


def text_of(events: list[Event]) -> str:
    return " ".join(event.text for event in events if isinstance(event, Completed))


def test_a_source_that_waits_is_heard_piece_by_piece() -> None:
    events, captioner = events_of(Played(AUDIO, live=False), Speller())
    assert text_of(events) == TEXT
    assert captioner.statistics.n_skipped == 0
    assert captioner.statistics.n_partials > 20


def test_a_slow_engine_skips_partials_and_no_audio() -> None:
    events, captioner = events_of(Played(AUDIO, pause_s=0.001), Slow(0.05))
    assert list(violations(events)) == []
    assert text_of(events) == TEXT
    assert captioner.statistics.n_skipped > 0
    assert captioner.statistics.longest_backlog_s > 0.1


def test_stopping_completes_what_was_heard() -> None:
    source = Played(AUDIO[:48_000], waits=True)
    stream = CaptionStream(source, Captioner(Speller(), Loudness()))
    timer = threading.Timer(0.2, stream.stop)
    timer.start()
    begin = time.perf_counter()
    with source:
        events = list(stream.events())
    assert time.perf_counter() - begin < 5
    assert list(violations(events)) == []
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.reason == "end"
    assert last.text.startswith("w0 w1")


@pytest.mark.parametrize("live", [True, False])
def test_a_source_that_breaks_off_completes_the_segment_first(live: bool) -> None:
    source = Played(AUDIO[:48_000], live=live, failure=AudioError("it broke off"))
    stream = CaptionStream(source, Captioner(Speller(), Loudness()))
    events: list[Event] = []
    with source, pytest.raises(AudioError, match="it broke off"):
        events.extend(stream.events())
    # `extend` keeps what came before the error.
    assert isinstance(events[-1], Completed)
    assert list(violations(events)) == []


def test_a_device_that_stalls_now_and_then_loses_nothing() -> None:
    engine = Slow(failing=(2, 3, 9, 10, 11, 30))
    events, captioner = events_of(Played(AUDIO, live=False), engine)
    assert list(violations(events)) == []
    assert text_of(events) == TEXT
    assert captioner.statistics.n_engine_faults == 6
    assert captioner.statistics.n_skipped > 0


def test_a_device_that_is_dead_ends_the_stream_with_its_error() -> None:
    source = Played(AUDIO, live=False)
    stream = CaptionStream(source, Captioner(Slow(failing=(-1,)), Loudness()))
    events: list[Event] = []
    with source, pytest.raises(DeviceError, match="stalled"):
        events.extend(stream.events())
    assert not any(isinstance(event, Partial) for event in events)
    assert list(violations(events)) == []
    assert isinstance(events[-1], Completed)
