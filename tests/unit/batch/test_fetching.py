"""Recordings from storage that disappears and comes back."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from whisper_hailo.batch import fetching
from whisper_hailo.batch.fetching import (
    MOST_IN_ROW,
    AccessError,
    Fetcher,
    UnreachableError,
)
from whisper_hailo.batch.manifest import Item
from whisper_hailo.core.errors import OptionError


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "WAITS_S", (0.0, 0.0))


def content(fetcher: Fetcher, audio: str) -> bytes:
    file = fetcher.fetch(audio)
    try:
        return Path(file.path).read_bytes()
    finally:
        file.close()


def test_fetch_copies_small_files_and_opens_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"sound")
    for limit, is_copy in ((5, True), (4, False)):
        monkeypatch.setattr(fetching, "_IN_MEMORY_BYTES", limit)
        file = Fetcher().fetch(str(path))
        assert (file.copy is not None, file.path != str(path)) == (is_copy, is_copy)
        assert Path(file.path).read_bytes() == b"sound"
        file.close()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 24])
def test_fetch_reads_an_address_in_ranges(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(fetching, "_BLOCK_BYTES", 8)
    sound = bytes(range(size))
    fsspec.filesystem("memory").pipe_file("/calls/a.wav", sound)
    for limit in (8, 100):
        monkeypatch.setattr(fetching, "_IN_MEMORY_BYTES", limit)
        assert content(Fetcher(), "memory://calls/a.wav") == sound


def test_fetch_goes_on_where_a_connection_was_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "_BLOCK_BYTES", 4)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/calls/a.wav", b"0123456789")
    starts = []
    cat_file = type(memory).cat_file

    def cut(self: Any, path: str, start: int, end: int) -> bytes:
        starts.append(start)
        if starts.count(4) == 1 and start == 4:
            raise OSError("cut")
        data: bytes = cat_file(self, path, start, end)
        return data

    monkeypatch.setattr(type(memory), "cat_file", cut)
    assert content(Fetcher(), "memory://calls/a.wav") == b"0123456789"
    assert starts == [0, 4, 4, 8]


def test_fetch_waits_for_a_drive_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"

    def mount(*_: object) -> bool:
        path.write_bytes(b"sound")
        return False

    fetcher = Fetcher()
    monkeypatch.setattr(fetcher._stopped, "wait", mount)
    assert content(fetcher, str(path)) == b"sound"


def test_fetch_does_not_wait_for_one_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"sound")
    fetcher = Fetcher()
    fetcher.fetch(str(path)).close()
    monkeypatch.setattr(fetcher._stopped, "wait", lambda _: pytest.fail("it waits"))
    for number in range(2 * MOST_IN_ROW):
        with pytest.raises(AccessError):
            fetcher.fetch(str(tmp_path / f"{number}.wav"))


def test_fetch_ends_after_many_faults_in_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"sound")
    fetcher = Fetcher()
    fetcher.fetch(str(path)).close()
    path.unlink()  # the drive has gone
    for _ in range(MOST_IN_ROW - 1):
        with pytest.raises(AccessError):
            fetcher.fetch(str(path))
    with pytest.raises(
        UnreachableError,
    ):
        fetcher.fetch(str(path))


def test_fetch_file_lost_during_read_is_access_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_IN_MEMORY_BYTES", 1)
    path = tmp_path / "a.wav"
    path.write_bytes(b"sound")
    fetcher = Fetcher()
    file = fetcher.fetch(str(path))
    fetcher.expect_readable(str(path), file)

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(fetching, "open", fail, raising=False)
    with pytest.raises(AccessError, match=os.strerror(errno.EIO)):
        fetcher.expect_readable(str(path), file)


def test_fetch_that_is_stopped_does_not_wait(tmp_path: Path) -> None:
    fetcher = Fetcher()
    fetcher.stop()
    with pytest.raises(AccessError):
        fetcher.fetch(str(tmp_path / "none.wav"))


def test_fetch_of_unknown_addresses_ends_the_job() -> None:
    with pytest.raises(OptionError):
        Fetcher().fetch("nothing://bucket/a.wav")


def test_fetch_shows_no_credentials(tmp_path: Path) -> None:
    del tmp_path
    with pytest.raises(AccessError) as raised:
        Fetcher().fetch("memory://user:secret@calls/none.wav?token=secret")
    assert "secret" not in str(raised.value)


def test_fetch_ahead_keeps_the_order(tmp_path: Path) -> None:
    items = []
    for number in range(12):
        path = tmp_path / f"{number}.wav"
        path.write_bytes(b"sound" * number)
        items.append(Item(str(number), str(path)))
    seen = []
    for item, future in Fetcher().fetch_ahead(items):
        file = future.result()
        assert len(Path(file.path).read_bytes()) == 5 * int(item.id)
        file.close()
        seen.append(item)
    assert seen == items
