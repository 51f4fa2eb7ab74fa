"""Write files atomically: scratch files, locks, flushing to the disk."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OutputError, display_path


def write_file(
    path: Path,
    content: str | bytes,
    advice: str = "give another place",
) -> None:
    """Write a file atomically and durably, text as UTF-8; its folder is created.

    `advice` ends the message if it cannot be written.
    """
    if isinstance(content, str):
        content = content.encode()
    with wrap_os_error(path, advice), atomic_file(path) as scratch:
        scratch.write_bytes(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a scratch file that replaces `path` at the end of the block, or is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_file(path.parent) as scratch:
        yield scratch
        fsync_path(scratch)
        scratch.chmod(umask_mode(0o666))
        scratch.replace(path)


PREFIX: Final = ".whisper-hailo.writing."
"""Beginning of the names of scratch files, which replace another file when complete, or vanish.

Their creator holds a lock on them. The leftovers of a killed program are unlocked, and the next
program that works in the same folder removes them.
"""


def scratch_file(folder: Path) -> AbstractContextManager[Path]:
    """Yield an empty file to be written and renamed; it is removed unless it was renamed.

    Leftovers of killed programs in the folder are removed, too.
    """
    sweep_once(folder)
    return _create_locked(
        folder, PREFIX, lambda path: path.touch(0o600, exist_ok=False)
    )


def scratch_directory(folder: Path, prefix: str) -> AbstractContextManager[Path]:
    """Yield a directory to be filled and renamed; it is removed unless it was renamed."""
    return _create_locked(folder, prefix, lambda path: path.mkdir(0o700))


def scratch_path(folder: Path, prefix: str) -> Path:
    """Return a unique name, with 64 random bits."""
    return folder / f"{prefix}{os.urandom(8).hex()}"


def sweep(
    folder: Path, prefix: str, keep: Callable[[Path], bool] | None = None
) -> None:
    """Remove leftovers of killed programs; what cannot be locked or removed, or is kept, stays."""
    with suppress(OSError):  # the folder may be missing, or not ours to read
        leftovers = [
            Path(entry) for entry in os.scandir(folder) if entry.name.startswith(prefix)
        ]
        for path in leftovers:
            with suppress(OSError):  # another program may sweep, too
                if keep is None or not keep(path):
                    _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    """Remove a path, unless a running program has locked it."""
    # A link must not lead elsewhere, and a pipe must not block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if _lock(descriptor, blocking=False):
            _remove(path)
    finally:
        os.close(descriptor)


@cache
def sweep_once(folder: Path) -> None:
    """Sweep once per folder: it may have a thousand files, each written through a scratch file."""
    sweep(folder, PREFIX)


@contextmanager
def _create_locked(
    folder: Path, prefix: str, make: Callable[[Path], None]
) -> Iterator[Path]:
    """Create and lock a path; retry if another program's sweep removed it in between.

    The removal is registered before the path exists: a signal may come at any time.
    """
    with ExitStack() as resources:
        while True:
            path = scratch_path(folder, prefix)
            resources.callback(_remove, path)
            make(path)
            with suppress(FileNotFoundError):  # swept before it was opened
                descriptor = os.open(path, os.O_RDONLY)
                resources.callback(os.close, descriptor)
                try:
                    # A sweep that had the lock first has removed the path by now.
                    is_ours = _lock(descriptor, blocking=False) and path.exists()
                except OSError:
                    is_ours = True  # this file system has no locks, and so no sweeps
                if is_ours:
                    break
        yield path


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _lock(descriptor: int, *, blocking: bool) -> bool:
    """Lock an open file or directory; return whether it is locked."""
    # Slow to import, and not needed by every start.
    from filelock import lock_descriptor

    return lock_descriptor(descriptor, blocking=blocking)


def require_writable_folder(folder: Path, advice: str) -> None:
    """Refuse a folder that cannot be written, before there is something to write."""
    path = folder.absolute()
    while not os.path.lexists(path):
        # The folder will be created: its first parent that exists decides.
        path = path.parent
    if not path.is_dir():
        reason = f"{display_path(path)} is not a folder"
    elif not os.access(path, os.W_OK | os.X_OK):
        reason = f"{display_path(path)} is not writable by this user"
    else:
        return
    raise OutputError(f"cannot write to {display_path(folder)} ({reason}); {advice}")


@contextmanager
def wrap_os_error(path: Path, advice: str, verb: str = "write") -> Iterator[None]:
    """Raise an `OSError` of the block as `OutputError`, which says what cannot be done."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(
            f"cannot {verb} {display_path(path)} ({reason}); {add_space_advice(error, advice)}"
        ) from error


def add_space_advice(error: OSError, advice: str) -> str:
    """Return advice for an error of writing; to free space only helps on a full disk."""
    # A file too large for a limit of its user is treated as a full disk.
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"free some space, or {advice}" if is_full else advice


@contextmanager
def exclusive_lock(path: Path, advice: str, *, blocking: bool = True) -> Iterator[bool]:
    """Lock a path in the block, or until this process dies; yield whether it is locked.

    Args:
        path: a folder, or a lock file, which is created.
        advice: ends the message if it cannot be locked.
        blocking: wait for the process that has it.
    """
    with ExitStack() as resources:
        with wrap_os_error(path, advice, "lock"):
            path.parent.mkdir(parents=True, exist_ok=True)
            # A folder can only be opened for reading.
            flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
            descriptor = os.open(path, flags, 0o666)
            resources.callback(os.close, descriptor)
            is_locked = _lock(descriptor, blocking=blocking)
        yield is_locked


def fsync_tree(folder: Path) -> None:
    """Flush all files of a folder to the disk, so that a later rename is durable."""
    for path in (*folder.rglob("*"), folder):
        fsync_path(path)


def fsync_path(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask_mode(mode: int) -> int:
    """Return the permissions that the umask leaves of `mode`; temporary files are private."""
    mask = os.umask(0)  # it can only be read by setting it
    os.umask(mask)
    return mode & ~mask
