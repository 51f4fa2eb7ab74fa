"""Reading JSON from strangers, hashing, the cache's place, and the permissions of new files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from whisper_hailo.core.errors import ModelError

CACHE_VARIABLE = "WHISPER_HAILO_CACHE"


def cache_root() -> Path:
    """`$WHISPER_HAILO_CACHE`, or `whisper-hailo` in the user's cache folder."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whisper-hailo"


def read_json_object(path: Path, kind: type[ModelError] = ModelError) -> dict[str, Any]:
    """A JSON object from a file.

    Args:
        path: the file.
        kind: class of the error.

    Raises:
        ModelError: (or `kind`) unreadable, not JSON, nested without end, or no object.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise kind(f"{path} cannot be read ({error.strerror}); fetch the file again") from error
    except (ValueError, RecursionError) as error:
        raise kind(f"{path} is not readable JSON ({error}); fetch the file again") from error
    if not isinstance(raw, dict):
        raise kind(f"{path} holds a {type(raw).__name__}, expected a JSON object")
    return raw


def sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror or error})") from error


def ordinary_mode(mode: int) -> int:
    """Permissions that the user's umask leaves of `mode`; temporary files are made private."""
    mask = os.umask(0)  # it can only be read by setting it
    os.umask(mask)
    return mode & ~mask
