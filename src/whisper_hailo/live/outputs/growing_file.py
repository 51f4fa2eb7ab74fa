"""Files that grow while captions run, and are retried when a disk is full or a reader is gone."""

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

from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.overwrite import FileId, Signature, file_id, refuse_foreign
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.timing import Backoff
from whisper_hailo.live.events import Partial

logger = logging.getLogger(__name__)

_PASSING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EAGAIN, errno.ENXIO)
"""A full disk, or a pipe without a reader: worth a retry with the same file."""

ItemT = TypeVar("ItemT")


class GrowingFile(Closing, Generic[ItemT]):
    """Appends items, each as a whole or not at all; while that fails they wait, captions go on.

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
        self._path = self._part = path
        self._signature = signature
        self._daily = daily
        self._joins = joins
        self._wait = Backoff(now)
        self._waiting: deque[ItemT] = deque()
        self._n_lost = 0.0
        self._descriptor = -1
        self._regular = False
        self._day = ""
        self._rest = b""  # of a record that a pipe took a part of

    def check(self, source: FileId | None) -> None:
        """Refuse the captioned file `source`, and one that earlier runs did not write."""
        if source is not None and file_id(self._path) == source:
            raise OptionError(
                f"captions would replace the input {display_path(self._path)}; name another file"
            )
        refuse_foreign(self._path, self._signature)

    def open(self) -> Self:
        """Begin a file of this run, or refuse its place; on a full disk the first item does."""
        self.check(None)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._begin()
        except OSError as error:
            if error.errno not in _PASSING:
                raise self._failure(error, "give another place") from error
        return self

    def put(self, item: ItemT) -> None:
        """Take an item, even while the file fails; partials do not wait then."""
        self._waiting.append(item)
        if self._wait.is_over:
            try:
                self._write_waiting()
            except OutputError as error:
                if not self._wait.n_failures:
                    logger.warning("%s; captions go on, and it is tried again", error)
                self._wait.fail()
            else:
                if self._wait.n_failures:
                    logger.warning("%s is written again", self.name)
                    self._wait.succeed()
                return
        if isinstance(self._waiting[-1], Partial):
            self._waiting.pop()  # later events replace it
        while sum(map(self._amount, self._waiting)) > self.most_waiting:
            self._n_lost += self._lose(self._waiting.popleft())

    def close(self) -> None:
        """Write what waits, for the last time; `OutputError` says how much is missing."""
        why, failed = f"{self.name} could not be written for too long", False
        try:
            self._write_waiting(ends=True)
        except OutputError as error:
            why, failed = str(error), True
        self._begin_anew()
        n_lost = self._n_lost + sum(map(self._lose, self._waiting))
        self._waiting.clear()
        self._n_lost = 0.0
        if n_lost or failed:
            raise OutputError(f"{why}; {round(n_lost, 1):g} {self.unit} are not in it")

    def __exit__(self, *exc_info: object) -> None:
        try:
            self.close()
        except OutputError as error:
            if exc_info[1] is None:  # it never hides an earlier error
                raise
            logger.warning("%s", error)

    def _write(self, item: ItemT) -> None:
        """Append an item, or raise `OSError` and leave the file as it was."""
        raise NotImplementedError

    def _head(self) -> bytes:
        """Return what a new file begins with, and each run in a file that is appended to."""
        return b""

    def _is_over(self) -> bool:
        """Return whether the next item belongs to another file."""
        return self._day != self._today()

    def _finish(self) -> None:
        """Complete a file that is over."""

    def _amount(self, item: ItemT) -> float:
        """Return how much an item is, in `unit`."""
        del item
        return 1

    def _lose(self, item: ItemT) -> float:
        """Return what is missing without an item, in `unit`."""
        return self._amount(item)

    def _write_waiting(self, *, ends: bool = False) -> None:
        try:
            while self._waiting:
                if self._descriptor >= 0 and self._is_over():
                    self._finish()
                    self._begin_anew()
                if self._descriptor < 0:
                    self._begin()
                self._write(self._waiting[0])
                self._waiting.popleft()
            if ends:
                self._finish()
        except OSError as error:
            if error.errno not in _PASSING:
                self._begin_anew()  # the disk or the reader is gone: another may come
            raise self._failure(error, "free some space") from error

    def _append(self, record: bytes, *, durable: bool = False) -> None:
        """Write a record or nothing, and wait until it is on the disk if it is to be durable."""
        data, done = self._rest + record, 0
        before = _file_size(self._descriptor)
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:])
            if durable and self._regular:
                os.fsync(self._descriptor)
        except OSError:
            if self._regular:
                os.ftruncate(self._descriptor, before)
                raise
            if done <= len(self._rest):
                self._rest = self._rest[done:]
                raise
            # A pipe keeps what it got: the rest goes before the next record.
        self._rest = data[done:]

    def _begin(self) -> None:
        """Open the next free file."""
        self._day = self._today()
        stem, ending = f"{self._path.stem}{self._day}", self._path.suffix
        descriptor, number = None, 1
        while descriptor is None:
            path = self._path.with_name(f"{stem}-{number}{ending}" if number > 1 else stem + ending)
            descriptor, number = self._open_free(path), number + 1
        self._descriptor, self._part, self.name = descriptor, path, display_path(path)
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        try:
            self._append(self._head())
        except OSError:
            self._begin_anew()
            raise

    def _begin_anew(self) -> None:
        """Close the file; the next item begins another."""
        with suppress(OSError):  # what was to be on the disk was waited for
            os.close(self._descriptor)
        self._descriptor, self._regular, self._rest = -1, False, b""

    def _open_free(self, path: Path) -> int | None:
        """Open a file, unless it is another run's."""
        flags = os.O_APPEND | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):  # not to wait for a reader of a pipe
                return os.open(path, flags | os.O_WRONLY | os.O_NONBLOCK * stat.S_ISFIFO(mode))
        descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o666)
        is_ours, size = True, _file_size(descriptor)
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

    def _today(self) -> str:
        return f".{date.today().isoformat()}" if self._daily else ""

    def _failure(self, error: OSError, advice: str) -> OutputError:
        return OutputError(f"cannot write {self.name} ({error.strerror}); {advice}")


def _file_size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size
