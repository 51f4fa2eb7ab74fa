"""Temporary copies: their size limit, and the space that they leave free."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace as Made
from typing import cast

import pytest

from whisper_hailo.audio import files
from whisper_hailo.core.errors import AudioError

GIB = 1 << 30


class Long(io.BytesIO):
    """A copy that reports `n_before` bytes already written; it takes three bytes at a time."""

    def __init__(self, n_before: int = 0) -> None:
        super().__init__()
        self.n_before = n_before

    def tell(self) -> int:
        return self.n_before + super().tell()

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        return super().write(data[:3])

    def fileno(self) -> int:
        return 0


def append(copy: Long, content: Iterator[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", lambda **_: copy)
        files.new_copy(content, "a.wav", ExitStack())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Made:
    """A file system of 100 GiB, half of them free."""
    made = Made(f_frsize=4096, f_blocks=100 * GIB // 4096, f_bavail=50 * GIB // 4096)
    monkeypatch.setattr(os, "fstatvfs", lambda _: made)
    return made


def test_new_copy_partial_writes_are_completed(disk: Made) -> None:
    copy = Long()
    append(copy, iter([b"0123456789", b"ab", b"c"]))
    assert copy.getvalue() == b"0123456789abc"


def test_new_copy_beyond_16_gib_is_refused(disk: Made) -> None:
    day_s = 24 * 3600
    bytes_s = 44_100 * 2 * 2
    assert day_s * bytes_s < 16 * GIB, "a day as on a CD"
    copy = Long(16 * GIB - 2)
    append(copy, iter([b"x", b"x"]))
    assert copy.tell() == 16 * GIB
    with pytest.raises(AudioError, match="16 GiB"):
        append(copy, iter([b"x"]))
    with pytest.raises(AudioError, match="16 GiB"):
        append(Long(16 * GIB - 2), iter([b"xxx"]))


@pytest.mark.parametrize(
    ("disk_bytes", "left_bytes"),
    [(100 * GIB, GIB), (20 * GIB, GIB), (10 * GIB, GIB // 2), (40960 * 100, 4096 * 50)],
)
def test_new_copy_leaves_reserve_on_disk(
    disk: Made, disk_bytes: int, left_bytes: int
) -> None:
    disk.f_blocks = disk_bytes // 4096
    disk.f_bavail = left_bytes // 4096
    append(Long(65 << 20), iter([b"x"]))
    disk.f_bavail -= 1
    with pytest.raises(AudioError, match=f" {(left_bytes - 4096) >> 20} MiB"):
        append(Long(65 << 20), iter([b"x"]))


def test_new_copy_up_to_64_mib_ignores_reserve(disk: Made) -> None:
    disk.f_bavail = 0
    append(Long((64 << 20) - 1), iter([b"x"]))
    with pytest.raises(AudioError, match="64 MiB"):
        append(Long(64 << 20), iter([b"x"]))


def test_new_copy_refusal_names_temporary_folder(
    disk: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.f_bavail = 0
    for folder, name in (("/somewhere", "/somewhere"), (None, "the temporary folder")):
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with pytest.raises(AudioError, match=name):
            append(Long(65 << 20), iter([b"x"]))


def test_open_file_memory_file_is_copied_for_decoder() -> None:
    """All of it, at once: nothing waits in a buffer of this process."""
    file = io.BytesIO(b"whole")
    file.read(2)
    with ExitStack() as resources:
        copy = files.open_file(file, "a.wav", resources)
        assert os.pread(copy.fileno(), 100, 0) == b"whole"
    assert copy.closed
    assert not file.closed


def test_open_file_readable_by_decoder_is_not_copied() -> None:
    with tempfile.TemporaryFile() as file, ExitStack() as resources:
        file.write(b"whole")
        file.flush()
        opened = files.open_file(cast(io.BufferedRandom, file), "a", resources)
        assert opened.fileno() == file.fileno()
