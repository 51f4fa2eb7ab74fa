"""Which files an output may replace: none that is an input, none that holds something else."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, TypeAlias

from whisper_hailo.core.errors import OutputError
from whisper_hailo.core.names import shown

FileId: TypeAlias = tuple[int, int]
"""Device and inode: the same file by any of its names."""

_LOOK_BYTES: Final = 4096

_BEGINNINGS: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        "txt": rb"[^\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]*\Z",
        "srt": rb"\s*\d+\s*\n\d+:\d\d:\d\d[,.]\d+ --> ",
        "vtt": rb"WEBVTT\b",
        "tsv": rb"start\tend\ttext\r?\n",
        "json": rb'\{\s*"(task|text)": ',
        "jsonl": rb'\{"event": "',
        "flac": rb"fLaC",
        "svg": rb"\s*<(\?xml|svg)\b",
    }
)
"""First bytes of files in the formats that this program writes."""


def file_id(file: str | Path | IO[Any]) -> FileId | None:
    """Which file this is; `None` for what cannot be written over: nothing, or a device."""
    try:
        status = os.stat(file if isinstance(file, str | Path) else file.fileno())
    except (OSError, ValueError):
        return None
    return None if stat.S_ISCHR(status.st_mode) else (status.st_dev, status.st_ino)


def refuse_foreign(path: Path, fmt: str, beginning: bytes | None = None) -> None:
    """Refuse to replace a file of another format; an empty one and an earlier result may be.

    Args:
        path: where the output is to go.
        fmt: what it will be.
        beginning: regular expression of how such files begin; `None` looks in `_BEGINNINGS`.

    Raises:
        OutputError: something else is there.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return  # a pipe or a device takes what it gets; a directory cannot be written over
        with path.open("rb") as file:
            found = file.read(_LOOK_BYTES).removeprefix(b"\xef\xbb\xbf")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise OutputError(
            f"cannot look into {shown(path)} ({error.strerror}), which would be replaced; "
            "give another place"
        ) from error
    if found and not re.match(_BEGINNINGS[fmt] if beginning is None else beginning, found):
        raise OutputError(
            f"{shown(path)} is there and no {fmt} file as this program writes them, so it is not "
            "replaced; move it away, or give another place"
        )
