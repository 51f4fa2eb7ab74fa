"""Stand-ins for what a job works with: a store, a file system with addresses, a clock."""

from __future__ import annotations

import io
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from whisper_hailo.core.types import Segment, Word


class Shelf:
    """A store in memory."""

    name = "shelf"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.written: list[str] = []

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data
        self.written.append(name)

    def names(self, folder: str) -> list[str]:
        return sorted(name for name in self.files if name.rpartition("/")[0] == folder)

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def hold(self, resources: ExitStack) -> None:
        del resources


class Clock:
    """Stands still until it is put forward."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Files:
    """A file system of fsspec's kind, which remembers what it listed until it is told otherwise."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.folders = {"bucket"}
        self.listed: dict[str, list[str]] = {}
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

    def invalidate_cache(self) -> None:
        self.listed.clear()

    def ls(self, path: str, detail: bool = True) -> list[Any]:
        self._reached()
        if path not in self.folders:
            raise FileNotFoundError(path)
        if path not in self.listed:
            below = [*self.content, *(f"{one}/" for one in self.folders)]
            self.listed[path] = [one for one in below if one.rstrip("/").rpartition("/")[0] == path]
        found = self.listed[path]
        return [{"name": one} for one in found] if detail else found

    def rm_file(self, path: str) -> None:
        self._reached()
        self.cat_file(path)
        del self.content[path]


def segment(text: str, start_s: float = 0.0) -> Segment:
    """A second of speech with a word, heard in a window that begins with it."""
    word = Word(start_s + 0.25, start_s + 0.5, text, 0.9, (1,))
    return Segment(
        start_s, start_s + 1.0, text, (1, 2), -0.1, 0.0, words=(word,), window_start_s=start_s
    )
