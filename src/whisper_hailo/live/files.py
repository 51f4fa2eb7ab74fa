"""Files that grow with the captions: whatever happens, what was completed is in them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, Self, TextIO

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo.core.names import shown
from whisper_hailo.core.targets import FileId, file_id, refuse_foreign
from whisper_hailo.live.events import Completed, Event, as_json
from whisper_hailo.text.subtitles import cue_time

FORMATS: Final = ("srt", "vtt", "txt")


class EventSink(Protocol):
    """Takes events in order."""

    def put(self, event: Event) -> None:
        """Take one.

        Raises:
            OutputError: it cannot be written.
        """
        ...


class _GrowingFile(Closing):
    """A text file to which whole records are appended, each at once on disk."""

    def __init__(self, path: Path, fmt: str) -> None:
        self._path = path
        self._format = fmt
        self._file: TextIO | None = None

    def check(self, source: FileId | None) -> None:
        """Refuse what must not be replaced, before any work.

        Args:
            source: the file that is captioned, if it is one.

        Raises:
            OptionError: this is that file.
            OutputError: something else than earlier captions is there.
        """
        if source is not None and file_id(self._path) == source:
            raise OptionError(f"captions would replace the input {shown(self._path)}; name another")
        refuse_foreign(self._path, self._format)

    def open(self) -> Self:
        """Begin an empty file, which only now replaces captions of before.

        Raises:
            OutputError: the place is not writable, or something else is there.
        """
        self.check(None)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise OutputError(
                f"cannot write {shown(self._path)} ({error.strerror}); give another place"
            ) from error
        return self

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def append(self, record: str, *, durable: bool) -> None:
        """Write a record in one go.

        Args:
            record: with its line end.
            durable: wait until it is on the disk, for what a power cut must not take.
        """
        if self._file is None:
            raise OutputError(f"{shown(self._path)} is not open; call open() or use a with block")
        try:
            self._file.write(record)
            self._file.flush()
            if durable and self._path.is_file():
                os.fsync(self._file.fileno())
        except OSError as error:
            file, self._file = self._file, None
            with suppress(OSError):  # it still holds what could not be written
                file.close()
            raise OutputError(
                f"cannot write {shown(self._path)} ({error.strerror}); free some space"
            ) from error


class EventFile(_GrowingFile):
    """All events as JSON Lines."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "jsonl")

    def put(self, event: Event) -> None:
        record = json.dumps(as_json(event), allow_nan=False) + "\n"
        self.append(record, durable=isinstance(event, Completed))


class CaptionFile(_GrowingFile):
    """Completed segments as subtitles or plain text.

    Args:
        path: its ending says which: `.srt`, `.vtt` or `.txt`.

    Raises:
        OptionError: another ending.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, path.suffix.lower().removeprefix("."))
        if self._format not in FORMATS:
            raise OptionError(
                f"--output is {shown(path)}, expected a name that ends in "
                f"{', '.join('.' + ending for ending in FORMATS)}"
            )
        self._n_cues = 0

    def open(self) -> Self:
        """Begin the file; a WebVTT file has a first line."""
        super().open()
        if self._format == "vtt":
            self.append("WEBVTT\n\n", durable=False)
        return self

    def put(self, event: Event) -> None:
        """Append a completed segment; one without words leaves no trace."""
        if not isinstance(event, Completed) or not event.text:
            return
        self._n_cues += 1
        self.append(self._record(event), durable=True)

    def _record(self, event: Completed) -> str:
        if self._format == "txt":
            return event.text + "\n"
        mark, number = (",", f"{self._n_cues}\n") if self._format == "srt" else (".", "")
        times = f"{cue_time(event.start_s, mark)} --> {cue_time(event.end_s, mark)}"
        return f"{number}{times}\n{event.text.replace('-->', '->')}\n\n"


def caption_files(
    audio: str | None, events: Path | None, output: Path | None
) -> list[EventFile | CaptionFile]:
    """The files that a command line names, not open yet: that is for when the source is.

    Args:
        audio: what is captioned: a file, `-` for standard input, or something else.
        events: of all events.
        output: of what is said.

    Raises:
        OptionError: a file would replace the input or the other one, or has another ending.
        OutputError: a file would replace what captions did not write.
    """
    files: list[EventFile | CaptionFile] = []
    if events is not None:
        files.append(EventFile(events))
    if output is not None:
        files.append(CaptionFile(output))
    source = None if audio is None else file_id(sys.stdin if audio == "-" else audio)
    for file in files:
        file.check(source)
    if events and output and os.path.realpath(events) == os.path.realpath(output):
        raise OptionError(f"--events and --output are both {shown(output)}; name two files")
    return files
