"""Hashes of files, which are compared with a record and kept in a cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from whisper_hailo.backends import model_files
from whisper_hailo.backends.model_files import NOTES_FILE, has_content

SHA256, OTHER_SHA256 = (
    hashlib.sha256(content).hexdigest() for content in (b"one", b"two")
)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the files that were read to the end; the cache is a fresh folder."""
    names: list[str] = []
    real = model_files.sha256

    def counted(path: Path) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(model_files, "sha256", counted)
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    return names


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    return path


def test_has_content_reads_a_file_once(reads: list[str], file: Path) -> None:
    assert has_content(file, SHA256)
    assert has_content(file, SHA256)
    assert reads == ["weights"]
    assert not has_content(file, OTHER_SHA256)


def test_has_content_of_changed_file_with_same_times_is_false(
    reads: list[str], file: Path
) -> None:
    assert has_content(file, SHA256)
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not has_content(file, SHA256)
    assert not has_content(file, SHA256)
    assert has_content(file, OTHER_SHA256)


def test_has_content_keeps_the_latest_notes_only(
    reads: list[str], file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(model_files, "MOST_NOTES", 2)
    for name in "abc":
        (tmp_path / name).write_bytes(b"one")
        assert has_content(tmp_path / name, SHA256)
    assert has_content(tmp_path / "c", SHA256)
    assert reads == ["a", "b", "c"]
    assert has_content(tmp_path / "a", SHA256)
    assert reads == ["a", "b", "c", "a"]
    (tmp_path / "c").write_bytes(b"two")
    assert has_content(
        tmp_path / "c", OTHER_SHA256
    )  # noted anew, so that it is the latest
    assert has_content(tmp_path / "b", SHA256)
    assert has_content(tmp_path / "c", OTHER_SHA256)
    assert reads == ["a", "b", "c", "a", "c", "b"]


@pytest.mark.parametrize("notes", [b"{", b'{"/x": 3}', b"\xff", b"[]"])
def test_has_content_with_damaged_notes_rewrites_them(
    reads: list[str], file: Path, tmp_path: Path, notes: bytes
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / NOTES_FILE).write_bytes(notes)
    assert has_content(file, SHA256)
    assert has_content(file, SHA256)
    assert reads == ["weights"]


def test_has_content_without_cache_reads_each_time(
    reads: list[str], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(file / "cache"))
    assert has_content(file, SHA256)
    assert has_content(file, SHA256)
    assert reads == ["weights", "weights"]


def test_has_content_of_equal_names_reads_each_file_once(
    reads: list[str], tmp_path: Path
) -> None:
    files = [tmp_path / folder / "weights" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b"one")
    (tmp_path / "link").symlink_to(files[0])
    for file in (*files, *files, tmp_path / "link"):
        assert has_content(file, SHA256)
    assert reads == ["weights", "weights"]
