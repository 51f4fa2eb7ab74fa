"""Paths: the cache folder, safe names of files, all files of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Final

from whisper_hailo.core.errors import ModelError, display_path

CACHE_VARIABLE: Final = "WHISPER_HAILO_CACHE"

ANOTHER_CACHE: Final = f"set {CACHE_VARIABLE} to a writable folder with free space"

_LONGEST_PART: Final = 255
"""Bytes of a name between slashes, on all common file systems."""

_LONGEST_NAME: Final = 1024
"""In characters; the system allows a path 4096 bytes, the directory's included."""


def cache_root() -> Path:
    """Return `$WHISPER_HAILO_CACHE`, or `whisper-hailo` in the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whisper-hailo"


def expand_user(name: str) -> str:
    """Expand a leading `~`, as in `--output-dir=~/x`, unless a file has that name."""
    if os.path.lexists(name):
        return name
    return os.path.expanduser(name)


def resolve_within(directory: Path, name: str) -> Path:
    """Return the path of a file that a file of a model directory names; it need not exist.

    Raises:
        ModelError: the name is not safe, or leads out of the directory through a link.
    """
    check_file_name(name)
    path = directory / name
    root = os.path.realpath(directory)
    target = os.path.realpath(path)
    if os.path.commonpath((root, target)) != root:
        raise ModelError(
            f"{display_path(path)} leads to {display_path(target)}, outside the model directory; "
            "put the file itself there"
        )
    return path


def check_file_name(name: str) -> None:
    """Refuse a file name from a model that leads out of its directory.

    Raises:
        ModelError: absolute, upwards, empty, too long, or not a path.
    """
    path = PurePosixPath(name)
    leads_out = path.is_absolute() or ".." in path.parts
    # A backslash separates folders on Windows, and a null byte ends a path.
    is_path = path.name and not {"\\", "\0"} & set(name)
    part_sizes = [len(part.encode(errors="replace")) for part in path.parts]
    longest_part = max(part_sizes, default=0)
    if leads_out or not is_path:
        reason = "lies outside the model directory"
    elif len(name) > _LONGEST_NAME or longest_part > _LONGEST_PART:
        reason = "has a name longer than the system allows"
    else:
        return
    raise ModelError(f"file {name[:100]!r} {reason}; fetch or convert the model again")


def list_files(folder: Path, unreadable: Callable[[Path, str], None]) -> list[Path]:
    """Return all files at any depth, sorted; links to other folders are not followed.

    `unreadable` is called with a folder that cannot be read, and the reason.
    """

    def report(error: OSError) -> None:
        reason = error.strerror or str(error)
        unreadable(Path(error.filename), reason)

    paths = [
        Path(directory, name)
        for directory, _, names in os.walk(folder, onerror=report)
        for name in names
    ]
    return sorted(paths)


def is_hidden(path: Path, folder: Path) -> bool:
    """Return whether a file below a folder is hidden, or in a hidden folder of it.

    macOS leaves a file `._name` beside each that it copies to another kind of disk, with the suffix
    of the recording and none of its sound.
    """
    parts = path.relative_to(folder).parts
    return any(part.startswith(".") for part in parts)


def candidate_names(
    plain: str, suffix: str, folder: str, *, is_taken_by_neighbour: bool
) -> Iterator[str]:
    """Yield names of a recording's results, best first, without an end.

    Args:
        plain: its path below the folder that was named, without the suffix.
        suffix: of its name.
        folder: name of that folder.
        is_taken_by_neighbour: a recording of the same folder has the plain name.
    """
    yield plain
    if is_taken_by_neighbour:
        yield f"{plain}{suffix}"
    for number in count(1):
        prefix = folder if number == 1 else f"{folder}-{number}"
        yield f"{prefix}/{plain}"
        yield f"{prefix}/{plain}{suffix}"
