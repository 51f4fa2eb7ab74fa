"""Checks that the files of a model directory are those that `model.json` lists."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import ModelError, OutputError, display_path
from whisper_hailo.core.paths import cache_root, resolve_within
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import SPEC_FILE, ModelSpec
from whisper_hailo.core.strict_json import read_json_object

logger = logging.getLogger(__name__)

NOTES_FILE: Final = "checked.json"
MOST_NOTES: Final = 256
"""The oldest go: the file is read at every start, and must not grow for ever."""


def has_content(path: Path, expected: str) -> bool:
    """Return whether a file has a SHA-256, which is noted until the file changes."""
    if _noted_sha256(path) == expected:
        return True
    return _hash_and_note(path) == expected


def content_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which is noted until the file changes."""
    return _noted_sha256(path) or _hash_and_note(path)


def _noted_sha256(path: Path) -> str | None:
    """Return the noted SHA-256 of a file that has not changed since; `None` without a note."""
    *state, noted = _read_notes().get(os.path.realpath(path)) or [None]
    return noted if state == _file_state(path) else None


def _hash_and_note(path: Path) -> str:
    state = _file_state(path)  # before it is read: a later change shows
    actual = sha256(path)
    _write_note(os.path.realpath(path), [*state, actual])
    return actual


def _file_state(path: Path) -> list[int]:
    """Return what changes with a file: size, times of change in ns, inode."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _write_note(key: str, note: list[Any]) -> None:
    # Again: other processes may have written while this one hashed.
    notes = _read_notes()
    notes.pop(key, None)  # the latest is last
    notes[key] = note
    latest = dict(list(notes.items())[-MOST_NOTES:])
    try:
        write_file(cache_root() / NOTES_FILE, json.dumps(latest))
    except OutputError as error:
        logger.debug(
            "hashes cannot be cached, so files are read at every start (%s)", error
        )


def _read_notes() -> dict[str, Any]:
    """Return the notes: path to size, times of change in ns, inode and SHA-256, the latest last.

    A missing or damaged file has none.
    """
    try:
        return read_json_object(cache_root() / NOTES_FILE)
    except ModelError:
        return {}


_AGAIN = "copy the model directory again or convert the checkpoint again"


def check_all(directory: Path, spec: ModelSpec) -> None:
    """Check every file that `model.json` lists."""
    for name in spec.files:
        model_file(directory, spec, name)


def model_file(directory: Path, spec: ModelSpec, name: str) -> Path:
    """Return the path of a file that `model.json` lists, checked, with the weights beside a graph.

    Raises:
        ModelError: it is not listed, missing or damaged.
    """
    weights = f"{name}.data"
    if weights in spec.files:
        model_file(directory, spec, weights)
    record = spec.record(name)
    path = resolve_within(directory, name)
    if not path.is_file():
        raise ModelError(f"{display_path(directory)} lacks {name}; {_AGAIN}")
    size = path.stat().st_size
    if size != record.bytes:
        raise ModelError(
            f"{display_path(path)} has {size} bytes, {SPEC_FILE} says {record.bytes}; {_AGAIN}"
        )
    if not has_content(path, record.sha256):
        raise ModelError(
            f"{display_path(path)} is damaged: its content does not match {SPEC_FILE} (SHA-256 "
            f"{record.sha256[:12]}...); {_AGAIN}"
        )
    return path
