"""Files by their hash, each read once: a look at size, times and inode tells that it is the same.

Noted in one small file in the cache; without a cache that can be written, files are read each time.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import cache_root, replace_file, sha256
from whisper_hailo.core.names import shown
from whisper_hailo.core.strict_json import read_json_object

logger = logging.getLogger(__name__)

NOTES_FILE: Final = "checked.json"
MOST_NOTES: Final = 256
"""The oldest go: the file is read at every start, and does not grow with the models of a life."""


def has_content(path: Path, expected: str) -> bool:
    """Whether a file has a SHA-256.

    Args:
        path: the file.
        expected: in hexadecimal.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ModelError(f"cannot read {shown(path)} ({error.strerror or error})") from error
    state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    notes, key = _notes(), os.path.realpath(path)
    if notes.get(key) == [*state, expected]:
        return True
    found = sha256(path)
    notes = _notes()  # again: other processes note, too
    notes.pop(key, None)
    _keep({**notes, key: [*state, found]})
    return found == expected


def _notes() -> dict[str, Any]:
    """What was noted before, the latest last; nothing where there is none, or it is damaged.

    By path a size, the time of its last change in ns, of its inode's, an inode, a SHA-256. Only
    one of them is wanted at a time, and equal to nothing if it is damaged: they are not decoded.
    """
    try:
        return read_json_object(cache_root() / NOTES_FILE)
    except ModelError:
        return {}


def _keep(notes: dict[str, Any]) -> None:
    latest = dict(list(notes.items())[-MOST_NOTES:])
    try:
        replace_file(cache_root() / NOTES_FILE, json.dumps(latest).encode())
    except OSError as error:
        logger.debug("hashes are not noted, files are read at every start (%s)", error)
