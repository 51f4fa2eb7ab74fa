"""Overwrite protection: which path is which file, and whose file it is."""

from __future__ import annotations

import os
import re
import stat
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from whisper_hailo.core.errors import OutputError, display_path

FileId: TypeAlias = tuple[int, int]
"""Device and inode: the same file by any of its names."""

_LOOK_BYTES: Final = 4096
"""Enough for any signature, and for a text file to show that it is none."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How files of a format are recognised.

    Attributes:
        kind: such a file in a message, as "an SRT file".
        beginning: regular expression that matches the first bytes.
    """

    kind: str
    beginning: bytes


def file_id(file: str | Path | IO[Any]) -> FileId | None:
    """Return the identity of a file; `None` if it is missing, or a device such as a terminal."""
    try:
        target = file if isinstance(file, str | Path) else file.fileno()
        status = os.stat(target)
    except (OSError, ValueError):  # missing, no file of the system, or no possible name
        return None
    if stat.S_ISCHR(status.st_mode):
        return None
    return status.st_dev, status.st_ino


def refuse_foreign(path: Path, signature: Signature) -> None:
    """Refuse to overwrite a folder, or a file without the signature of what is to be written.

    Missing and empty files, earlier results, pipes and devices may be written to.

    Raises:
        OutputError: the path must not be overwritten, or cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise OutputError(
                f"cannot write {display_path(path)}: it is a folder; give a file name"
            )
        if not stat.S_ISREG(mode):
            return  # reading a pipe would take what is in it, or block
        with path.open("rb") as file:
            beginning = file.read(_LOOK_BYTES).removeprefix(BOM_UTF8)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise OutputError(
            f"cannot look into {display_path(path)} ({error.strerror}), which would be replaced; "
            "choose another output"
        ) from error
    if beginning and not re.match(signature.beginning, beginning):
        raise OutputError(
            f"{display_path(path)} exists and does not look like {signature.kind}; refusing to "
            "overwrite it. Move it or choose another output."
        )
