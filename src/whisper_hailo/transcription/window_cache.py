"""A cache of decoded windows, so that an interrupted run can be resumed.

A resumed recording goes through all of its windows again, so that no state of the interrupted run
is needed; only encoding and decoding are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, Self

from whisper_hailo.core.atomic_files import wrap_os_error
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.overwrite import Signature
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json
from whisper_hailo.core.types import Segment, UntranscribedSpeech
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.transcription.window import WindowRequest, WindowResult


@dataclass(frozen=True, slots=True)
class CachedWindow:
    """The result of a window, as in `WindowResult`.

    Attributes:
        key: see `window_key`.
        recording_language: `auto` while that is not sure.
        language_probs: of the recording, where they were detected.
    """

    key: str
    decoded: Decoded
    segments: tuple[Segment, ...]
    advance_s: float
    ends_alone: bool
    silent: bool
    end_s: float | None
    language: str
    untranscribed: tuple[UntranscribedSpeech, ...]
    recording_language: str
    language_probs: dict[str, float]

    @classmethod
    def of(cls, request: WindowRequest, result: WindowResult) -> CachedWindow:
        """Return the entry of a decoded window."""
        context = request.context
        return cls(
            key=window_key(request),
            decoded=result.decoded,
            segments=result.segments,
            advance_s=result.advance_s,
            ends_alone=result.ends_alone,
            silent=result.silent,
            end_s=result.end_s,
            language=result.language,
            untranscribed=result.untranscribed,
            recording_language=context.language,
            language_probs=dict(context.language_probs),
        )

    def again(self, request: WindowRequest) -> WindowResult:
        """Return the result, and update the recording's context as decoding did."""
        context = request.context
        context.n_windows += 1
        if context.language == AUTO_LANGUAGE:
            context.language = self.recording_language
            context.language_probs = dict(self.language_probs)
            context.n_detections += 1
        return WindowResult(
            window=request.window,
            decoded=self.decoded,
            segments=self.segments,
            advance_s=self.advance_s,
            ends_alone=self.ends_alone,
            silent=self.silent,
            end_s=self.end_s,
            language=self.language,
            untranscribed=self.untranscribed,
        )


def window_key(request: WindowRequest) -> str:
    """Hash a window's samples, position and prompt, without the run's settings."""
    window = request.window
    context = request.context
    previous = context.previous if context.sequential else ()
    digest = blake2b(window.audio.tobytes(), digest_size=16)
    digest.update(f"{window.start_s!r} {window.needs_words} {previous}".encode())
    return digest.hexdigest()


_VERSION: Final = 2
_ADVICE: Final = "choose another output"

SIGNATURE: Final = Signature(
    "the window cache of an interrupted run", rb'\{"unfinished": '
)


class WindowCache(Closing):
    """A cache of windows in a file, flushed at once.

    A batch is recalled as a whole or decoded again: rounding in the encoder depends on the batch. A
    line that the end of a program or a power failure truncated is ignored with all after it.

    Args:
        path: file, created with the first entry.
        settings: identify program, model and options; a file of others is ignored.
        go_on: use what an earlier run left.
    """

    def __init__(self, path: Path, settings: str, *, go_on: bool) -> None:
        self._path = path
        self._header = (
            json.dumps({"unfinished": settings, "version": _VERSION}).encode() + b"\n"
        )
        self._go_on = go_on
        self._windows: dict[str, CachedWindow] = {}
        self._known_s = 0.0
        self._file: BinaryIO | None = None
        self._n_valid = 0
        """Bytes of the header and of the valid lines."""

    def open(self) -> Self:
        """Read what an earlier run left.

        Raises:
            OutputError: the file cannot be read.
        """
        if self._go_on and self._path.exists():
            with wrap_os_error(self._path, _ADVICE), self._path.open("rb") as file:
                self._read(file)
        return self

    def _read(self, file: BinaryIO) -> None:
        """Read the lines of a run with the same settings, up to the first truncated one."""
        if file.readline() != self._header:
            return
        self._n_valid = len(self._header)
        for line in file:
            batch = _parse_line(line)
            if batch is None:
                break
            for window in batch:
                self._windows[window.key] = window
            self._note_end(batch)
            self._n_valid += len(line)

    def _note_end(self, batch: Sequence[CachedWindow]) -> None:
        ends_s = [segment.end_s for window in batch for segment in window.segments]
        self._known_s = max(self._known_s, max(ends_s, default=0.0))

    @property
    def known_s(self) -> float:
        """Where the last known segment ends, in seconds; 0 if there is none."""
        return self._known_s

    @property
    def kept(self) -> bool:
        """True if there is something to resume from."""
        return self._n_valid > 0

    def recall(self, key: str) -> CachedWindow | None:
        """Return the result of a window; `None` if unknown."""
        return self._windows.get(key)

    def remember(self, batch: Sequence[CachedWindow]) -> None:
        """Store windows that were decoded together: all of them or none.

        Raises:
            OutputError: the file cannot be written.
        """
        entries = [asdict(window) for window in batch]
        try:
            line = json.dumps({"windows": entries}, allow_nan=False)
        except ValueError:  # a number that is not finite: the batch is decoded again
            return
        with wrap_os_error(self._path, _ADVICE):
            is_new = self._n_valid == 0
            file = self._writable_file()
            if is_new:
                file.write(self._header)
            file.write(line.encode() + b"\n")
            file.flush()
            if not is_new:  # most recordings are done with the first
                os.fsync(file.fileno())
            self._n_valid = file.tell()
        self._note_end(batch)

    def _writable_file(self) -> BinaryIO:
        """Return the file, opened behind its valid lines; what followed them is dropped."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("r+b" if self._n_valid else "wb")
            self._file.seek(self._n_valid)
            self._file.truncate()
        return self._file

    def close(self) -> None:
        """Keep the file for a resumed run."""
        if self._file is None:
            return
        # On a full disk it fails again with what `remember` could not write, and reported.
        with suppress(OSError):
            self._file.close()
        self._file = None
        if not self.kept:
            self._path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the file."""
        self.close()
        self._n_valid = 0
        self._path.unlink(missing_ok=True)


def _parse_line(line: bytes) -> tuple[CachedWindow, ...] | None:
    """Parse a line, windows that were decoded together; `None` if it is truncated."""
    if not line.endswith(b"\n"):
        return None
    try:
        return decode(dict[str, tuple[CachedWindow, ...]], parse_json(line))["windows"]
    except (MismatchError, KeyError):
        return None
