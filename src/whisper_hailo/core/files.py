"""Names of files from strangers, hashing, the cache's place, and how new files are made."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import Final

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.scratch import scratch_file

CACHE_VARIABLE = "WHISPER_HAILO_CACHE"

LARGEST_TEXT: Final = 1 << 28
"""Bytes. A run over all of LibriSpeech is a twentieth of it."""


def cache_root() -> Path:
    """`$WHISPER_HAILO_CACHE`, or `whisper-hailo` in the user's cache folder."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whisper-hailo"


def inside(directory: Path, name: str) -> Path:
    """Path of a file that a file of a directory names: in that directory, also behind links.

    Args:
        directory: such as a model directory.
        name: relative, parted by `/`; what it names need not be there yet.

    Raises:
        ModelError: it names nothing, or leads elsewhere.
    """
    check_name(name)
    path, root = directory / name, os.path.realpath(directory)
    real = os.path.realpath(path)
    if os.path.commonpath((root, real)) != root:
        raise ModelError(
            f"{path} leads to {real}, outside the model directory; put the file itself there"
        )
    return path


def check_name(name: str) -> None:
    """Refuse a name of a file that lies outside of the directory that it is read in.

    Raises:
        ModelError: absolute, upwards, empty, or nothing that a path can be.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name or set(name) & {"\\", "\0"}:
        raise ModelError(
            f"file {name[:200]!r} lies outside the model directory; fetch or convert the model "
            "again"
        )


def read_plain(path: Path, most_bytes: int) -> bytes:
    """What a file holds; devices and pipes, which may have no end, are not read.

    Args:
        path: named by a user, or by a file of a stranger.
        most_bytes: more is refused.

    Raises:
        OSError: it cannot be read.
        ValueError: no plain file, too large, or a name that no file has.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no plain file")
    with path.open("rb") as file:
        raw = file.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise ValueError(f"it has more than {most_bytes >> 20} MiB, more than any of its kind")
    return raw


def read_text(path: Path) -> str:
    """The text of a file that a user names: a reference, a script, results.

    Raises:
        OSError: it cannot be read.
        ValueError: as `read_plain`, or no UTF-8.
    """
    return read_plain(path, LARGEST_TEXT).decode("utf-8-sig")


def sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror or error})") from error


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that is either whole, on the disk itself, or as before.

    Args:
        path: target; its folder is made when missing.
        data: content.

    Raises:
        OSError: unwritable place or full disk; nothing half-written is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_file(path.parent) as scratch:
        with scratch.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.chmod(ordinary_mode(0o666))
        scratch.replace(path)


def sync_tree(folder: Path) -> None:
    """Have the disk hold all files of a folder, so that a rename after it names whole ones.

    Raises:
        OSError: the disk is full or broken.
    """
    for path in (*folder.rglob("*"), folder):
        sync(path)


def sync(path: Path) -> None:
    """Have the disk hold a file, or the names in a folder.

    Raises:
        OSError: the disk is full or broken.
    """
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def ordinary_mode(mode: int) -> int:
    """Permissions that the user's umask leaves of `mode`; temporary files are made private."""
    mask = os.umask(0)  # it can only be read by setting it
    os.umask(mask)
    return mode & ~mask
