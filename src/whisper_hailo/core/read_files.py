"""Read files of limited size, lines of JSON, checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import ModelError, display_path

LARGEST_TEXT: Final = 1 << 28
"""Bytes: twenty times the results of all of LibriSpeech."""


def read_regular_file(path: Path, most_bytes: int) -> bytes:
    """Read a regular file of at most `most_bytes`.

    Raises:
        ValueError: a device or a pipe, which may have no end, or too large.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        raw = file.read(most_bytes + 1)  # a file may grow, so its size is not asked for
    if len(raw) > most_bytes:
        limit_mib = most_bytes >> 20
        raise ValueError(f"it has more than {limit_mib} MiB, the limit for such files")
    return raw


def read_text(path: Path) -> str:
    """Read a text file that a user names: a reference, a script, results.

    Raises:
        ValueError: as `read_regular_file`, or not UTF-8.
    """
    return read_regular_file(path, LARGEST_TEXT).decode("utf-8-sig")


def split_json_lines(text: str) -> list[str]:
    """Split JSON lines; strings may hold U+2028, at which `splitlines` would split."""
    return text.removesuffix("\n").split("\n") if text else []


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file of a model in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"cannot read {display_path(path)} ({reason})") from error
