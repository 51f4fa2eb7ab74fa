"""A file that keeps what came of windows, so that an interrupted run can go on."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.files import unwritable
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json
from whisper_hailo.transcription.memory import Remembered

_VERSION: Final = 1
_ADVICE: Final = "free some space or give another place"

BEGINNING: Final = rb'\{"unfinished": '
"""Of such files, as a regular expression."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """A line: windows that were decoded together."""

    windows: tuple[Remembered, ...]


class Journal(Closing):
    """What is known of windows, on the disk as soon as it is.

    A line that the end of a program or of the power tore is left out, and so is all behind it.

    Args:
        path: of the file, which is made when there is something to keep.
        settings: tell by which program, model and options; what others wrote is of no use.
        go_on: use what an earlier run left.
    """

    def __init__(self, path: Path, settings: str, *, go_on: bool) -> None:
        self._path = path
        self._header = json.dumps({"unfinished": settings, "version": _VERSION}).encode() + b"\n"
        self._go_on = go_on
        self._known: dict[str, Remembered] = {}
        self._file: BinaryIO | None = None
        self._end = 0

    def open(self) -> Self:
        """Read what an earlier run left.

        Raises:
            OutputError: the file cannot be read.
        """
        if self._go_on and self._path.exists():
            with unwritable(self._path, _ADVICE), self._path.open("rb") as file:
                self._end = self._read(file)
        return self

    def _read(self, file: BinaryIO) -> int:
        """Take in the lines that are whole; where they end."""
        if file.readline() != self._header:
            return 0
        end = file.tell()
        for line in file:
            if (batch := _whole(line)) is None:
                break
            self._known |= {window.key: window for window in batch.windows}
            end += len(line)
        return end

    @property
    def known_s(self) -> float:
        """Where the last known segment ends, in seconds; 0 if there is none."""
        known = self._known.values()
        return max((segment.end_s for one in known for segment in one.segments), default=0.0)

    @property
    def kept(self) -> bool:
        """Whether there is something to go on with."""
        return bool(self._end)

    def recall(self, key: str) -> Remembered | None:
        return self._known.get(key)

    def remember(self, batch: Sequence[Remembered]) -> None:
        """See `Memory`.

        Raises:
            OutputError: the disk is full.
        """
        windows = [asdict(window) for window in batch]
        with unwritable(self._path, _ADVICE), contextlib.suppress(ValueError):  # no finite number
            line = json.dumps({"windows": windows}, allow_nan=False)
            file, begins = self._opened(), not self._end
            file.write(self._header * begins + line.encode() + b"\n")
            file.flush()
            if not begins:  # most recordings are done with the first
                os.fsync(file.fileno())
            self._end = file.tell()

    def _opened(self) -> BinaryIO:
        """The file, behind what is of use."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("r+b" if self._end else "wb")
            self._file.seek(self._end)
            self._file.truncate()
        return self._file

    def close(self) -> None:
        """Leave the file for a run that goes on."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Nothing is left to go on with."""
        self.close()
        self._end = 0
        self._path.unlink(missing_ok=True)


def _whole(line: bytes) -> _Batch | None:
    """What a line says; `None` if it is torn."""
    if not line.endswith(b"\n"):
        return None
    try:
        return decode(_Batch, parse_json(line))
    except MismatchError:
        return None
