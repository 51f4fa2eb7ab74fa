"""Files that grow while captions run; writing is retried when a disk is full or a reader gone."""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from filelock import lock_descriptor

from whisper_hailo.core.atomic_files import require_writable_folder
from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.overwrite import FileId, Signature, file_id, refuse_foreign
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.timing import Backoff
from whisper_hailo.live.events import Partial

logger = logging.getLogger(__name__)

_TEMPORARY: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EAGAIN, errno.ENXIO)
"""A full disk, or a pipe without a reader: worth a retry with the same file."""

ItemT = TypeVar("ItemT")


class GrowingFile(Closing, Generic[ItemT]):
    """Appends items, each as a whole or not at all; while that fails, they wait in memory.

    An existing file, or one that another process writes to, is never overwritten: the next free
    name is taken (`talk.srt`, `talk-2.srt`, `talk-3.srt`). Pipes and devices are written to.

    Args:
        path: the first name.
        signature: of files that may be there already; others are refused.
        daily: begin another file at the end of the day, by local time; names have their day.
        joins: append to a file of an earlier run; an incomplete last line is removed.
        now: monotonic clock in seconds.
    """

    unit = "events"
    most_waiting = 20_000.0
    """In `unit`: events of a day without partials, some 20 MiB."""

    def __init__(
        self,
        path: Path,
        signature: Signature,
        *,
        daily: bool = False,
        joins: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = display_path(path)
        self._path = path
        self._part = path  # the file that is open: with a number, or of a day
        self._signature = signature
        self._daily = daily
        self._joins = joins
        self._backoff = Backoff(now)
        self._waiting: deque[ItemT] = deque()
        self._n_lost = 0.0
        self._descriptor = -1
        self._is_regular = False
        self._day = ""
        self._rest = b""  # of a record of which a pipe took a part

    def check(self, source: FileId | None) -> None:
        """Refuse the captioned file `source`, a foreign file, and a folder that is not writable."""
        if source is not None and file_id(self._path) == source:
            raise OptionError(
                f"captions would replace the input {display_path(self._path)}; name another file"
            )
        refuse_foreign(self._path, self._signature)
        if not os.path.lexists(self._path):
            # Else another file of this run would be created before this one fails.
            require_writable_folder(self._path.parent, "give another place")

    def open(self) -> Self:
        """Begin a file of this run; on a full disk, the first item that can be written begins it.

        Raises:
            OutputError: the file cannot be written.
        """
        self.check(None)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._open_next()
        except OSError as error:
            if error.errno not in _TEMPORARY:
                raise self._output_error(error, "give another place") from error
        return self

    def put(self, item: ItemT) -> None:
        """Write an item, or let it wait while the file fails; partials do not wait."""
        self._waiting.append(item)
        if self._backoff.is_over and self._try_to_write():
            return
        if isinstance(self._waiting[-1], Partial):
            self._waiting.pop()  # later events replace it
        while sum(map(self._measure_item, self._waiting)) > self.most_waiting:
            self._n_lost += self._drop_item(self._waiting.popleft())

    def _try_to_write(self) -> bool:
        """Write what waits; return whether that succeeded, and warn when it changes."""
        try:
            self._write_waiting()
        except OutputError as error:
            if not self._backoff.n_failures:
                logger.warning("%s; captions continue; retrying", error)
            self._backoff.fail()
            return False
        if self._backoff.n_failures:
            logger.warning("%s is being written again", self.name)
            self._backoff.succeed()
        return True

    def close(self) -> None:
        """Write what waits, for the last time.

        Raises:
            OutputError: something is missing; it says how much.
        """
        reason = f"{self.name} was not writable for too long"
        has_failed = False
        try:
            self._write_waiting(ends=True)
        except OutputError as error:
            reason = str(error)
            has_failed = True
        self._close_file()
        n_lost = self._n_lost + sum(map(self._drop_item, self._waiting))
        self._waiting.clear()
        self._n_lost = 0.0
        if n_lost or has_failed:
            raise OutputError(
                f"{reason}; {round(n_lost, 1):g} {self.unit} are missing from it"
            )

    def __exit__(self, *exc_info: object) -> None:
        try:
            self.close()
        except OutputError as error:
            if exc_info[1] is None:  # else the earlier error is raised
                raise
            logger.warning("%s", error)

    def _write_item(self, item: ItemT) -> None:
        """Append an item, or raise `OSError` and leave the file as it was."""
        raise NotImplementedError

    def _make_header(self) -> bytes:
        """Return what a new file begins with, and each run in a file that is appended to."""
        return b""

    def _is_over(self) -> bool:
        """Return whether the next item belongs in another file."""
        return self._day != self._date_suffix()

    def _finish_file(self) -> None:
        """Complete a file before it is closed."""

    def _measure_item(self, item: ItemT) -> float:
        """Return how much an item is, in `unit`."""
        del item
        return 1

    def _drop_item(self, item: ItemT) -> float:
        """Give up an item; return how much is missing without it, in `unit`."""
        return self._measure_item(item)

    def _write_waiting(self, *, ends: bool = False) -> None:
        try:
            while self._waiting:
                if self._descriptor >= 0 and self._is_over():
                    self._finish_file()
                    self._close_file()
                if self._descriptor < 0:
                    self._open_next()
                self._write_item(self._waiting[0])
                self._waiting.popleft()
            if ends:
                self._finish_file()
        except OSError as error:
            if error.errno not in _TEMPORARY:
                self._close_file()  # the disk or the reader is gone: another may come
            raise self._output_error(error, "free some space") from error

    def _append_record(self, record: bytes, *, durable: bool = False) -> None:
        """Write a record or nothing, and wait until it is on the disk if it is to be durable."""
        data = self._rest + record
        n_written = 0
        size = _file_size(self._descriptor)
        try:
            while n_written < len(data):
                n_written += os.write(self._descriptor, data[n_written:])
            if durable and self._is_regular:
                os.fsync(self._descriptor)
        except OSError:
            if self._is_regular:
                os.ftruncate(self._descriptor, size)
                raise
            if n_written <= len(self._rest):  # nothing of this record
                self._rest = self._rest[n_written:]
                raise
            # A pipe keeps what it got: the rest of this record goes before the next one.
        self._rest = data[n_written:]

    def _open_next(self) -> None:
        """Open the next free file."""
        self._day = self._date_suffix()
        number = 1
        descriptor = self._open_free(self._numbered_path(number))
        while descriptor is None:
            number += 1
            descriptor = self._open_free(self._numbered_path(number))
        self._descriptor = descriptor
        self._part = self._numbered_path(number)
        self.name = display_path(self._part)
        self._is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        try:
            self._append_record(self._make_header())
        except OSError:
            self._close_file()
            raise

    def _numbered_path(self, number: int) -> Path:
        """Return `talk.srt`, `talk-2.srt`, and so on, with the day before the number."""
        suffix = "" if number == 1 else f"-{number}"
        return self._path.with_name(
            f"{self._path.stem}{self._day}{suffix}{self._path.suffix}"
        )

    def _close_file(self) -> None:
        """Close the file; the next item begins another."""
        with suppress(OSError):  # what has to be on the disk was synchronised
            os.close(self._descriptor)
        self._descriptor = -1
        self._is_regular = False
        self._rest = b""

    def _open_free(self, path: Path) -> int | None:
        """Open a file, unless it is another run's."""
        flags = os.O_APPEND | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode
            if stat.S_ISFIFO(mode):  # without waiting for a reader
                return os.open(path, flags | os.O_WRONLY | os.O_NONBLOCK)
            if not stat.S_ISREG(mode):
                return os.open(path, flags | os.O_WRONLY)
        descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o666)
        size = _file_size(descriptor)
        is_ours = True
        with suppress(OSError):  # a file system without locks
            is_ours = lock_descriptor(descriptor, blocking=False)
        if is_ours and size and self._joins:
            with mmap(descriptor, size, access=ACCESS_READ) as text:
                size = text.rfind(b"\n") + 1
            os.ftruncate(descriptor, size)
        if is_ours and (self._joins or not size):
            return descriptor
        os.close(descriptor)
        return None

    def _date_suffix(self) -> str:
        return f".{date.today().isoformat()}" if self._daily else ""

    def _output_error(self, error: OSError, advice: str) -> OutputError:
        return OutputError(f"cannot write {self.name} ({error.strerror}); {advice}")


def _file_size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size
