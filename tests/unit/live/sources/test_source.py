"""The queue between a source and its reader, and sources that are opened again."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.fakes.scripted_speech import Loudness, Speller, speech
from whisper_hailo.core.errors import AudioError, DeviceError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Away, Back, Completed, Event
from whisper_hailo.live.sources.source import (
    AudioQueue,
    Block,
    Interruption,
    Pace,
    ReopenedSource,
    awake_s,
    empty_block,
)
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo_lab.captions.event_checks import find_violations

GONE = DeviceError("the microphone stopped delivering audio; was it unplugged?")
ABSENT = DeviceError("no microphone found; plug one in")


def ramp(begin: int, end: int) -> Block:
    """Return samples that are their own index, captured at the end of them."""
    return Block(np.arange(begin, end, dtype=np.float32), captured_s=float(end))


def make_queue(n_samples: int) -> AudioQueue:
    return AudioQueue(n_samples / SAMPLE_RATE_HZ)


def test_audio_queue_joins_waiting_blocks() -> None:
    queue = make_queue(100)
    queue.put(ramp(0, 10))
    queue.put(Block(np.arange(10, 30, dtype=np.float32), 30.0, n_faults=2))
    block = next(queue.blocks())
    np.testing.assert_array_equal(block.audio, np.arange(30))
    assert block.captured_s == 30.0
    assert block.n_faults == 2
    assert block.n_lost == 0


def test_audio_queue_full_loses_what_comes_last() -> None:
    queue = make_queue(1000)
    blocks = queue.blocks()
    assert [queue.put(ramp(at, at + 400)) for at in range(0, 2000, 400)] == [
        0,
        0,
        400,
        400,
        400,
    ]
    block = next(blocks)
    np.testing.assert_array_equal(block.audio, np.arange(800))
    assert block.captured_s == 800.0
    assert block.n_lost == 1200
    assert queue.put(ramp(200, 240)) == 0
    np.testing.assert_array_equal(next(blocks).audio, np.arange(200, 240))


def test_audio_queue_losses_after_absence_stay_apart() -> None:
    queue = make_queue(1000)
    queue.put(ramp(0, 300))
    queue.put(empty_block(Interruption("unplugged")))
    assert queue.put(ramp(300, 1200)) == 900
    blocks = queue.blocks()
    assert next(blocks).audio.size == 300
    assert queue.put(ramp(1200, 1500)) == 0
    assert queue.put(ramp(1500, 2300)) == 800
    blocks_read = [next(blocks) for _ in range(2)]
    assert [(block.audio.size, block.n_lost) for block in blocks_read] == [
        (0, 900),
        (300, 800),
    ]


def test_audio_queue_losses_in_a_row_are_joined() -> None:
    queue = make_queue(1000)
    queue.put(ramp(0, 1000))
    assert [queue.put(ramp(at, at + 512)) for at in range(1000, 9192, 512)] == [
        512
    ] * 16
    assert len(queue._waiting) == 2
    block = next(queue.blocks())
    assert block.audio[-1] == 999.0
    assert block.n_lost == 8192


def test_audio_queue_single_samples_are_bounded() -> None:
    queue = make_queue(1000)
    n_taken = sum(queue.put(ramp(at, at + 1)) == 0 for at in range(1000))
    assert n_taken < 100
    assert len(queue._waiting) <= n_taken + 1


@pytest.mark.parametrize("put", [AudioQueue.put, AudioQueue.put_all])
def test_audio_queue_absence_comes_after_earlier_audio(
    put: Callable[[AudioQueue, Block], object],
) -> None:
    queue = make_queue(1000)
    gone = Interruption("unplugged")
    back = Interruption("", 16_000)
    for block in (
        ramp(0, 30),
        empty_block(gone),
        empty_block(back),
        ramp(30, 50),
        empty_block(gone),
    ):
        put(queue, block)
    queue.end()
    blocks = list(queue.blocks())
    sounds = [block.audio.tolist() for block in blocks]
    assert sounds == [list(range(30)), [], list(range(30, 50))]
    assert [block.interruption for block in blocks] == [gone, back, gone]
    assert [block.captured_s for block in blocks] == [30.0, None, 50.0]


def test_audio_queue_losses_around_absence_keep_places() -> None:
    queue = make_queue(600)
    queue.put(ramp(0, 500))
    queue.put(ramp(500, 700))
    queue.put(empty_block(Interruption("unplugged")))
    queue.put(empty_block(Interruption("", 16_000)))
    queue.put(ramp(700, 1000))
    blocks = queue.blocks()
    blocks_read = [next(blocks) for _ in range(4)]
    assert [(block.audio.size, block.n_lost) for block in blocks_read] == [
        (500, 200),
        (0, 0),
        (0, 0),
        (0, 300),
    ]
    assert [block.interruption is not None for block in blocks_read] == [
        False,
        True,
        True,
        False,
    ]


def test_audio_queue_put_all_waits_and_loses_nothing() -> None:
    queue = make_queue(1000)

    def put_blocks() -> None:
        for at in range(0, 30_000, 750):
            queue.put_all(ramp(at, at + 750))
        queue.end()

    thread = threading.Thread(target=put_blocks)
    thread.start()
    blocks = list(queue.blocks())
    thread.join()
    assert max(block.audio.size for block in blocks) <= 1000
    assert sum(block.n_lost for block in blocks) == 0
    np.testing.assert_array_equal(
        np.concatenate([b.audio for b in blocks]), np.arange(30_000)
    )


def test_audio_queue_end_releases_a_waiting_put_all() -> None:
    queue = make_queue(1000)
    queue.put_all(ramp(0, 900))
    thread = threading.Thread(target=queue.put_all, args=(ramp(900, 1800),))
    thread.start()
    queue.end()
    thread.join()


def test_audio_queue_error_comes_after_waiting_audio() -> None:
    queue = make_queue(10)
    queue.put(ramp(0, 5))
    error = AudioError("the sender hung up")
    queue.end(error)
    queue.end()
    blocks = queue.blocks()
    assert next(blocks).audio.size == 5
    with pytest.raises(AudioError) as raised:
        next(blocks)
    assert raised.value is error


@pytest.mark.parametrize(
    "block_put", [ramp(0, 5), empty_block(Interruption("unplugged")), None]
)
def test_audio_queue_any_block_is_given_at_once(
    block_put: Block | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 300.0)
    queue = make_queue(100)
    if block_put is None:
        queue.end()
    else:
        queue.put(block_put)
    block = next(queue.blocks())
    assert block.interruption == getattr(block_put, "interruption", None)
    assert block.captured_s == (5.0 if block.audio.size else None)


@pytest.mark.parametrize("put", [AudioQueue.put, AudioQueue.put_all])
def test_audio_queue_block_wakes_a_waiting_reader(
    put: Callable[[AudioQueue, Block], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 300.0)
    waits = threading.Event()
    blocks_read = []

    class RecordedCondition(threading.Condition):
        def wait_for(self, *given: Any) -> Any:
            waits.set()  # the lock is free for `put` only once this really waits
            return super().wait_for(*given)

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Condition", RecordedCondition)
        queue = make_queue(100)
    thread = threading.Thread(target=lambda: blocks_read.append(next(queue.blocks())))
    thread.start()
    waits.wait()
    put(queue, ramp(0, 5))
    thread.join()
    assert [block.audio.size for block in blocks_read] == [5]


def test_audio_queue_last_absence_is_given() -> None:
    queue = make_queue(100)
    for block in (
        ramp(0, 5),
        empty_block(Interruption("unplugged")),
        empty_block(Interruption("", 9)),
    ):
        queue.put(block)
    queue.end()
    absences = [block.interruption for block in queue.blocks()]
    assert absences == [Interruption("unplugged"), Interruption("", 9)]


def test_audio_queue_taken_block_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 0.0)
    queue = make_queue(100)
    queue.put(Block(np.ones(5, np.float32), 7.0, n_faults=1))
    blocks = queue.blocks()
    next(blocks)
    empty = next(blocks)
    assert empty.audio.size == 0
    assert empty.captured_s is None
    assert empty.n_faults == 0
    assert empty.interruption is None


def test_audio_queue_empty_gives_empty_blocks() -> None:
    assert next(make_queue(10).blocks()).audio.size == 0


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
