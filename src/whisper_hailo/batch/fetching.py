"""Recordings from wherever they are, on this machine: tried again while their storage is away.

What cannot be fetched is no fault of the recording: it is an `AccessError`, which the next run
tries again. What can be fetched and not decoded is an `AudioError`, for good.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Final

from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.storage import (
    WAITS_S,
    describe_error,
    is_address,
    open_file_system,
    redact,
    strip_file_scheme,
)
from whisper_hailo.core.errors import (
    AudioError,
    ExitCode,
    OptionError,
    WhisperHailoError,
    display_path,
)

MOST_IN_ROW: Final = 20
"""Recordings that cannot be fetched one after the other: their storage is gone, or not the one
that was meant."""

_IN_MEMORY_BYTES: Final = 16 << 20
"""Recordings up to this size are read whole, so that a drive that goes away while one is decoded
does not make it a shorter one. Five of them fit the memory of a Raspberry Pi."""

_BLOCK_BYTES: Final = 8 << 20
"""Range of a request; a connection that is cut costs one of them."""

_N_AHEAD: Final = 4
"""Recordings that are fetched while another is decoded: buckets answer after 30 ms or more."""


class AccessError(AudioError):
    """A recording could not be fetched; another run may be able to."""


class UnreachableError(WhisperHailoError):
    """So many recordings could not be fetched that the job cannot go on."""

    exit_code = ExitCode.AUDIO


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A recording on this machine.

    Attributes:
        path: to be opened; that of the recording, or of a copy without a name.
        copy: the copy, in memory or in the temporary folder.
    """

    path: str
    copy: io.FileIO | None = None

    def close(self) -> None:
        """Free the copy."""
        if self.copy is not None:
            self.copy.close()


class Fetcher:
    """Fetches recordings, with the back-off and the counts that all of them share."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stopped = Event()
        self._n_in_row = 0
        self._witness: str | None = None

    def stop(self) -> None:
        """End waiting for storage that is away; a thread that waits gets an error."""
        self._stopped.set()

    def fetch_ahead(
        self, items: Iterable[Item]
    ) -> Iterator[tuple[Item, Future[FetchedFile]]]:
        """Yield items in their order, while the next ones are being fetched."""
        with ThreadPoolExecutor(_N_AHEAD) as pool:
            pending: deque[tuple[Item, Future[FetchedFile]]] = deque()
            try:
                for item in items:
                    pending.append((item, pool.submit(self.fetch, item.audio)))
                    if len(pending) > _N_AHEAD:
                        yield pending.popleft()
                while pending:
                    yield pending.popleft()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def fetch(self, audio: str) -> FetchedFile:
        """Return a recording on this machine.

        Raises:
            AccessError: it cannot be fetched now.
            UnreachableError: nor could the `MOST_IN_ROW` before it.
            OptionError: no library for such addresses is installed.
        """
        download = _Download(audio)
        n_tries = 0
        while True:
            try:
                fetched = download.run()
            except OptionError:
                raise
            except Exception as error:  # libraries of fsspec raise many kinds
                is_absent = self._is_absent(audio, error)
                is_last = is_absent or n_tries == len(WAITS_S)
                if is_last or self._stopped.wait(WAITS_S[n_tries]):
                    download.close()
                    raise self._fault(audio, error, is_absent=is_absent) from error
                n_tries += 1
            else:
                with self._lock:
                    self._n_in_row = 0
                    self._witness = audio
                return fetched

    def expect_readable(self, audio: str, file: FetchedFile) -> None:
        """Check that a file which seems broken was read as it is, and did not go away meanwhile.

        Raises:
            AccessError: it cannot be read.
        """
        if file.copy is not None or not os.path.isfile(file.path):
            return
        try:
            with open(file.path, "rb", buffering=0) as content:
                while content.read(_BLOCK_BYTES):
                    pass
        except OSError as error:
            raise self._fault(audio, error, is_absent=False) from error

    def _is_absent(self, audio: str, error: Exception) -> bool:
        """Return whether only this recording is missing, and not the drive with all of them.

        A drive that is not mounted has no files either, so another recording is asked for.
        """
        # In a bucket, a permission that is missing may be credentials that are being renewed.
        is_refused = isinstance(error, PermissionError) and not is_address(audio)
        if not isinstance(error, FileNotFoundError) and not is_refused:
            return False
        witness = self._witness
        if witness is None:
            return False
        try:
            _read_first_byte(witness)
        except Exception:  # as in `fetch`
            return False
        return True

    def _fault(
        self, audio: str, error: Exception, *, is_absent: bool
    ) -> WhisperHailoError:
        name = display_path(redact(audio))
        reason = describe_error(error)
        with self._lock:
            if not is_absent:
                self._n_in_row += 1
            if self._n_in_row >= MOST_IN_ROW:
                return UnreachableError(
                    f"{MOST_IN_ROW} recordings in a row cannot be read, the last is {name} "
                    f"({reason}); check the drive, the address and its permissions, and run the "
                    "same command again to resume"
                )
        return AccessError(
            f"{name} cannot be read ({reason}); the next run will retry it"
        )


class _Download:
    """One recording, fetched from where the try before was cut off."""

    def __init__(self, audio: str) -> None:
        self._audio = strip_file_scheme(audio)
        self._copy: io.FileIO | None = None

    def run(self) -> FetchedFile:
        """Fetch the rest; any error may come out."""
        if is_address(self._audio):
            return self._run_remote()
        return self._run_local()

    def _run_local(self) -> FetchedFile:
        try:
            status = os.stat(self._audio)
        except ValueError:  # no possible name, which the reader of audio says
            return FetchedFile(self._audio)
        if not stat.S_ISREG(status.st_mode):
            return FetchedFile(self._audio)
        with open(self._audio, "rb", buffering=0) as file:
            if status.st_size > _IN_MEMORY_BYTES:
                file.read(1)
                return FetchedFile(self._audio)
            content = file.readall()
        copy = self._open_copy(len(content))
        copy.write(content)
        return self._fetched(copy)

    def _run_remote(self) -> FetchedFile:
        file_system, path = open_file_system(self._audio)
        size = file_system.info(path)["size"]
        if size is None:  # a web server that does not say
            content = file_system.cat_file(path)
            copy = self._open_copy(len(content))
            copy.write(content)
            return self._fetched(copy)
        copy = self._copy or self._open_copy(size)
        self._copy = copy
        start = copy.seek(0, os.SEEK_END)
        while start < size:
            end = min(size, start + _BLOCK_BYTES)
            copy.write(file_system.cat_file(path, start=start, end=end))
            position = copy.tell()
            if position != end:
                raise OSError(f"{position - start} bytes received of {end - start}")
            start = position
        return self._fetched(copy)

    def _open_copy(self, size: int) -> io.FileIO:
        if size <= _IN_MEMORY_BYTES:
            return io.FileIO(os.memfd_create("recording"), "r+")
        return tempfile.TemporaryFile(buffering=0)

    def _fetched(self, copy: io.FileIO) -> FetchedFile:
        # By this name readers get a descriptor with a position of its own.
        return FetchedFile(f"/proc/self/fd/{copy.fileno()}", copy)

    def close(self) -> None:
        """Free what was fetched so far."""
        if self._copy is not None:
            self._copy.close()


def _read_first_byte(audio: str) -> None:
    """Raise if a recording cannot be read."""
    if is_address(audio):
        file_system, path = open_file_system(audio)
        file_system.cat_file(path, start=0, end=1)
        return
    with open(audio, "rb", buffering=0) as file:
        file.read(1)
