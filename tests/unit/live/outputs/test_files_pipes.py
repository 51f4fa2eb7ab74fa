"""Pipes that captions are written to: records that are whole, whoever reads them and when."""

from __future__ import annotations

import errno
import logging
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.unit.live.outputs.test_growing_file import Disk, Lines
from whisper_hailo.audio import open_audio
from whisper_hailo.live.outputs.files import FlacRecording
from whisper_hailo.live.sources.source import Block


def test_pipe_has_no_disk_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    with Lines(tmp_path / "a.txt", durable=True) as file:
        file.put(b"one\n")
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


def test_pipe_without_a_reader_is_written_to_when_one_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    with Lines(path) as file:
        file.put(b"first\n")
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.put(b"second\n")
        assert os.read(reading, 100) == b"first\nsecond\n"
        os.close(reading)
        file.put(b"third\n")
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.put(b"fourth\n")
        assert os.read(reading, 100) == b"third\nfourth\n"
        os.close(reading)
    first, _, second, _ = caplog.messages
    assert "No such device" in first
    assert "Broken pipe" in second


def test_who_reads_a_pipe_next_gets_whole_records(tmp_path: Path) -> None:
    """The one before left in the middle of one that is larger than a pipe."""
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with Lines(path) as file:
        file.put(b"x" * 2_000_000 + b"\n")
        os.close(reading)
        file.put(b"next\n")
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.put(b"")
        assert os.read(reading, 100) == b"next\n"
        os.close(reading)


@pytest.mark.parametrize(
    ("room", "taken"), [(0, False), (2, False), (4, False), (5, True)]
)
def test_pipe_gets_rest_of_record_once_however_little_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, taken: bool
) -> None:
    """Of ten bytes it takes six; the next record is taken when a part of it is."""
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    disk = Disk(monkeypatch, 6, errno.EAGAIN)
    with Lines(tmp_path / "a.txt") as file:
        file.put(b"123456789\n")
        disk.room = room
        file.put(b"next\n")
        assert file.n_waiting == (0 if taken else 1)
        disk.room = 100
        file.put(b"")
    assert os.read(reading, 100) == b"123456789\nnext\n"
    os.close(reading)


def test_pipe_that_is_full_gets_every_record_once_and_whole(tmp_path: Path) -> None:
    path, records = tmp_path / "a.txt", [b"%d" % n * 20_000 + b"\n" for n in range(10)]
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 9_999):
            got.append(data)

    reader = threading.Thread(target=read)
    with Lines(path) as file:
        for record in records:
            file.put(record)
        n_waiting = file.n_waiting
        reader.start()
        while file.n_waiting:
            file.put(b"")
        while file._rest:
            file.put(b"")  # and what the pipe has not taken yet
    reader.join()
    os.close(reading)
    assert 0 < n_waiting < len(records)
    assert b"".join(got) == b"".join(records)
