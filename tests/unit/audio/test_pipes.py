"""What comes but once, or is looked at but once: how long, how much, and what is seen of it."""

from __future__ import annotations

import io
import os
import select
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any, BinaryIO, cast

import pytest

from tests.unit.sounds import refusal
from whisper_hailo.audio import copies, files
from whisper_hailo.audio.files import find_fault, open_file
from whisper_hailo.core.errors import AudioError


class Coming(io.RawIOBase):
    """Zeros without an end, or up to one; counted."""

    def __init__(self, begin: bytes, n_bytes: int = 1 << 60) -> None:
        self.n_taken, self._begin, self._n_bytes = 0, begin, n_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        size = min(size, self._n_bytes - self.n_taken)
        piece = self._begin[self.n_taken : self.n_taken + size].ljust(size, b"\0")
        self.n_taken += size
        return piece


def taken(source: Coming) -> bytes:
    """What a pipe gave, as a file."""
    with ExitStack() as resources:
        return open_file(cast(BinaryIO, source), "a", resources).read()


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes]]:
    """Where, and at what, it is looked whether a recording begins; it is always one."""
    seen: list[tuple[int, bytes]] = []

    def look(file: BinaryIO, _: str) -> Any:
        seen.append((file.tell(), file.read(12)))
        return Made(close=lambda: None)

    monkeypatch.setattr(files, "open_reader", look)
    return seen


def test_after_64_mib_it_is_seen_whether_they_begin_a_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def almost(label: str, resources: ExitStack) -> io.FileIO:
        copy = copies.new_copy(label, resources)
        copy.seek(62 << 20)  # as if so many had come: they take no space
        return copy

    def refuse(_: BinaryIO, label: str) -> None:
        raise AudioError(f"{label} is not readable audio")

    monkeypatch.setattr(files, "new_copy", almost)
    monkeypatch.setattr(files, "open_reader", refuse)
    source = Coming(b"")
    assert "is not readable audio" in refusal(source)
    assert source.n_taken == 2 << 20


@pytest.mark.parametrize(("n_bytes", "n_looks"), [(31, 0), (32, 1), (33, 1), (90, 1)])
def test_what_is_shorter_is_looked_at_when_it_is_whole(
    monkeypatch: pytest.MonkeyPatch, looked: list[object], n_bytes: int, n_looks: int
) -> None:
    monkeypatch.setattr(files, "LOOK_BYTES", 32)
    whole = taken(Coming(b"words without an end", n_bytes))
    assert whole == b"words without an end".ljust(n_bytes, b"\0")
    assert looked == [(0, b"words withou")] * n_looks


def test_formats_whose_index_may_come_last_are_taken_unseen(
    monkeypatch: pytest.MonkeyPatch, looked: list[object]
) -> None:
    monkeypatch.setattr(files, "LOOK_BYTES", 16)
    for start in (b"FORM\0\1\2\3AIFF", b"caff\0\1\0\0desc"):
        assert taken(Coming(start, 40)) == start.ljust(40, b"\0")
    for kind in (b"ftyp", b"free", b"mdat", b"moov", b"skip", b"wide"):
        start = b"\0\0\0\x18" + kind + b"M4A "
        assert taken(Coming(start, 40)) == start.ljust(40, b"\0")
    assert looked == []
    for start in (b"RIFF\0\1\2\3WAVE", b"\0ftyp\0\0\0M4A ", b"\0FORM\0\0\0AIFF", b"for one all."):
        taken(Coming(start, 40))
        assert looked.pop() == (0, start)


def test_a_named_pipe_may_give_nothing_for_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waited: list[float] = []

    class Poll:
        def register(self, file: BinaryIO, events: int) -> None:
            assert os.path.samestat(os.fstat(file.fileno()), os.stat(tmp_path / "pipe"))
            assert events & select.POLLIN

        def poll(self, milliseconds: float) -> list[object]:
            waited.append(milliseconds)
            return []

    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(select, "poll", Poll)
    assert "a pipe that received no data for 10 s," in refusal(tmp_path / "pipe")
    assert waited == [10_000]


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_file_of_the_callers_is_read_where_it_lies_from_a_place_of_its_own(
    tmp_path: Path, buffering: int
) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    with (tmp_path / "a").open("rb", buffering) as source, ExitStack() as resources:
        source.read(2)
        file = open_file(source, "a", resources)
        assert file.fileno() == source.fileno(), "nothing is copied for another process"
        assert file.read(3) == b"abc"
        assert source.read(1) == b"c"
        assert file.read() == b"def"
    assert file.closed


def test_what_is_no_file_of_the_systems_is_read_from_a_place_of_its_own() -> None:
    """As any raw file is, so that a buffer can be laid over it."""
    source = io.BytesIO(b"abcdef")
    source.read(2)
    with ExitStack() as resources:
        files_ = [open_file(source, "a", resources) for _ in range(2)]
        left, right = (io.BufferedReader(cast(io.RawIOBase, file), 4) for file in files_)
        assert [left.read(3), right.read(2), left.read(9), right.read(9)] == [
            *(b"abc", b"ab", b"def", b"cdef")
        ]
        assert left.seek(-2, os.SEEK_END) == 4
        assert left.read() == b"ef"
        assert left.seek(1) == 1
        assert left.read(1) == b"b"
    assert not source.closed


def test_what_is_wrong_with_a_name_is_told_without_reading(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "one").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    for name in ("one", "pipe", "."):
        assert find_fault(tmp_path / name, "a") is None
    assert str(find_fault(tmp_path / "empty", "a")).startswith("a is empty (0 bytes), expected an")
    assert str(find_fault(tmp_path / "none", "a")).startswith("a does not exist, expected an audio")
    assert find_fault(Path("/dev/null"), "a") is None


def test_one_byte_is_not_empty() -> None:
    with ExitStack() as resources:
        assert open_file(io.BytesIO(b"x"), "a", resources).read() == b"x"
        with pytest.raises(AudioError, match=r"^a is empty \(0 bytes\)"):
            open_file(io.BytesIO(), "a", resources)
