"""Scratch files and directories, which replace another file when complete, or vanish.

Their creator holds a lock on them. What a killed program left is unlocked, and the next program
that works in the same folder removes it.
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
    """Yield an empty file to be written and renamed; it is removed if it was not.

    Leftovers of killed programs in the folder are removed.
    """
    sweep_once(folder)
    with _create_locked(folder, PREFIX, lambda path: path.touch(0o600, exist_ok=False)) as path:
        yield path


@contextmanager
def scratch_directory(folder: Path, prefix: str) -> Iterator[Path]:
    """Yield a directory to be filled and renamed; it is removed if it was not."""
    with _create_locked(folder, prefix, lambda path: path.mkdir(0o700)) as path:
        yield path


def scratch_path(folder: Path, prefix: str) -> Path:
    """Return a unique name, with 64 random bits."""
    return folder / f"{prefix}{secrets.token_hex(8)}"


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a directory among the system's temporary files.

    It is inside the locked one, so that its user may lock it too: a conversion does.
    """
    folder = Path(tempfile.gettempdir())
    sweep_once(folder)
    with scratch_directory(folder, PREFIX) as held:
        path = held / "work"
        path.mkdir()
        yield path


def sweep(folder: Path, prefix: str, keep: Callable[[Path], bool] | None = None) -> None:
    """Remove leftovers of killed programs; what cannot be locked or removed, or is kept, stays."""
    with suppress(OSError):
        left = [Path(entry) for entry in os.scandir(folder) if entry.name.startswith(prefix)]
        for path in left:
            with suppress(OSError), ExitStack() as opened:
                if keep is None or not keep(path):
                    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                    opened.callback(os.close, descriptor)
                    if _try_lock(descriptor):
                        _remove(path)


@cache
def sweep_once(folder: Path) -> None:
    """Sweep once per folder: it may have a thousand files, each written through a scratch file."""
    sweep(folder, PREFIX)


@contextmanager
def _create_locked(folder: Path, prefix: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """Create and lock a path; retry if another program's sweep removed it in between.

    The removal is registered before the path exists: a signal may come at any time.
    """
    with ExitStack() as opened:
        while True:
            path = scratch_path(folder, prefix)
            opened.callback(_remove, path)
            make(path)
            with suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY)
                opened.callback(os.close, descriptor)
                try:
                    is_held = _try_lock(descriptor) and path.exists()
                except OSError:
                    is_held = True  # there are no locks in this place, and so no sweeps
                if is_held:
                    break
        yield path


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _try_lock(descriptor: int) -> bool:
    """Lock an open file or directory, unless another process has it."""
    from filelock import lock_descriptor  # slow, not needed by every start

    return lock_descriptor(descriptor, blocking=False)
