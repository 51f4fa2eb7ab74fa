"""Sources that go away are opened again, and the time between is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.fakes.scripted_speech import Loudness, Speller, speech
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Away, Back, Completed, Event
from whisper_hailo.live.sources.source import (
    Block,
    Pace,
    ReopenedSource,
    awake_s,
    empty_block,
)
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo_lab.captions.event_checks import find_violations

GONE = DeviceError("the microphone stopped delivering audio; was it unplugged?")


@dataclass
class Unsteady(Closing):
    """Plays one part after each opening, and fails; openings with `None` fail."""

    parts: list[np.ndarray | None]
    endless: bool = True
    pace: Pace = Pace.PULL
    name: str = "the microphone"
    opened: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=lambda: [100.0])
    part: np.ndarray | None = None
    _is_open: bool = False

    def open(self) -> Unsteady:
        assert not self._is_open, "it is closed before it is opened again"
        self._is_open = True
        self.opened.append(self.clock[0])
        self.part = self.parts.pop(0)
        if self.part is None:
            raise DeviceError("no microphone found; plug one in")
        return self

    def close(self) -> None:
        self._is_open, self.part = False, None

    def blocks(self) -> Iterator[Block]:
        part = self.part
        assert part is not None
        for at in range(0, part.size, 512):
            yield Block(part[at : at + 512])
        if self.parts or not self.endless:
            raise GONE

    def reopened(self, patience_s: float | None = None) -> ReopenedSource:
        def sleep(seconds: float) -> None:
            self.clock[0] += seconds

        return ReopenedSource(self, patience_s, now=lambda: self.clock[0], sleep=sleep)


def events_of(source: ReopenedSource) -> list[Event]:
    with source:
        return list(CaptionStream(source, Captioner(Speller(), Loudness())).events())


@pytest.mark.parametrize("pace", Pace)
def test_source_that_comes_back_goes_on_and_the_gap_is_told(pace: Pace) -> None:
    source = Unsteady(
        [speech(range(4)), None, None, None, speech(range(4, 8))], pace=pace
    )
    events = events_of(source.reopened())
    assert list(find_violations(events)) == []
    texts = [event.text for event in events if isinstance(event, Completed)]
    assert texts == ["w0 w1 w2 w3", "w4 w5 w6 w7"]
    (away,) = [event for event in events if isinstance(event, Away)]
    (back,) = [event for event in events if isinstance(event, Back)]
    assert away.why == str(GONE)
    assert back.end_s - back.start_s == pytest.approx(3.5, abs=0.5)


def test_time_until_it_was_noticed_counts_as_away() -> None:
    class Quiet(Unsteady):
        def blocks(self) -> Iterator[Block]:
            self.clock[0] += 2.0
            if len(self.opened) != 2:
                yield Block(speech([len(self.opened)]))
            if self.parts:
                for _ in range(50):
                    self.clock[0] += 0.1
                    yield empty_block()
                raise GONE

    events = events_of(Quiet([speech([0]), speech([1]), speech([2])]).reopened())
    backs = [event for event in events if isinstance(event, Back)]
    away = [back.end_s - back.start_s for back in backs if not back.stalled]
    assert away == pytest.approx([5.0, 7.0], abs=0.05), (
        "the second time no sound came at all"
    )


def test_waits_between_openings_grow() -> None:
    source = Unsteady([speech([0]), *[None] * 12, speech([1])])
    events_of(source.reopened())
    waits = np.diff(source.opened[1:])
    np.testing.assert_allclose(waits[:7], [0.5, 1, 2, 4, 8, 16, 30], atol=0.11)
    np.testing.assert_allclose(waits[7:], 30, atol=0.11)


def test_source_that_is_back_in_time_goes_on() -> None:
    source = Unsteady([speech([0]), *[None] * 5, speech([1])])
    events = events_of(source.reopened(60.0))
    assert [event.text for event in events if isinstance(event, Completed)] == [
        "w0",
        "w1",
    ]
    assert 10.0 < source.opened[-1] - source.opened[0] < 60.0


def test_source_that_is_away_for_too_long_has_failed() -> None:
    source = Unsteady([speech([0]), *[None] * 99])
    with pytest.raises(DeviceError, match=r"was away for 60 s.*no microphone found"):
        events_of(source.reopened(60.0))
    assert source.opened[-1] - source.opened[0] <= 60.0
    assert source.clock[0] == pytest.approx(160.0, abs=0.11), (
        "no later than it is looked"
    )


@pytest.mark.parametrize(("endless", "patience_s"), [(False, None), (True, 0.0)])
def test_what_has_an_end_and_what_nobody_waits_for_fails_at_once(
    endless: bool, patience_s: float | None
) -> None:
    source = Unsteady([speech([0]), speech([1])], endless=endless)
    with pytest.raises(DeviceError, match="was it unplugged"):
        events_of(source.reopened(patience_s))
    assert len(source.opened) == 1


def test_what_cannot_be_opened_at_first_is_an_error() -> None:
    with pytest.raises(DeviceError, match="plug one in"), Unsteady([None]).reopened():
        pass


def test_stream_that_is_stopped_while_its_source_is_away_ends() -> None:
    source = Unsteady([speech([0]), *[None] * 99]).reopened()
    events: list[Event] = []
    with source:
        stream = CaptionStream(source, Captioner(Speller(), Loudness()))
        for event in stream.events():
            events.append(event)
            if isinstance(event, Away):
                stream.stop()
    assert isinstance(events[-1], Away)
    assert list(find_violations(events)) == []


def test_source_opened_while_stopped_is_closed_again() -> None:
    class Late(Unsteady):
        def open(self) -> Unsteady:
            super().open()
            if len(self.opened) == 2:
                reopened.close()
                self.part = speech([1])  # opened behind the close
            return self

    source = Late([speech([0]), speech([1]), speech([2])])
    reopened = source.reopened()
    with reopened:
        audio = sum(block.audio.size for block in reopened.blocks())
        assert source.part is None
    assert audio == speech([0]).size


def test_what_fails_because_it_was_closed_is_no_absence() -> None:
    with Unsteady([speech([0]), speech([1])]).reopened() as source:
        blocks = source.blocks()
        next(blocks)
        source.close()
        with pytest.raises(DeviceError, match="was it unplugged"):
            assert all(block.interruption is None for block in blocks)


@pytest.mark.parametrize("goes_on", [True, False])
def test_clock_goes_on_while_the_machine_sleeps_if_it_can(
    goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "CLOCK_MONOTONIC", 1)
    monkeypatch.setattr(time, "clock_gettime", {7: 500.0, 1: 20.0}.__getitem__)
    if not goes_on:
        monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert awake_s() == (500.0 if goes_on else 20.0)


def test_error_that_nobody_foresaw_is_not_taken_for_absence() -> None:
    class Wrong(Unsteady):
        def blocks(self) -> Iterator[Block]:
            yield Block(speech([0]))
            raise ZeroDivisionError

    with Wrong([speech([0])]).reopened() as source, pytest.raises(ZeroDivisionError):
        list(source.blocks())


def test_stream_knows_how_its_source_is_paced() -> None:
    source = Unsteady([speech([0])], pace=Pace.REAL_TIME).reopened()
    assert (source.pace, source.endless, source.name) == (
        Pace.REAL_TIME,
        True,
        "the microphone",
    )
