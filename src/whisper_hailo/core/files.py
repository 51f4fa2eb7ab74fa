"""Files: safe names, hashes, the cache, atomic writes, locks, overwrite protection."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, TypeAlias

from whisper_hailo.core.errors import ModelError, OutputError, display_path

CACHE_VARIABLE: Final = "WHISPER_HAILO_CACHE"
ANOTHER_CACHE: Final = f"set {CACHE_VARIABLE} to a writable folder with free space"

_LONGEST_PART: Final = 255
"""Bytes of a name between slashes, on all common file systems."""
_LONGEST_NAME: Final = 1024
"""Less than the 4096 bytes of a path, which starts with the directory."""

LARGEST_TEXT: Final = 1 << 28
"""Bytes; a run over all of LibriSpeech has a twentieth."""


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


def read_regular_file(path: Path, most_bytes: int) -> bytes:
    """Read a regular file; devices and pipes, which may have no end, are refused.

    Raises:
        ValueError: not a regular file, or too large.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no plain file")
    with path.open("rb") as file:
        raw = file.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise ValueError(f"it has more than {most_bytes >> 20} MiB, more than any of its kind")
    return raw


def read_text(path: Path) -> str:
    """Read a text file that a user names: a reference, a script, results."""
    return read_regular_file(path, LARGEST_TEXT).decode("utf-8-sig")


def split_json_lines(text: str) -> list[str]:
    """Split JSON lines; a text may hold U+2028, which `splitlines` would split at."""
    return text.removesuffix("\n").split("\n") if text else []


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file of a model in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {display_path(path)} ({error.strerror or error})") from error


def write_file(
    path: Path, content: str | bytes, advice: str = "free some space or give another place"
) -> None:
    """Write a file atomically and durably, text as UTF-8; its folder is created.

    `advice` ends the message if it cannot be written.
    """
    with wrap_os_error(path, advice), atomic_file(path) as scratch:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)


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
"""Of scratch files, which replace another file when complete, or vanish.

Their creator holds a lock on them. What a killed program left is unlocked, and the next program
that works in the same folder removes it.
"""


def scratch_file(folder: Path) -> AbstractContextManager[Path]:
    """Yield an empty file to be written and renamed; it is removed if it was not.

    Leftovers of killed programs in the folder are removed.
    """
    sweep_once(folder)
    return _create_locked(folder, PREFIX, lambda path: path.touch(0o600, exist_ok=False))


def scratch_directory(folder: Path, prefix: str) -> AbstractContextManager[Path]:
    """Yield a directory to be filled and renamed; it is removed if it was not."""
    return _create_locked(folder, prefix, lambda path: path.mkdir(0o700))


def scratch_path(folder: Path, prefix: str) -> Path:
    """Return a unique name, with 64 random bits."""
    return folder / f"{prefix}{secrets.token_hex(8)}"


def sweep(folder: Path, prefix: str, keep: Callable[[Path], bool] | None = None) -> None:
    """Remove leftovers of killed programs; what cannot be locked or removed, or is kept, stays."""
    with suppress(OSError):
        left = [Path(entry) for entry in os.scandir(folder) if entry.name.startswith(prefix)]
        for path in left:
            with suppress(OSError), ExitStack() as opened:
                if keep is None or not keep(path):
                    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                    opened.callback(os.close, descriptor)
                    if _lock(descriptor, blocking=False):
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
                    is_held = _lock(descriptor, blocking=False) and path.exists()
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


def _lock(descriptor: int, *, blocking: bool) -> bool:
    """Lock an open file or directory; return whether it is locked."""
    from filelock import lock_descriptor  # slow, not needed by every start

    return lock_descriptor(descriptor, blocking=blocking)


def require_writable_folder(folder: Path, advice: str) -> None:
    """Refuse a folder that cannot be written, before there is something to write."""
    place = folder.absolute()
    there = next(path for path in (place, *place.parents) if os.path.lexists(path))
    if not there.is_dir():
        why = f"{display_path(there)} is no folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        why = f"{display_path(there)} may not be written to by this user"
    else:
        return
    raise OutputError(f"cannot write to {display_path(folder)} ({why}); {advice}")


@contextmanager
def wrap_os_error(path: Path, advice: str, verb: str = "write") -> Iterator[None]:
    """Raise an `OSError` of the block as `OutputError`: what it could not do."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot {verb} {display_path(path)} ({error.strerror or error}); {advice}"
        ) from error


@contextmanager
def exclusive_lock(path: Path, advice: str, *, blocking: bool = True) -> Iterator[bool]:
    """Lock a path in the block, or until this process dies; yield whether it is locked.

    Args:
        path: a folder, or a lock file, which is created.
        advice: ends the message if it cannot be locked.
        blocking: wait for the process that has it.
    """
    with ExitStack() as opened:
        with wrap_os_error(path, advice, "lock"):
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
            number = os.open(path, flags, 0o666)
            opened.callback(os.close, number)
            is_locked = _lock(number, blocking=blocking)
        yield is_locked


def fsync_tree(folder: Path) -> None:
    """Flush all files of a folder to the disk, so that a later rename is durable."""
    for path in (*folder.rglob("*"), folder):
        fsync_path(path)


def fsync_path(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def umask_mode(mode: int) -> int:
    """Return the permissions that the umask leaves of `mode`; temporary files are private."""
    mask = os.umask(0)  # it can only be read by setting it
    os.umask(mask)
    return mode & ~mask


def list_files(folder: Path, unreadable: Callable[[Path, str], None]) -> list[Path]:
    """Return all files at any depth, sorted; links to other folders are not followed.

    `unreadable` is called with a folder that cannot be read, and why.
    """
    found = os.walk(
        folder,
        onerror=lambda error: unreadable(Path(error.filename), error.strerror or str(error)),
    )
    return sorted(Path(place, name) for place, _, names in found for name in names)


FileId: TypeAlias = tuple[int, int]
"""Device and inode: the same file by any of its names."""

_LOOK_BYTES: Final = 4096

_BEGINNINGS: Final = {
    "txt": rb"[^\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]*\Z",
    "srt": rb"\s*\d+\s*\n\d+:\d\d:\d\d[,.]\d+ --> ",
    "vtt": rb"WEBVTT\b",
    "tsv": rb"start\tend\ttext\r?\n",
    "json": rb'\{\s*"(task|text)": ',
    "jsonl": rb'\{"event": "',
    "flac": rb"fLaC",
    "svg": rb"\s*<(\?xml|svg)\b",
}
"""First bytes of files in the formats that this program writes."""


def file_id(file: str | Path | IO[Any]) -> FileId | None:
    """Return the identity of a file; `None` for what cannot be overwritten."""
    try:
        status = os.stat(file if isinstance(file, str | Path) else file.fileno())
    except (OSError, ValueError):
        return None
    return None if stat.S_ISCHR(status.st_mode) else (status.st_dev, status.st_ino)


def refuse_foreign(path: Path, fmt: str, beginning: bytes | None = None) -> None:
    """Refuse a folder, and a file of another format; empty files and earlier results may be there.

    `beginning` is a regular expression of the start of such files, where `fmt` has none here.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise OutputError(
                f"cannot write {display_path(path)}, a folder; give the name of a file"
            )
        if not stat.S_ISREG(mode):
            return  # a pipe or a device takes what it gets
        with path.open("rb") as file:
            found = file.read(_LOOK_BYTES).removeprefix(b"\xef\xbb\xbf")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise OutputError(
            f"cannot look into {display_path(path)} ({error.strerror}), which would be replaced; "
            "give another place"
        ) from error
    if found and not re.match(_BEGINNINGS[fmt] if beginning is None else beginning, found):
        raise OutputError(
            f"{display_path(path)} is there and no {fmt} file as this program writes them, so it "
            "is not replaced; move it away, or give another place"
        )
