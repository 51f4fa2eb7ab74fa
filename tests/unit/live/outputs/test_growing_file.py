"""Growing files: whole records, a name for each run and day, and retries."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core.errors import AudioError, OutputError
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial, Started
from whisper_hailo.live.outputs import growing_file
from whisper_hailo.live.outputs.files import CaptionFile
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


class Lines(GrowingFile[bytes]):
    """A file of bytes; its clock is always past the next retry."""

    def __init__(self, path: Path, *, durable: bool = False, **how: Any) -> None:
        ticks = count(0, 100)
        super().__init__(
            path, FORMATS["txt"].signature, now=lambda: float(next(ticks)), **how
        )
        self._durable = durable

    def _write_item(self, record: bytes) -> None:
        self._append_record(record, durable=self._durable)

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_growing_file_locked_by_another_gets_a_number(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with Lines(path) as first, Lines(path) as second:
        first.put(b"first\n")
        second.put(b"second\n")
    assert path.read_bytes() == b"first\n"
    assert (tmp_path / "a-2.txt").read_bytes() == b"second\n"


@pytest.mark.parametrize("durable", [False, True])
def test_growing_file_durable_record_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with Lines(tmp_path / "a.txt", durable=durable) as file:
        file.put(b"one\n")
        assert bool(synced) is durable


def test_caption_file_daily_counts_cues_from_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = play_days(monkeypatch)
    with CaptionFile(tmp_path / "a.srt", daily=True) as file:
        for index in range(5):
            words = (CaptionWord(" said"),)
            file.put(
                Completed(
                    segment_id=index,
                    start_s=index,
                    end_s=index + 1.0,
                    words=words,
                    reason="silence",
                    heard_s=9.0,
                    at_s=9.0,
                )
            )
            today[0] = date(2026, 2, 28 if index < 2 else 27)
    numbers = [
        [line for line in path.read_text().splitlines() if line.isdigit()]
        for path in sorted(tmp_path.iterdir())
    ]
    assert numbers == [["1", "2"], ["1", "2", "3"]]


@pytest.mark.parametrize(
    "before", [b"", b"\n", b"a line\n", b"\n" + 5000 * b"x" + b"\n"]
)
def test_growing_file_incomplete_last_line_is_dropped(
    tmp_path: Path, before: bytes
) -> None:
    path = tmp_path / "a.txt"
    for half in (b"half", 9000 * b"h"):
        path.write_bytes(before + half)
        with Lines(path, joins=True) as file:
            file.put(b"one\n")
        assert path.read_bytes() == before + b"one\n"


def test_growing_file_header_is_written_after_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 3, errno.ENOSPC)
    said = Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        words=(CaptionWord(" a"),),
        reason="silence",
        heard_s=9.0,
        at_s=9.0,
    )
    with CaptionFile(tmp_path / "a.vtt") as file:
        file.put(said)
        disk.room = 100
    assert list_names(tmp_path) == ["a.vtt"]
    assert (tmp_path / "a.vtt").read_text().splitlines() == [
        "WEBVTT",
        "",
        "00:00:00.000 --> 00:00:00.917",
        "a",
        "",
    ]


def test_growing_file_closes_every_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptors: list[int] = []

    def record_open(*how: Any, open_file: Callable[..., int] = os.open) -> int:
        descriptors.append(open_file(*how))
        return descriptors[-1]

    for name in ("a.txt", "a-2.txt"):
        (tmp_path / name).write_bytes(b"of before\n")
    monkeypatch.setattr(os, "open", record_open)
    with Lines(tmp_path / "a.txt") as file:
        assert file.name == str(tmp_path / "a-3.txt")
    assert len(descriptors) == 3
    for descriptor in set(descriptors):
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            os.fstat(descriptor)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a-3.txt").stat().st_mode) == 0o666 & ~mask


def test_growing_file_empty_file_is_used(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with Lines(tmp_path / "a.txt") as file:
        file.put(b"one\n")
    assert list_names(tmp_path) == ["a.txt"]


def play_days(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """Replace today's date by the item of the list that is returned."""
    today = [date(2026, 2, 28)]

    class Day(date):
        @classmethod
        def today(cls) -> date:
            return today[0]

    monkeypatch.setattr(growing_file, "date", Day)
    return today


def test_growing_file_daily_name_has_the_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = play_days(monkeypatch)
    for _ in range(2):
        with Lines(tmp_path / "a.txt", daily=True) as file:
            file.put(b"before midnight\n")
    with Lines(tmp_path / "a.txt", daily=True) as file:
        today[0] = date(2026, 3, 1)
        file.put(b"after midnight\n")
    assert list_names(tmp_path) == [
        "a.2026-02-28-2.txt",
        "a.2026-02-28-3.txt",
        "a.2026-02-28.txt",
        "a.2026-03-01.txt",
    ]
    assert (tmp_path / "a.2026-03-01.txt").read_bytes() == b"after midnight\n"


class Disk:
    """An `os.write` with room for a number of bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, code: int) -> None:
        self.room = room  # bytes
        self.most = 4  # bytes a call
        self._code = code
        self._write = os.write
        monkeypatch.setattr("whisper_hailo.live.outputs.growing_file.os.write", self)

    def __call__(self, descriptor: int, data: bytes) -> int:
        taken = data[: min(self.room, self.most)]
        if data and not taken:
            raise OSError(self._code, os.strerror(self._code))
        self.room -= len(taken)
        return self._write(descriptor, taken)


def test_growing_file_full_disk_gets_no_partial_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    disk = Disk(monkeypatch, 9, errno.ENOSPC)
    with Lines(path, durable=True) as file:
        file.put(b"first\n")
        for _ in range(2):
            file.put(b"second\n")
            assert path.read_bytes() == b"first\n"
        disk.room = 100
        file.put(b"third\n")
    assert path.read_bytes() == b"first\nsecond\nsecond\nthird\n"
    assert list_names(tmp_path) == ["a.txt"]


def test_growing_file_after_lost_disk_opens_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 6, errno.EIO)
    with Lines(tmp_path / "a.txt") as file:
        file.put(b"first\n")
        file.put(b"second\n")
        disk.room = 100
    assert (tmp_path / "a.txt").read_bytes() == b"first\n"
    assert (tmp_path / "a-2.txt").read_bytes() == b"second\n"


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
