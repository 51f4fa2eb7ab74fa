"""Files that grow, and when they are left for a new one."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, Self

from filelock import lock_descriptor

from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.files import FileId, file_id, refuse_foreign
from whisper_hailo.core.protocols import Closing

_UNITS: Final = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a growing file is closed and another begun.

    Attributes:
        most_bytes: before it would become larger; `None` is any size.
        daily: at the end of the day, by local time; names of files have their day.
    """

    most_bytes: int | None = None
    daily: bool = False

    @classmethod
    def of(cls, text: str) -> Rotation:
        """Parse `day`, or a size such as `100MB`."""
        if text == "day":
            return cls(daily=True)
        found = re.fullmatch(r"(\d{1,9})([KMG])B?", text.strip().upper())
        size = int(found[1]) * _UNITS[found[2]] if found else 0
        if not size:
            raise ValueError("day, or a size such as 100MB (at least 1KB)")
        return cls(most_bytes=size)

    @property
    def day(self) -> str:
        """Return the day as it stands in the file name, if files have theirs."""
        return f".{date.today().isoformat()}" if self.daily else ""


_PASSING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EAGAIN, errno.ENXIO)
"""A full disk, or a pipe without a reader: worth a retry with the same file."""


class GrowingFile(Closing):
    """Appends records, each as a whole or not at all.

    An existing file, or one that another process writes to, is never overwritten: the next free
    name is taken (`talk.srt`, `talk-2.srt`, `talk-3.srt`). Pipes and devices are written to.

    Args:
        path: the first name.
        fmt: of `core.files.refuse_foreign`, for existing files.
        rotation: when to begin another file.
        joins: append to a file of an earlier run; an incomplete last line is removed.
    """

    def __init__(
        self, path: Path, fmt: str, rotation: Rotation | None = None, *, joins: bool = False
    ) -> None:
        self._path = path
        self._format = fmt
        self._rotation = rotation or Rotation()
        self._joins = joins
        self._descriptor: int | None = None
        self._part = path
        self._regular = False
        self._opened = False
        self._size = self._n_records = 0
        self._day = ""
        self._rest = b""  # of a record that a pipe took a part of
        self.name = display_path(path)

    def check(self, source: FileId | None) -> None:
        """Refuse the captioned file `source`, and one that earlier runs did not write."""
        if source is not None and file_id(self._path) == source:
            raise OptionError(
                f"captions would replace the input {display_path(self._path)}; name another file"
            )
        refuse_foreign(self._path, self._format)

    def open(self) -> Self:
        """Begin a file of this run; after a temporary failure the first record does.

        Raises:
            OutputError: the place is not writable, or holds a foreign file.
        """
        self.check(None)
        self._opened = True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._begin()
        except OSError as error:
            if error.errno not in _PASSING:
                raise self._failure(error, "give another place") from error
        return self

    def close(self) -> None:
        self._opened = False
        self.begin_anew()

    def append(self, *records: bytes, durable: bool) -> None:
        """Write records in one go; if they are durable, wait until they are on the disk.

        Raises:
            OutputError: none of them is in the file; retry later.
        """
        if not self._opened:
            raise OutputError(f"{self.name} is not open; call open() or use a with block")
        try:
            if self._is_full(len(self._joined(records, self._n_records))):
                self.begin_anew()
            if self._descriptor is None:
                self._begin()
            self._write(self._joined(records, self._n_records), durable=durable)
            self._n_records += len(records)
        except OSError as error:
            if error.errno not in _PASSING:
                self.begin_anew()  # the disk or the reader is gone: another may come
            raise self._failure(error, "free some space") from error

    def patch(self, at: int, data: bytes) -> None:
        """Overwrite bytes of a file that this run began."""
        if not self._regular:
            return
        try:
            with self._part.open("r+b", buffering=0) as again:  # the other one only appends
                os.pwrite(again.fileno(), data, at)
        except OSError as error:
            raise self._failure(error, "free some space") from error

    @property
    def has_begun(self) -> bool:
        """Return whether there is a file for the next record."""
        return self._descriptor is not None

    def begin_anew(self) -> None:
        """Close the file; the next record begins another."""
        descriptor, self._descriptor = self._descriptor, None
        self._regular, self._rest = False, b""
        if descriptor is not None:
            with suppress(OSError):  # what was to be on the disk was waited for
                os.close(descriptor)

    def _head(self) -> bytes:
        """Return what a new file begins with, and each run in a file that is appended to."""
        return b""

    def _joined(self, records: Sequence[bytes], n_before: int) -> bytes:
        """Return records as they are written behind so many others."""
        del n_before
        return b"".join(records)

    def _is_full(self, n_bytes: int) -> bool:
        """Return whether so many more bytes belong to the next file."""
        most = self._rotation.most_bytes
        full = most is not None and self._n_records > 0 and self._size + n_bytes > most
        return self._regular and (full or self._day != self._rotation.day)

    def _write(self, record: bytes, *, durable: bool = False) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            raise BlockingIOError(errno.EAGAIN, "no file is open")
        data, done = self._rest + record, 0
        before = _size(descriptor)
        try:
            while done < len(data):
                done += os.write(descriptor, data[done:])
            if durable and self._regular:
                os.fsync(descriptor)
        except OSError:
            if self._regular:
                os.ftruncate(descriptor, before)
                raise
            if done <= len(self._rest):
                self._rest = self._rest[done:]
                raise
            # A pipe keeps what it got: the rest goes before the next record.
        self._rest = data[done:]
        self._size += len(data)

    def _begin(self) -> None:
        """Open the next free file."""
        self._day = self._rotation.day
        stem, ending = f"{self._path.stem}{self._day}", self._path.suffix
        descriptor, number = None, 1
        while descriptor is None:
            path = self._path.with_name(f"{stem}-{number}{ending}" if number > 1 else stem + ending)
            descriptor, number = self._open_free(path), number + 1
        self._descriptor, self._part, self.name = descriptor, path, display_path(path)
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._size, self._n_records = _size(descriptor), 0
        try:
            self._write(self._head())
        except OSError:
            self.begin_anew()
            raise

    def _open_free(self, path: Path) -> int | None:
        """Open a file, unless it is another run's."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                # Without it, opening a pipe would wait for a reader.
                return os.open(path, flags | os.O_NONBLOCK * stat.S_ISFIFO(mode))
        descriptor = os.open(path, (flags & ~os.O_WRONLY) | os.O_RDWR | os.O_CREAT, 0o666)
        if _is_ours(descriptor) and (_size(descriptor) == 0 or self._goes_on(descriptor)):
            return descriptor
        os.close(descriptor)
        return None

    def _goes_on(self, descriptor: int) -> bool:
        """Return whether to append to an existing file; an incomplete last line is removed."""
        size, most = _size(descriptor), self._rotation.most_bytes
        if not self._joins or (most is not None and size >= most):
            return False
        os.ftruncate(descriptor, _end_of_lines(descriptor, size))
        return True

    def _failure(self, error: OSError, advice: str) -> OutputError:
        return OutputError(f"cannot write {self.name} ({error.strerror}); {advice}")


def _is_ours(descriptor: int) -> bool:
    """Return whether no other process has locked a file, as far as the file system has locks."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError:
        return True


def _size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size


def _end_of_lines(descriptor: int, size: int) -> int:
    """Return the position behind the last line end of a file."""
    end = size
    while end:
        begin = max(0, end - 4096)
        at = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0
