"""Pipes that captions are written to: records that are whole, whoever reads them and when."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from tests.unit.live.outputs.test_growing import Disk, names
from whisper_hailo.audio import open_audio
from whisper_hailo.core.errors import OutputError
from whisper_hailo.live.outputs.growing_file import GrowingFile, Rotation
from whisper_hailo.live.outputs.retried import FlacRecording
from whisper_hailo.live.sources.source import Block


def test_a_pipe_has_no_disk_to_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    with GrowingFile(tmp_path / "a.txt", "txt") as file:
        file.append(b"one\n", durable=True)
    assert (os.read(reading, 100), waited) == (b"one\n", [])
    os.close(reading)


def test_sound_is_recorded_into_a_pipe(tmp_path: Path) -> None:
    """Nothing of it can be written again, such as how long it was."""
    os.mkfifo(tmp_path / "a.flac")
    reading = os.open(tmp_path / "a.flac", os.O_RDONLY | os.O_NONBLOCK)
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(np.full(5_000, 0.5, np.float32)))
    (tmp_path / "b.flac").write_bytes(os.read(reading, 1 << 16))
    os.close(reading)
    with open_audio(tmp_path / "b.flac") as stream:
        heard = np.concatenate(list(stream.blocks(4096)))
    np.testing.assert_allclose(heard, np.full(5_000, 0.5), atol=1 / 32767)


def test_a_pipe_is_never_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    opened: list[Path] = []

    def noted(path: Path, *how: int, open_it: Callable[..., int] = os.open) -> int:
        opened.append(path)
        return open_it(path, *how)

    monkeypatch.setattr(os, "open", noted)
    with GrowingFile(tmp_path / "a.txt", "txt", Rotation(most_bytes=10)) as file:
        for _ in range(3):
            file.append(b"one\ntwo\n", durable=False)
    assert opened == [tmp_path / "a.txt"], "its reader sees one end of it"
    assert (os.read(reading, 100), names(tmp_path)) == (b"one\ntwo\n" * 3, ["a.txt"])
    os.close(reading)


def test_a_pipe_without_a_reader_is_written_to_when_one_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    with GrowingFile(path, "txt") as file:
        with pytest.raises(OutputError, match="No such device"):
            file.append(b"first\n", durable=True)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.append(b"first\n", durable=True)
        assert os.read(reading, 100) == b"first\n"
        os.close(reading)
        with pytest.raises(OutputError, match="Broken pipe"):
            file.append(b"second\n", durable=True)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.append(b"second\n", durable=True)
        assert os.read(reading, 100) == b"second\n"
        os.close(reading)


def test_who_reads_a_pipe_next_gets_whole_records(tmp_path: Path) -> None:
    """The one before left in the middle of one that is larger than a pipe."""
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with GrowingFile(path, "txt") as file:
        file.append(b"x" * 2_000_000 + b"\n", durable=False)
        os.close(reading)
        with pytest.raises(OutputError, match="Broken pipe"):
            file.append(b"next\n", durable=False)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.append(b"next\n", durable=False)
        assert os.read(reading, 100) == b"next\n"
        os.close(reading)


def insist(file: GrowingFile, record: bytes) -> int:
    """Append a record, as often as that fails; how often that was."""
    for n_failures in count():
        try:
            file.append(record, durable=False)
        except OutputError:
            continue
        return n_failures
    raise AssertionError


@pytest.mark.parametrize(("room", "taken"), [(0, False), (2, False), (4, False), (5, True)])
def test_pipe_gets_rest_of_record_once_however_little_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, taken: bool
) -> None:
    """Of ten bytes it takes six; the next record is taken when a part of it is."""
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    disk = Disk(monkeypatch, 6, errno.EAGAIN)
    with GrowingFile(tmp_path / "a.txt", "txt") as file:
        file.append(b"123456789\n", durable=False)
        disk.room = room
        if taken:
            file.append(b"next\n", durable=False)
        else:
            with pytest.raises(OutputError, match="cannot write"):
                file.append(b"next\n", durable=False)
        disk.room = 100
        file.append(b"" if taken else b"next\n", durable=False)
    assert os.read(reading, 100) == b"123456789\nnext\n"
    os.close(reading)


def test_a_pipe_that_is_full_gets_every_record_once_and_whole(tmp_path: Path) -> None:
    path, records = tmp_path / "a.txt", [b"%d" % n * 20_000 + b"\n" for n in range(10)]
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 9_999):
            got.append(data)

    reader = threading.Thread(target=read)
    with GrowingFile(path, "txt") as file:
        n_taken = 0
        with suppress(OutputError):
            for record in records:
                file.append(record, durable=False)
                n_taken += 1
        reader.start()
        for record in records[n_taken:]:
            insist(file, record)
        insist(file, b"")  # and what the pipe has not taken yet
    reader.join()
    os.close(reading)
    assert 0 < n_taken < len(records)
    assert b"".join(got) == b"".join(records)
