"""Stand-ins for what a job works with: a file system with addresses, a clock."""

from __future__ import annotations

import io
from pathlib import Path

from whisper_hailo.core.types import Segment, Word


class Clock:
    """Stands still until it is put forward."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Files:
    """A file system of fsspec's kind."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.folders = {"bucket"}
        self.error: Exception | None = None

    def _reached(self) -> None:
        if self.error is not None:
            raise self.error

    def cat_file(self, path: str) -> bytes:
        self._reached()
        if path not in self.content:
            raise FileNotFoundError(path)
        return self.content[path]

    def open(self, path: str, mode: str) -> io.BytesIO:
        assert mode == "rb"
        return io.BytesIO(self.cat_file(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._reached()
        if path in self.folders and not exist_ok:
            raise FileExistsError(path)
        self.folders |= {path, *map(str, Path(path).parents)}

    def pipe_file(self, path: str, value: bytes) -> None:
        self._reached()
        if path.rpartition("/")[0] not in self.folders:
            raise FileNotFoundError(path)
        self.content[path] = value


def segment(text: str, start_s: float = 0.0) -> Segment:
    """A second of speech with a word, heard in a window that begins with it."""
    word = Word(start_s + 0.25, start_s + 0.5, text, 0.9, (1,))
    return Segment(
        start_s, start_s + 1.0, text, (1, 2), -0.1, 0.0, words=(word,), window_start_s=start_s
    )
