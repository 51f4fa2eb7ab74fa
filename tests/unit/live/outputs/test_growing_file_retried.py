"""Failing files are retried: no event is lost or written twice."""

from __future__ import annotations

import errno
import logging
import os
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


class FailingFile(GrowingFile[Event]):
    """A file that can be written only at times."""

    def __init__(self, folder: Path, now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(folder / "talk.srt", FORMATS["srt"].signature, now=now)
        self.taken: list[Event] = []
        self.is_writable = True
        self.tries = 0

    def _write_item(self, event: Event) -> None:
        self.tries += 1
        if not self.is_writable:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.taken.append(event)


def test_growing_file_failed_events_are_written_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    clock = [0.0]
    with FailingFile(tmp_path, now=lambda: clock[0]) as file:
        file.put(START)
        file.is_writable = False
        for number in range(50):
            file.put(PART)
            file.put(replace(DONE, segment_id=number))
            clock[0] += 1.0
        file.is_writable = True
        clock[0] += 30.0
        file.put(PART)
        numbers = [
            event.segment_id for event in file.taken if isinstance(event, Completed)
        ]
        assert numbers == list(range(50))
        assert file.taken[-1] is PART
        assert sum(event is PART for event in file.taken) == 1, "partials do not wait"
    failure, success = caplog.messages
    assert os.strerror(errno.ENOSPC) in failure
    assert "talk.srt" in success
    assert os.strerror(errno.ENOSPC) not in success


def test_growing_file_waits_between_retries_grow(tmp_path: Path) -> None:
    clock = [0.0]
    times = []
    file = FailingFile(tmp_path, now=lambda: clock[0]).open()
    file.is_writable = False
    for _ in range(1000):
        before = file.tries
        file.put(DONE)
        if file.tries > before:
            times.append(clock[0])
        clock[0] += 0.5
    assert times[:7] == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert times[-1] - times[-2] == 30.0


def test_growing_file_close_reports_waiting_events(tmp_path: Path) -> None:
    file = FailingFile(tmp_path).open()
    file.is_writable = False
    file.put(START)
    file.put(DONE)
    with pytest.raises(OutputError, match="2 events"):
        file.close()


def test_growing_file_source_error_precedes_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = FailingFile(tmp_path)
    file.is_writable = False
    file.put(DONE)
    with pytest.raises(AudioError), file:
        raise AudioError("the sender hung up")
    assert "1 events" in caplog.messages[-1]


def make_overfull(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FailingFile:
    """Return a file that failed at five events, three of which may wait."""
    monkeypatch.setattr(FailingFile, "most_waiting", 3)
    file = FailingFile(folder).open()
    file.is_writable = False
    for number in range(5):
        file.put(replace(DONE, segment_id=number))
    return file


def test_growing_file_waiting_events_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_overfull(tmp_path, monkeypatch)
    file.is_writable = True
    with pytest.raises(OutputError, match=r"talk\.srt.* 2 events"):
        file.close()
    assert [
        event.segment_id for event in file.taken if isinstance(event, Completed)
    ] == [2, 3, 4]


def test_growing_file_reports_missing_events_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_overfull(tmp_path, monkeypatch)
    with pytest.raises(OutputError, match="5 events"):
        file.close()
    file.close()
    assert file.taken == []
