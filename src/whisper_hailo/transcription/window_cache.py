"""A cache of decoded windows, so that an interrupted run can be resumed.

A resumed recording goes through all of its windows again, so that no state of the interrupted run
is needed; only encoding and decoding are skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, Self

from whisper_hailo.core.atomic_files import wrap_os_error
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.overwrite import Signature
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json
from whisper_hailo.core.types import Segment
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
    recording_language: str
    language_probs: dict[str, float]

    @classmethod
    def of(cls, request: WindowRequest, result: WindowResult) -> CachedWindow:
        context = request.context
        return cls(
            window_key(request),
            **{name: getattr(result, name) for name in _SHARED},
            recording_language=context.language,
            language_probs=dict(context.language_probs),
        )

    def again(self, request: WindowRequest) -> WindowResult:
        """Return the result, and update the recording's context by it."""
        context = request.context
        context.n_windows += 1
        if context.language == AUTO_LANGUAGE:
            context.language = self.recording_language
            context.language_probs = dict(self.language_probs)
            context.n_detections += 1
        return WindowResult(request.window, **{name: getattr(self, name) for name in _SHARED})


_SHARED: Final = (
    "decoded", "segments", "advance_s", "ends_alone", "silent", "end_s", "language",
)  # fmt: skip
"""Fields of a result and of its entry."""


def window_key(request: WindowRequest) -> str:
    """Hash a window's samples, position and prompt, without the run's settings."""
    window, context = request.window, request.context
    shown = context.previous if context.sequential else ()
    digest = blake2b(window.audio.tobytes(), digest_size=16)
    digest.update(f"{window.start_s!r} {window.needs_words} {shown}".encode())
    return digest.hexdigest()


_VERSION: Final = 1
_ADVICE: Final = "free some space or give another place"

SIGNATURE: Final = Signature("the window cache of an interrupted run", rb'\{"unfinished": ')


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
        self._header = json.dumps({"unfinished": settings, "version": _VERSION}).encode() + b"\n"
        self._go_on = go_on
        self._known: dict[str, CachedWindow] = {}
        self._file: BinaryIO | None = None
        self._end = 0

    def open(self) -> Self:
        """Read what an earlier run left."""
        if self._go_on and self._path.exists():
            with wrap_os_error(self._path, _ADVICE), self._path.open("rb") as file:
                is_ours = file.readline() == self._header
                self._end = file.tell() if is_ours else 0
                for line in file if is_ours else ():
                    if (batch := _parse_line(line)) is None:
                        break
                    self._known |= {window.key: window for window in batch}
                    self._end += len(line)
        return self

    @property
    def known_s(self) -> float:
        """Where the last known segment ends, in seconds; 0 if there is none."""
        known = self._known.values()
        return max((segment.end_s for one in known for segment in one.segments), default=0.0)

    @property
    def kept(self) -> bool:
        """Whether there is something to resume from."""
        return bool(self._end)

    def recall(self, key: str) -> CachedWindow | None:
        """Return the result of a window; `None` if unknown."""
        return self._known.get(key)

    def remember(self, batch: Sequence[CachedWindow]) -> None:
        """Store windows that were decoded together: all of them or none."""
        no_finite_number = contextlib.suppress(ValueError)
        with wrap_os_error(self._path, _ADVICE), no_finite_number:
            line = json.dumps({"windows": [asdict(window) for window in batch]}, allow_nan=False)
            begins = not self._end
            if self._file is None:  # what is behind the valid lines goes
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("wb" if begins else "r+b")
                self._file.seek(self._end)
                self._file.truncate()
            self._file.write(self._header * begins + line.encode() + b"\n")
            self._file.flush()
            if not begins:  # most recordings are done with the first
                os.fsync(self._file.fileno())
            self._end = self._file.tell()

    def close(self) -> None:
        """Keep the file for a resumed run."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Delete the file."""
        self.close()
        self._end = 0
        self._path.unlink(missing_ok=True)


def _parse_line(line: bytes) -> tuple[CachedWindow, ...] | None:
    """Parse a line, windows that were decoded together; `None` if it is truncated."""
    if not line.endswith(b"\n"):
        return None
    try:
        return decode(dict[str, tuple[CachedWindow, ...]], parse_json(line))["windows"]
    except (MismatchError, KeyError):
        return None
