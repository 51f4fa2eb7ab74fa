"""Files that grow: whole records or none, and a name of its own for each run and day."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.outputs import growing_file
from whisper_hailo.live.outputs.files import CaptionFile
from whisper_hailo.live.outputs.growing_file import GrowingFile
from whisper_hailo.text.formats import FORMATS


class Lines(GrowingFile[bytes]):
    """A file of records that are bytes; the clock lets each be tried at once."""

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


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_that_another_process_writes_to_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with Lines(path) as one, Lines(path) as other:
        one.put(b"one\n")
        other.put(b"other\n")
    assert (path.read_bytes(), (tmp_path / "a-2.txt").read_bytes()) == (
        b"one\n",
        b"other\n",
    )


@pytest.mark.parametrize("durable", [False, True])
def test_disk_is_waited_for_where_a_record_may_not_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    with Lines(tmp_path / "a.txt", durable=durable) as file:
        file.put(b"one\n")
        assert bool(waited) is durable


def test_cues_of_each_file_are_counted_from_one(
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
def test_half_a_line_is_taken_away_however_long_it_is(
    tmp_path: Path, before: bytes
) -> None:
    path = tmp_path / "a.txt"
    for half in (b"half", 9000 * b"h"):
        path.write_bytes(before + half)
        with Lines(path, joins=True) as file:
            file.put(b"one\n")
        assert path.read_bytes() == before + b"one\n"


def test_disk_that_is_full_when_file_begins_has_its_head_later(
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
    assert names(tmp_path) == ["a.vtt"]
    assert (tmp_path / "a.vtt").read_text().splitlines() == [
        "WEBVTT", "", "00:00:00.000 --> 00:00:00.917", "a", "",
    ]  # fmt: skip


def test_every_file_looked_at_is_closed_and_readable_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def noted(*how: Any, open_it: Callable[..., int] = os.open) -> int:
        opened.append(open_it(*how))
        return opened[-1]

    for name in ("a.txt", "a-2.txt"):
        (tmp_path / name).write_bytes(b"of before\n")
    monkeypatch.setattr(os, "open", noted)
    with Lines(tmp_path / "a.txt") as file:
        assert file.name == str(tmp_path / "a-3.txt")
    assert len(opened) == 3
    for descriptor in set(opened):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a-3.txt").stat().st_mode) == 0o666 & ~mask


def test_empty_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with Lines(tmp_path / "a.txt") as file:
        file.put(b"one\n")
    assert names(tmp_path) == ["a.txt"]


def play_days(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """The day that it is; it may be set."""
    today = [date(2026, 2, 28)]

    class Day(date):
        @classmethod
        def today(cls) -> date:
            return today[0]

    monkeypatch.setattr(growing_file, "date", Day)
    return today


def test_each_day_has_a_file_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = play_days(monkeypatch)
    for _ in range(2):
        with Lines(tmp_path / "a.txt", daily=True) as file:
            file.put(b"before midnight\n")
    with Lines(tmp_path / "a.txt", daily=True) as file:
        today[0] = date(2026, 3, 1)
        file.put(b"after midnight\n")
    assert names(tmp_path) == [
        "a.2026-02-28-2.txt", "a.2026-02-28-3.txt", "a.2026-02-28.txt", "a.2026-03-01.txt",
    ]  # fmt: skip
    assert (tmp_path / "a.2026-03-01.txt").read_bytes() == b"after midnight\n"


class Disk:
    """`os.write` that has room for so many bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, code: int) -> None:
        self.room, self.most = room, 4  # bytes in all, and at once
        self._code, self._write = code, os.write
        monkeypatch.setattr("whisper_hailo.live.outputs.growing_file.os.write", self)

    def __call__(self, descriptor: int, data: bytes) -> int:
        taken = data[: min(self.room, self.most)]
        if data and not taken:
            raise OSError(self._code, os.strerror(self._code))
        self.room -= len(taken)
        return self._write(descriptor, taken)


def test_disk_that_becomes_full_has_no_half_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, disk = tmp_path / "a.txt", Disk(monkeypatch, 9, errno.ENOSPC)
    with Lines(path, durable=True) as file:
        file.put(b"first\n")
        for _ in range(2):
            file.put(b"second\n")
            assert path.read_bytes() == b"first\n"
        disk.room = 100
        file.put(b"third\n")
    assert path.read_bytes() == b"first\nsecond\nsecond\nthird\n"
    assert names(tmp_path) == ["a.txt"]


def test_disk_that_is_gone_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 6, errno.EIO)
    with Lines(tmp_path / "a.txt") as file:
        file.put(b"first\n")
        file.put(b"second\n")
        disk.room = 100
    assert (tmp_path / "a.txt").read_bytes() == b"first\n"
    assert (tmp_path / "a-2.txt").read_bytes() == b"second\n"
