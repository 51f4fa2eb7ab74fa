"""Overwrite protection: the identity of files, and the signatures of formats."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from whisper_hailo.core.errors import OutputError, display_path

FileId: TypeAlias = tuple[int, int]
"""Device and inode: the same file by any of its names."""

_LOOK_BYTES: Final = 4096

_BEGINNINGS: Final = {
    "txt": rb"[^\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]*\Z",
    "srt": rb"\s*\d+\s*\n\d+:\d\d:\d\d[,.]\d+ --> ",
    "vtt": rb"WEBVTT\b",
    "tsv": rb"start\tend\ttext\r?\n",
    "json": rb'\{\s*"(task|text)": ',
    "jsonl": rb'\{"event": "',
    "flac": rb"fLaC",
    "svg": rb"\s*<(\?xml|svg)\b",
}
"""First bytes of files in the formats that this program writes."""


def file_id(file: str | Path | IO[Any]) -> FileId | None:
    """Return the identity of a file; `None` for what cannot be overwritten."""
    try:
        status = os.stat(file if isinstance(file, str | Path) else file.fileno())
    except (OSError, ValueError):
        return None
    return None if stat.S_ISCHR(status.st_mode) else (status.st_dev, status.st_ino)


def refuse_foreign(path: Path, fmt: str, beginning: bytes | None = None) -> None:
    """Refuse a folder, and a file of another format; empty files and earlier results may be there.

    `beginning` is a regular expression of the start of such files, where `fmt` has none here.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise OutputError(
                f"cannot write {display_path(path)}, a folder; give the name of a file"
            )
        if not stat.S_ISREG(mode):
            return  # a pipe or a device takes what it gets
        with path.open("rb") as file:
            found = file.read(_LOOK_BYTES).removeprefix(b"\xef\xbb\xbf")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise OutputError(
            f"cannot look into {display_path(path)} ({error.strerror}), which would be replaced; "
            "give another place"
        ) from error
    if found and not re.match(_BEGINNINGS[fmt] if beginning is None else beginning, found):
        raise OutputError(
            f"{display_path(path)} is there and no {fmt} file as this program writes them, so it "
            "is not replaced; move it away, or give another place"
        )
