"""Scratch files and directories: each takes the place of another when it is whole, or vanishes.

Its creator holds a lock on it. What a killed program left is unlocked, and the next
one that works in the same place removes it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

PREFIX: Final = ".whisper-hailo.writing."


@contextmanager
def scratch_file(folder: Path) -> Iterator[Path]:
    """An empty file, to be written and renamed; it is removed if it was not.

    Args:
        folder: where it is to end; what killed programs left there is removed.
    """
    _sweep_once(folder)
    with _held(folder, PREFIX, lambda path: path.touch(0o600, exist_ok=False)) as path:
        yield path


@contextmanager
def scratch_directory(folder: Path, prefix: str) -> Iterator[Path]:
    """A directory, to be filled and renamed; it is removed if it was not.

    Args:
        folder: where it is to end; `sweep` removes what killed programs left there.
        prefix: begins its name.
    """
    with _held(folder, prefix, lambda path: path.mkdir(0o700)) as path:
        yield path


def scratch_path(folder: Path, prefix: str) -> Path:
    """A unique name: 64 random bits."""
    return folder / f"{prefix}{secrets.token_hex(8)}"


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory among the system's temporary files.

    It lies in the one that is locked, since who works in it may lock it, too: a conversion does.
    """
    folder = Path(tempfile.gettempdir())
    _sweep_once(folder)
    with scratch_directory(folder, PREFIX) as held:
        path = held / "work"
        path.mkdir()
        yield path


def sweep(folder: Path, prefix: str, keep: Callable[[Path], bool] | None = None) -> None:
    """Remove what killed programs left; what cannot be locked or removed stays.

    Args:
        folder: where they worked.
        prefix: of names.
        keep: says what stays all the same.
    """
    with suppress(OSError):
        left = [Path(entry) for entry in os.scandir(folder) if entry.name.startswith(prefix)]
        for path in left:
            if keep is None or not keep(path):
                _remove_if_left(path)


@cache
def _sweep_once(folder: Path) -> None:
    """A folder may have a thousand files, each of which is written by way of another."""
    sweep(folder, PREFIX)


def _remove_if_left(path: Path) -> None:
    with suppress(OSError), ExitStack() as opened:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        opened.callback(os.close, descriptor)
        if _lock(descriptor):
            _remove(path)


@contextmanager
def _held(folder: Path, prefix: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """What is made, locked; made again where another program's sweep came in between.

    It has its name, and somebody to remove it, before it is there: a signal may come at any time.
    """
    with ExitStack() as opened:
        while True:
            path = scratch_path(folder, prefix)
            opened.callback(_remove, path)
            make(path)
            if _is_locked(path, opened):
                break
        yield path


def _remove(path: Path) -> None:
    """Remove a file or a directory, if it is there."""
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _lock(descriptor: int) -> bool:
    """Lock an open file or directory, unless another has it."""
    from filelock import lock_descriptor  # slow, not needed by every start

    return lock_descriptor(descriptor, blocking=False)


def _is_locked(path: Path, opened: ExitStack) -> bool:
    """Lock what was just made; not if a sweep was quicker."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    opened.callback(os.close, descriptor)
    try:
        return _lock(descriptor) and path.exists()
    except OSError:
        return True  # there are no locks in this place, and so no sweeps
