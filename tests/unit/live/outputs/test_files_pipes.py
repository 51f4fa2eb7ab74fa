"""Pipes that captions are written to get whole records, also without a reader at first."""

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


def test_growing_file_pipe_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    with Lines(tmp_path / "a.txt", durable=True) as file:
        file.put(b"one\n")
    assert os.read(reading, 100) == b"one\n"
    assert waited == []
    os.close(reading)


def test_flac_recording_into_a_pipe_is_readable(tmp_path: Path) -> None:
    """The header cannot be completed at the end: a pipe does not seek."""
    os.mkfifo(tmp_path / "a.flac")
    reading = os.open(tmp_path / "a.flac", os.O_RDONLY | os.O_NONBLOCK)
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(np.full(5_000, 0.5, np.float32)))
    (tmp_path / "b.flac").write_bytes(os.read(reading, 1 << 16))
    os.close(reading)
    with open_audio(tmp_path / "b.flac") as stream:
        heard = np.concatenate(list(stream.blocks(4096)))
    np.testing.assert_allclose(heard, np.full(5_000, 0.5), atol=1 / 32767)


def test_growing_file_pipe_without_reader_is_retried(
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
    assert os.strerror(errno.ENXIO) in first
    assert os.strerror(errno.EPIPE) in second


def test_growing_file_next_reader_gets_whole_records(tmp_path: Path) -> None:
    """The previous reader left within a record that is larger than the pipe."""
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
def test_growing_file_pipe_gets_rest_of_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, taken: bool
) -> None:
    """The pipe takes six of ten bytes; a record counts as taken once a part of it is."""
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


def test_growing_file_full_pipe_gets_every_record_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    records = [b"%d" % n * 20_000 + b"\n" for n in range(10)]
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
            file.put(b"")  # until the pipe has taken the last record
    reader.join()
    os.close(reading)
    assert 0 < n_waiting < len(records)
    assert b"".join(got) == b"".join(records)
