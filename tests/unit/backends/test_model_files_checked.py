"""Hashes are compared, and each file is read once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from whisper_hailo.backends import model_files
from whisper_hailo.backends.model_files import NOTES_FILE, has_content

ONE, OTHER = (hashlib.sha256(content).hexdigest() for content in (b"one", b"two"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the files that were read to the end; the cache is a fresh folder."""
    done: list[str] = []
    real = model_files.sha256

    def counted(path: Path) -> str:
        done.append(path.name)
        return real(path)

    monkeypatch.setattr(model_files, "sha256", counted)
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    return done


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    return path


def test_file_is_read_once(reads: list[str], file: Path) -> None:
    assert has_content(file, ONE)
    assert has_content(file, ONE)
    assert reads == ["weights"]
    assert not has_content(file, OTHER)


def test_change_is_seen_though_size_and_time_are_kept(
    reads: list[str], file: Path
) -> None:
    assert has_content(file, ONE)
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not has_content(file, ONE)
    assert not has_content(file, ONE)
    assert has_content(file, OTHER)


def test_notes_do_not_grow_for_ever(
    reads: list[str], file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(model_files, "MOST_NOTES", 2)
    for name in "abc":
        (tmp_path / name).write_bytes(b"one")
        assert has_content(tmp_path / name, ONE)
    assert has_content(tmp_path / "c", ONE)
    assert reads == ["a", "b", "c"]
    assert has_content(tmp_path / "a", ONE)
    assert reads == ["a", "b", "c", "a"]
    (tmp_path / "c").write_bytes(b"two")
    assert has_content(tmp_path / "c", OTHER)  # noted anew, so that it is the latest
    assert has_content(tmp_path / "b", ONE)
    assert has_content(tmp_path / "c", OTHER)
    assert reads == ["a", "b", "c", "a", "c", "b"]


@pytest.mark.parametrize("notes", [b"{", b'{"/x": 3}', b"\xff", b"[]"])
def test_damaged_notes_are_made_anew(
    reads: list[str], file: Path, tmp_path: Path, notes: bytes
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / NOTES_FILE).write_bytes(notes)
    assert has_content(file, ONE)
    assert has_content(file, ONE)
    assert reads == ["weights"]


def test_without_a_cache_files_are_read_each_time(
    reads: list[str], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(file / "cache"))
    assert has_content(file, ONE)
    assert has_content(file, ONE)
    assert reads == ["weights", "weights"]


def test_files_of_one_name_are_read_once_each(reads: list[str], tmp_path: Path) -> None:
    files = [tmp_path / folder / "weights" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b"one")
    (tmp_path / "link").symlink_to(files[0])
    for file in (*files, *files, tmp_path / "link"):
        assert has_content(file, ONE)
    assert reads == ["weights", "weights"]
