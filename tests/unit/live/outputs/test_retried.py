"""A sink that fails is tried again: nothing is lost, nothing doubled, and captions go on."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from whisper_hailo.core.errors import AudioError, OutputError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.live.events import Completed, Event, Partial, Started
from whisper_hailo.live.outputs import retried as module
from whisper_hailo.live.outputs.retried import RetriedSink

START = Started(0, 0.0, 0.3, 0.1)
PART = Partial(0, 0.0, 0.5, (), (), 0, 0.5, 0.2)
DONE = Completed(0, 0.0, 1.25, (), "silence", 1, 1.5, 0.3)


class Failing(Closing):
    """Takes events while it is well."""

    name = "talk.srt"

    def __init__(self) -> None:
        self.taken: list[Event] = []
        self.well = True
        self.tries = 0
        self.closed = False

    def put(self, event: Event) -> None:
        self.tries += 1
        if not self.well:
            raise OutputError("cannot write talk.srt (No space left on device); free some space")
        self.taken.append(event)

    def close(self) -> None:
        self.closed = True


def test_what_a_sink_did_not_take_is_handed_over_later_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    sink, clock = Failing(), [0.0]
    with RetriedSink(sink, now=lambda: clock[0]) as retried:
        retried.put(START)
        sink.well = False
        for number in range(50):
            retried.put(PART)
            retried.put(replace(DONE, segment_id=number))
            clock[0] += 1.0
        sink.well = True
        clock[0] += 30.0
        retried.put(PART)
        numbers = [event.segment_id for event in sink.taken if isinstance(event, Completed)]
        assert numbers == list(range(50))
        assert sink.taken[-1] is PART
        assert sum(event is PART for event in sink.taken) == 1, "partials do not wait"
    assert sink.closed
    first, again = caplog.messages
    assert "No space left on device" in first
    assert again == "talk.srt is written again"


def test_a_sink_that_cannot_be_opened_at_all_is_told_at_once() -> None:
    class Shut(Failing):
        def open(self) -> Shut:
            raise OutputError("cannot write talk.srt (Permission denied); give another place")

    with pytest.raises(OutputError, match="Permission denied"):
        RetriedSink(Shut()).open()


def test_the_waits_between_tries_grow() -> None:
    sink, clock, times = Failing(), [0.0], []
    sink.well = False
    retried = RetriedSink(sink, now=lambda: clock[0]).open()
    for _ in range(1000):
        before = sink.tries
        retried.put(DONE)
        if sink.tries > before:
            times.append(clock[0])
        clock[0] += 0.5
    assert times[:7] == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert times[-1] - times[-2] == 30.0


def test_what_is_still_waiting_at_the_end_is_an_error() -> None:
    sink = Failing()
    sink.well = False
    retried = RetriedSink(sink).open()
    retried.put(START)
    retried.put(DONE)
    with pytest.raises(OutputError, match=r"free some space; 2 events are not in it"):
        retried.close()
    assert sink.closed


def test_error_of_source_is_told_rather_than_one_of_closing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Failing()
    sink.well = False
    retried = RetriedSink(sink)
    retried.put(DONE)
    with pytest.raises(AudioError, match="broke off"), retried:
        raise AudioError("it broke off")
    assert "1 events are not in it" in caplog.messages[-1]


def overfull(monkeypatch: pytest.MonkeyPatch) -> tuple[Failing, RetriedSink]:
    """A sink that failed at five events, of which three may wait."""
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    sink = Failing()
    sink.well = False
    retried = RetriedSink(sink, now=lambda: 0.0).open()
    for number in range(5):
        retried.put(replace(DONE, segment_id=number))
    return sink, retried


def test_memory_has_a_bound_and_what_is_beyond_it_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink, retried = overfull(monkeypatch)
    sink.well = True
    too_long = "talk.srt could not be written for too long; 2 events are not in it"
    with pytest.raises(OutputError, match=too_long):
        retried.close()
    assert [event.segment_id for event in sink.taken if isinstance(event, Completed)] == [2, 3, 4]


def test_waiting_and_dropped_sound_is_missing_and_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink, retried = overfull(monkeypatch)
    with pytest.raises(OutputError, match="free some space; 5 events are not in it"):
        retried.close()
    retried.close()
    assert sink.taken == []
