"""A file that fails is tried again: nothing is lost, nothing doubled, and captions go on."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from whisper_hailo.core.errors import AudioError, OutputError
from whisper_hailo.live.events import Completed, Event, Partial, Started
from whisper_hailo.live.outputs.growing_file import GrowingFile
from whisper_hailo.text.formats import FORMATS

START = Started(segment_id=0, start_s=0.0, heard_s=0.3, at_s=0.1)
PART = Partial(
    segment_id=0,
    start_s=0.0,
    end_s=0.5,
    committed=(),
    tentative=(),
    heard_s=0.5,
    at_s=0.2,
)
DONE = Completed(
    segment_id=0,
    start_s=0.0,
    end_s=1.25,
    words=(),
    reason="silence",
    heard_s=1.5,
    at_s=0.3,
)


class Failing(GrowingFile[Event]):
    """Takes events while it is well."""

    def __init__(self, folder: Path, now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(folder / "talk.srt", FORMATS["srt"].signature, now=now)
        self.taken: list[Event] = []
        self.well = True
        self.tries = 0

    def _write_item(self, event: Event) -> None:
        self.tries += 1
        if not self.well:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.taken.append(event)


def test_what_a_file_did_not_take_is_written_later_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    clock = [0.0]
    with Failing(tmp_path, now=lambda: clock[0]) as file:
        file.put(START)
        file.well = False
        for number in range(50):
            file.put(PART)
            file.put(replace(DONE, segment_id=number))
            clock[0] += 1.0
        file.well = True
        clock[0] += 30.0
        file.put(PART)
        numbers = [
            event.segment_id for event in file.taken if isinstance(event, Completed)
        ]
        assert numbers == list(range(50))
        assert file.taken[-1] is PART
        assert sum(event is PART for event in file.taken) == 1, "partials do not wait"
    first, again = caplog.messages
    assert "No space left on device" in first
    assert again.endswith("talk.srt is being written again")


def test_waits_between_tries_grow(tmp_path: Path) -> None:
    clock, times = [0.0], []
    file = Failing(tmp_path, now=lambda: clock[0]).open()
    file.well = False
    for _ in range(1000):
        before = file.tries
        file.put(DONE)
        if file.tries > before:
            times.append(clock[0])
        clock[0] += 0.5
    assert times[:7] == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert times[-1] - times[-2] == 30.0


def test_what_is_still_waiting_at_the_end_is_an_error(tmp_path: Path) -> None:
    file = Failing(tmp_path).open()
    file.well = False
    file.put(START)
    file.put(DONE)
    with pytest.raises(
        OutputError, match=r"free some space; 2 events are missing from it"
    ):
        file.close()


def test_error_of_source_is_told_rather_than_one_of_closing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = Failing(tmp_path)
    file.well = False
    file.put(DONE)
    with pytest.raises(AudioError, match="broke off"), file:
        raise AudioError("it broke off")
    assert "1 events are missing from it" in caplog.messages[-1]


def overfull(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Failing:
    """A file that failed at five events, of which three may wait."""
    monkeypatch.setattr(Failing, "most_waiting", 3)
    file = Failing(folder).open()
    file.well = False
    for number in range(5):
        file.put(replace(DONE, segment_id=number))
    return file


def test_memory_has_a_bound_and_what_is_beyond_it_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = overfull(tmp_path, monkeypatch)
    file.well = True
    too_long = "talk.srt was not writable for too long; 2 events are missing from it"
    with pytest.raises(OutputError, match=too_long):
        file.close()
    assert [
        event.segment_id for event in file.taken if isinstance(event, Completed)
    ] == [2, 3, 4]


def test_waiting_and_dropped_events_are_missing_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = overfull(tmp_path, monkeypatch)
    with pytest.raises(
        OutputError, match="free some space; 5 events are missing from it"
    ):
        file.close()
    file.close()
    assert file.taken == []
