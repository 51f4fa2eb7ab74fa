"""Folders and addresses: read, written and listed alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from whisper_hailo.batch import storage as module
from whisper_hailo.batch.storage import (
    Storage,
    is_address,
    redact,
    restore_address,
)
from whisper_hailo.core.errors import OptionError, OutputError


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    yield Storage("memory://job" if request.param == "memory" else str(tmp_path))
    memory.store.clear()


def test_storage_reads_what_it_wrote(storage: Storage) -> None:
    assert storage.read("a/b.txt") is None
    assert storage.list_names("a") == []
    storage.write("a/b.txt", "ä")
    storage.write("a/b.txt", "ö")
    storage.write("a/c.txt", "")
    assert storage.read("a/b.txt") == "ö".encode()
    assert sorted(storage.list_names("a")) == ["b.txt", "c.txt"]
    storage.remove("a/b.txt")
    storage.remove("a/b.txt")
    assert storage.list_names("a") == ["c.txt"]


def test_storage_tries_an_address_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITS_S", (0.0, 0.0))
    storage = Storage("memory://job")
    n_tries = 0
    pipe_file = type(storage._file_system).pipe_file

    def fail_twice(*words: object) -> None:
        nonlocal n_tries
        n_tries += 1
        if n_tries < 3:
            raise OSError("503 at s3://user:secret@host/a?X-Amz-Signature=secret")
        pipe_file(*words)

    monkeypatch.setattr(type(storage._file_system), "pipe_file", fail_twice)
    storage.write("a.txt", "text")
    assert storage.read("a.txt") == b"text"
    n_tries = -9
    with pytest.raises(OutputError, match=r"503 at s3://host/a\)") as raised:
        storage.write("a.txt", "text")
    assert "secret" not in str(raised.value)


def test_storage_of_a_full_disk_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match=r"space left"):
        Storage(str(tmp_path)).write("a.txt", "text")


def test_storage_of_unknown_address_names_the_library() -> None:
    with pytest.raises(OptionError, match="fsspec"):
        Storage("nothing://bucket/job")


def test_storage_takes_file_addresses_as_paths(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}")
    storage.write("a.txt", "text")
    assert (tmp_path / "a.txt").read_text() == "text"
    assert storage.address("a.txt") == str(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:word@host/a.wav?token=1", "https://host/a.wav"),
        ("s3://bucket/a.wav", "s3://bucket/a.wav"),
        ("a user@host is no address", "a user@host is no address"),
    ],
)
def test_redact_hides_credentials(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_storage_address_survives_as_path() -> None:
    for address in ("s3://bucket/job", "gs://bucket/a/b"):
        assert restore_address(Path(address)) == address
        assert is_address(address)
    assert restore_address(Path("/a/b")) == "/a/b"
    assert not is_address("C:/a")
