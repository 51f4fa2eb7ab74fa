"""Paths: the cache folder, safe names of files, all files of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from whisper_hailo.core.errors import ModelError, display_path

CACHE_VARIABLE: Final = "WHISPER_HAILO_CACHE"

ANOTHER_CACHE: Final = f"set {CACHE_VARIABLE} to a writable folder with free space"

_LONGEST_PART: Final = 255
"""Bytes of a name between slashes, on all common file systems."""

_LONGEST_NAME: Final = 1024
"""Less than the 4096 bytes of a path, which starts with the directory."""


def cache_root() -> Path:
    """Return `$WHISPER_HAILO_CACHE`, or `whisper-hailo` in the user's cache folder."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whisper-hailo"


def expand_user(name: str) -> str:
    """Expand a leading `~`, as in `--output-dir=~/x`, unless a file has that name."""
    return name if os.path.lexists(name) else os.path.expanduser(name)


def resolve_within(directory: Path, name: str) -> Path:
    """Return the path of a file, which need not exist, that a file of a model directory names.

    Raises:
        ModelError: the name is not safe, or leads out of the directory through a link.
    """
    check_file_name(name)
    path, root = directory / name, os.path.realpath(directory)
    real = os.path.realpath(path)
    if os.path.commonpath((root, real)) != root:
        raise ModelError(
            f"{display_path(path)} leads to {display_path(real)}, outside the model directory; put "
            "the file itself there"
        )
    return path


def check_file_name(name: str) -> None:
    """Refuse a file name that leads outside of the directory that it is read in.

    Raises:
        ModelError: absolute, upwards, empty, too long, or not a path.
    """
    path = PurePosixPath(name)
    part_bytes = [len(part.encode(errors="replace")) for part in path.parts]
    if path.is_absolute() or ".." in path.parts or not path.name or set(name) & {"\\", "\0"}:
        why = "lies outside the model directory"
    elif len(name) > _LONGEST_NAME or max(part_bytes) > _LONGEST_PART:
        why = "has a longer name than the system takes"
    else:
        return
    raise ModelError(f"file {name[:100]!r} {why}; fetch or convert the model again")


def list_files(folder: Path, unreadable: Callable[[Path, str], None]) -> list[Path]:
    """Return all files at any depth, sorted; links to other folders are not followed.

    `unreadable` is called with a folder that cannot be read, and why.
    """
    found = os.walk(
        folder,
        onerror=lambda error: unreadable(Path(error.filename), error.strerror or str(error)),
    )
    return sorted(Path(place, name) for place, _, names in found for name in names)
