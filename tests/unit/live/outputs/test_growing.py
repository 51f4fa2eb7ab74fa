"""Files that grow: whole records or none, a name of its own for each run, parts of some size."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core.errors import OutputError
from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.outputs import growing_file
from whisper_hailo.live.outputs.files import CaptionFile
from whisper_hailo.live.outputs.growing_file import GrowingFile, Rotation


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_another_process_writes_to_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with GrowingFile(path, "txt") as one, GrowingFile(path, "txt") as other:
        one.append(b"one\n", durable=True)
        other.append(b"other\n", durable=True)
    assert (path.read_bytes(), (tmp_path / "a-2.txt").read_bytes()) == (b"one\n", b"other\n")


@pytest.mark.parametrize("durable", [False, True])
def test_the_disk_is_waited_for_where_a_record_may_not_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    with GrowingFile(tmp_path / "a.txt", "txt") as file:
        file.append(b"one\n", durable=durable)
        assert bool(waited) is durable


def test_a_file_that_was_closed_takes_no_more(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "a.txt", "txt").open()
    file.append(b"one\n", durable=False)
    file.close()
    with pytest.raises(OutputError, match="is not open"):
        file.append(b"two\n", durable=False)
    assert (tmp_path / "a.txt").read_bytes() == b"one\n"


@pytest.mark.parametrize(
    ("n_before", "first", "second"), [(6, 3, 0), (7, 3, 0), (9, 1, 2), (10, 0, 3), (11, 0, 3)]
)
def test_a_file_that_goes_on_is_no_larger_than_it_may_be(
    tmp_path: Path, n_before: int, first: int, second: int
) -> None:
    """Ten bytes: what of three records of one fits; the first one is taken in any case."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * (n_before - 1) + b"\n")
    with GrowingFile(path, "txt", Rotation(most_bytes=10), joins=True) as file:
        for _ in range(3):
            file.append(b"\n", durable=False)
    sizes = [p.stat().st_size for p in (path, tmp_path / "a-2.txt") if p.exists()]
    assert sizes == [n_before + first, *([second] if second else [])]


@pytest.mark.parametrize(
    ("most", "expected"), [(90, "12 12 1"), (76, "12 12 1"), (75, "1 1 1 1 1")]
)
def test_cues_of_each_part_are_counted_from_one(tmp_path: Path, most: int, expected: str) -> None:
    """A number, a line of times and a word are 38 bytes with their line ends."""
    with CaptionFile(tmp_path / "a.srt", Rotation(most_bytes=most)) as file:
        for index in range(5):
            words = (CaptionWord(" said"),)
            file.put(Completed(index, index, index + 1.0, words, "silence", 0, 9.0, 9.0))
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= most
    parts = [tmp_path / f"a{n}.srt" for n in ("", "-2", "-3", "-4", "-5")]
    lines = [part.read_text().splitlines() for part in parts if part.exists()]
    assert " ".join("".join(filter(str.isdigit, part)) for part in lines) == expected


@pytest.mark.parametrize("before", [b"", b"\n", b"a line\n", b"\n" + 5000 * b"x" + b"\n"])
def test_half_a_line_is_taken_away_however_long_it_is(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "a.txt"
    for half in (b"half", 9000 * b"h"):
        path.write_bytes(before + half)
        with GrowingFile(path, "txt", joins=True) as file:
            file.append(b"one\n", durable=False)
        assert path.read_bytes() == before + b"one\n"


def test_disk_that_is_full_when_file_begins_has_its_head_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 3, errno.ENOSPC)
    said = Completed(0, 0.0, 1.0, (CaptionWord(" a"),), "silence", 0, 9.0, 9.0)
    with CaptionFile(tmp_path / "a.vtt") as file:
        with pytest.raises(OutputError, match="free some space"):
            file.put(said)
        disk.room = 100
        file.put(said)
    assert names(tmp_path) == ["a.vtt"]
    assert (tmp_path / "a.vtt").read_text().splitlines() == [
        "WEBVTT", "", "00:00:00.000 --> 00:00:01.000", "a", "",
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
    with GrowingFile(tmp_path / "a.txt", "txt") as file:
        assert file.name == str(tmp_path / "a-3.txt")
    assert len(opened) == 3
    for descriptor in set(opened):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a-3.txt").stat().st_mode) == 0o666 & ~mask


def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with GrowingFile(tmp_path / "a.txt", "txt") as file:
        file.append(b"one\n", durable=False)
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_would_become_too_large_is_left_for_the_next(tmp_path: Path) -> None:
    with GrowingFile(tmp_path / "a.txt", "txt", Rotation(most_bytes=10)) as file:
        for record in (b"12345\n", b"123\n", b"6\n", b"more than ten bytes\n", b"7\n"):
            file.append(record, durable=False)
        assert file.name == str(tmp_path / "a-4.txt")
    contents = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    assert contents == {
        "a.txt": b"12345\n123\n",
        "a-2.txt": b"6\n",
        "a-3.txt": b"more than ten bytes\n",
        "a-4.txt": b"7\n",
    }


def test_a_heading_alone_is_no_file_of_its_own(tmp_path: Path) -> None:
    with CaptionFile(tmp_path / "a.vtt", Rotation(most_bytes=10)) as file:
        for index, text in enumerate("ab"):
            words = (CaptionWord(f" {text}"),)
            file.put(Completed(index, index, index + 1.0, words, "silence", 0, 9.0, 9.0))
    contents = [(tmp_path / name).read_text().splitlines() for name in names(tmp_path)]
    assert names(tmp_path) == ["a-2.vtt", "a.vtt"]
    assert [(lines[0], lines[-2]) for lines in contents] == [("WEBVTT", "b"), ("WEBVTT", "a")]


def test_each_day_has_a_file_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    today = [date(2026, 2, 28)]

    class Day(date):
        @classmethod
        def today(cls) -> date:
            return today[0]

    monkeypatch.setattr(growing_file, "date", Day)
    for _ in range(2):
        with GrowingFile(tmp_path / "a.srt", "srt", Rotation(daily=True)) as file:
            file.append(b"before midnight\n", durable=False)
    with GrowingFile(tmp_path / "a.srt", "srt", Rotation(daily=True)) as file:
        today[0] = date(2026, 3, 1)
        file.append(b"after midnight\n", durable=False)
    assert names(tmp_path) == [
        "a.2026-02-28-2.srt", "a.2026-02-28-3.srt", "a.2026-02-28.srt", "a.2026-03-01.srt",
    ]  # fmt: skip
    assert (tmp_path / "a.2026-03-01.srt").read_bytes() == b"after midnight\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("day", Rotation(daily=True)),
        ("100MB", Rotation(most_bytes=100_000_000)),
        ("2g", Rotation(most_bytes=2_000_000_000)),
        ("5K", Rotation(most_bytes=5_000)),
        ("5 kb", None),
        ("week", None),
        ("0MB", None),
        ("", None),
    ],
)
def test_a_rotation_as_it_is_typed(typed: str, meant: Rotation | None) -> None:
    if meant is not None:
        assert Rotation.of(typed) == meant
        return
    with pytest.raises(ValueError, match="day, or a size such as 100MB"):
        Rotation.of(typed)


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


def test_a_disk_that_becomes_full_has_no_half_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, disk = tmp_path / "a.txt", Disk(monkeypatch, 9, errno.ENOSPC)
    with GrowingFile(path, "txt") as file:
        file.append(b"first\n", durable=True)
        for _ in range(2):
            with pytest.raises(OutputError, match="free some space"):
                file.append(b"second\n", durable=True)
            assert path.read_bytes() == b"first\n"
        disk.room = 100
        file.append(b"second\n", durable=True)
    assert path.read_bytes() == b"first\nsecond\n"
    assert names(tmp_path) == ["a.txt"]


def test_a_disk_that_is_gone_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 6, errno.EIO)
    with GrowingFile(tmp_path / "a.txt", "txt") as file:
        file.append(b"first\n", durable=False)
        with pytest.raises(OutputError, match="Input/output error"):
            file.append(b"second\n", durable=False)
        disk.room = 100
        file.append(b"second\n", durable=False)
    assert (tmp_path / "a.txt").read_bytes() == b"first\n"
    assert (tmp_path / "a-2.txt").read_bytes() == b"second\n"
