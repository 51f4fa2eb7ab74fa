"""Lost sources are opened again, and the time between is reported."""

from __future__ import annotations

import re
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
ABSENT = DeviceError("no microphone found; plug one in")


@dataclass
class UnsteadySource(Closing):
    """Plays one part after each `open`, and fails; a `None` fails at `open`."""

    parts: list[np.ndarray | None]
    endless: bool = True
    pace: Pace = Pace.PULL
    name: str = "the microphone"
    opened: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=lambda: [100.0])
    part: np.ndarray | None = None
    _is_open: bool = False

    def open(self) -> UnsteadySource:
        assert not self._is_open, "it is closed before it is opened again"
        self._is_open = True
        self.opened.append(self.clock[0])
        self.part = self.parts.pop(0)
        if self.part is None:
            raise ABSENT
        return self

    def close(self) -> None:
        self._is_open = False
        self.part = None

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


def caption_source(source: ReopenedSource) -> list[Event]:
    with source:
        return list(CaptionStream(source, Captioner(Speller(), Loudness())).events())


@pytest.mark.parametrize("pace", Pace)
def test_reopened_source_back_again_reports_the_gap(pace: Pace) -> None:
    source = UnsteadySource(
        [speech(range(4)), None, None, None, speech(range(4, 8))], pace=pace
    )
    events = caption_source(source.reopened())
    assert list(find_violations(events)) == []
    texts = [event.text for event in events if isinstance(event, Completed)]
    assert texts == ["w0 w1 w2 w3", "w4 w5 w6 w7"]
    (away,) = [event for event in events if isinstance(event, Away)]
    (back,) = [event for event in events if isinstance(event, Back)]
    assert away.why == str(GONE)
    assert back.end_s - back.start_s == pytest.approx(3.5, abs=0.5)


def test_reopened_source_silence_before_error_is_away() -> None:
    class Quiet(UnsteadySource):
        def blocks(self) -> Iterator[Block]:
            self.clock[0] += 2.0
            if len(self.opened) != 2:
                yield Block(speech([len(self.opened)]))
            if self.parts:
                for _ in range(50):
                    self.clock[0] += 0.1
                    yield empty_block()
                raise GONE

    events = caption_source(Quiet([speech([0]), speech([1]), speech([2])]).reopened())
    backs = [event for event in events if isinstance(event, Back)]
    away = [back.end_s - back.start_s for back in backs if not back.stalled]
    assert away == pytest.approx([5.0, 7.0], abs=0.05), (
        "after the second opening no samples came"
    )


def test_reopened_source_waits_between_tries_grow() -> None:
    source = UnsteadySource([speech([0]), *[None] * 12, speech([1])])
    caption_source(source.reopened())
    waits = np.diff(source.opened[1:])
    np.testing.assert_allclose(waits[:7], [0.5, 1, 2, 4, 8, 16, 30], atol=0.11)
    np.testing.assert_allclose(waits[7:], 30, atol=0.11)


def test_reopened_source_back_in_time_continues() -> None:
    source = UnsteadySource([speech([0]), *[None] * 5, speech([1])])
    events = caption_source(source.reopened(60.0))
    assert [event.text for event in events if isinstance(event, Completed)] == [
        "w0",
        "w1",
    ]
    assert 10.0 < source.opened[-1] - source.opened[0] < 60.0


def test_reopened_source_away_for_too_long_raises() -> None:
    source = UnsteadySource([speech([0]), *[None] * 99])
    with pytest.raises(DeviceError, match=f" 60 s.*{re.escape(str(ABSENT))}"):
        caption_source(source.reopened(60.0))
    assert source.opened[-1] - source.opened[0] <= 60.0
    assert source.clock[0] == pytest.approx(160.0, abs=0.11), "one poll later at most"


@pytest.mark.parametrize(("endless", "patience_s"), [(False, None), (True, 0.0)])
def test_reopened_source_without_patience_raises_at_once(
    endless: bool, patience_s: float | None
) -> None:
    source = UnsteadySource([speech([0]), speech([1])], endless=endless)
    with pytest.raises(DeviceError) as raised:
        caption_source(source.reopened(patience_s))
    assert raised.value is GONE
    assert len(source.opened) == 1


def test_reopened_source_failing_first_open_raises() -> None:
    with pytest.raises(DeviceError) as raised, UnsteadySource([None]).reopened():
        pass
    assert raised.value is ABSENT


def test_reopened_source_stopped_while_away_ends() -> None:
    source = UnsteadySource([speech([0]), *[None] * 99]).reopened()
    events: list[Event] = []
    with source:
        stream = CaptionStream(source, Captioner(Speller(), Loudness()))
        for event in stream.events():
            events.append(event)
            if isinstance(event, Away):
                stream.stop()
    assert isinstance(events[-1], Away)
    assert list(find_violations(events)) == []


def test_reopened_source_opened_while_stopped_is_closed() -> None:
    class Late(UnsteadySource):
        def open(self) -> UnsteadySource:
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


def test_reopened_source_error_after_close_is_no_absence() -> None:
    with UnsteadySource([speech([0]), speech([1])]).reopened() as source:
        blocks = source.blocks()
        next(blocks)
        source.close()
        with pytest.raises(DeviceError) as raised:
            assert all(block.interruption is None for block in blocks)
    assert raised.value is GONE


@pytest.mark.parametrize("has_boottime", [True, False])
def test_awake_s_includes_sleep_where_available(
    has_boottime: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "CLOCK_MONOTONIC", 1)
    monkeypatch.setattr(time, "clock_gettime", {7: 500.0, 1: 20.0}.__getitem__)
    if not has_boottime:
        monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert awake_s() == (500.0 if has_boottime else 20.0)


def test_reopened_source_unexpected_error_is_raised() -> None:
    class Wrong(UnsteadySource):
        def blocks(self) -> Iterator[Block]:
            yield Block(speech([0]))
            raise ZeroDivisionError

    with Wrong([speech([0])]).reopened() as source, pytest.raises(ZeroDivisionError):
        list(source.blocks())


def test_reopened_source_has_pace_and_name_of_its_source() -> None:
    source = UnsteadySource([speech([0])], pace=Pace.REAL_TIME).reopened()
    assert source.pace is Pace.REAL_TIME
    assert source.endless
    assert source.name == "the microphone"
