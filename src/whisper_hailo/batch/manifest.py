"""What is to be transcribed: lines of JSON, or all recordings of a folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, Final

from whisper_hailo.audio.suffixes import AUDIO_SUFFIXES
from whisper_hailo.batch.records import GROUP_ITEMS, Group, Item
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.files import json_lines, read_text
from whisper_hailo.core.folders import files_below
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.names import shown
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json

_NAMES: Final = ("audio", "audio_filepath", "path")
"""Of the field that names a recording; the second is NeMo's."""

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LONGEST_ID: Final = 1024
_LONGEST_PART: Final = 250
"""Bytes between two slashes: the system takes 255, and a format's name comes behind."""


def is_address(audio: str) -> bool:
    """Whether it is no path of this machine."""
    return _ADDRESS.match(audio) is not None


def read_source(source: Path) -> Iterator[Item]:
    """Items of a manifest, or of a folder of recordings in order of their names.

    Raises:
        AudioError: there is none, or nothing to transcribe in it.
        OptionError: a line of the manifest that is no item, or an id that two have.
    """
    items = _in_folder(source) if source.is_dir() else _in_manifest(source)
    seen: dict[str, int] = {}
    for number, item in enumerate(items, start=1):
        before = seen.setdefault(item.id, number)
        if before != number:
            raise OptionError(
                f"{shown(source)}: items {before} and {number} both have the id {shown(item.id)}; "
                "give each an id of its own"
            )
        yield item
    if not seen:
        raise AudioError(
            f"{shown(source)} names no recordings, expected a folder of them or lines such as "
            '{"audio": "a.flac"}; check the path'
        )


def _in_folder(folder: Path) -> Iterator[Item]:
    def refuse(path: Path, why: str) -> None:
        raise AudioError(f"{shown(path)} cannot be looked into ({why}); change its permissions")

    for path in files_below(folder, refuse):
        if path.suffix.lower() in AUDIO_SUFFIXES:
            yield Item(path.relative_to(folder).as_posix(), str(path.absolute()))


def _in_manifest(path: Path) -> Iterator[Item]:
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise AudioError(f"{shown(path)} does not exist; check the path") from None
    except (OSError, ValueError) as error:
        raise AudioError(
            f"{shown(path)} cannot be read ({error}), expected lines of JSON; check the path"
        ) from error
    for number, line in enumerate(json_lines(text), start=1):
        if line.strip():
            try:
                yield _item(parse_json(line.encode()), path.absolute().parent)
            except (MismatchError, OptionError) as error:
                raise OptionError(
                    f"{shown(path)}, line {number}: {error}; expected such as "
                    '{"audio": "a.flac", "id": "a", "language": "en"}'
                ) from None


def _item(raw: Any, folder: Path) -> Item:  # noqa: ANN401 - any JSON
    fields = dict(decode(dict[str, Any], raw))
    name = next((name for name in _NAMES if name in fields), "audio")
    if name not in fields:
        raise MismatchError("audio is missing")
    audio = decode(str, fields.pop(name), name)
    fields.pop("error", None)  # what a job could not do may be tried again as a job of its own
    language = decode(str | None, fields.pop("language", None), "language")  # type: ignore[arg-type]
    own = decode(str, fields.pop("id", audio), "id")
    return Item(
        _checked_id(own),
        audio if is_address(audio) else str(folder / audio),
        None if language is None else language_code(language),
        decode(dict[str, Any], fields.pop("metadata", {}), "metadata") | fields,
    )


def _checked_id(own: str) -> str:
    """Files are named by it."""
    path = PurePosixPath(own.rpartition("://")[2].lstrip("/"))
    name = str(path)  # of two spellings of one path the second is refused as the same
    try:
        lengths = [len(os.fsencode(part)) for part in path.parts]
    except UnicodeEncodeError:  # half a character that is none of a name either
        lengths = []
    fits = len(name) <= _LONGEST_ID and 0 < max(lengths, default=0) <= _LONGEST_PART
    if not fits or ".." in path.parts or "\0" in name:
        raise MismatchError(f"id is {shown(own)}, which no file can be called")
    return name


def written(items: Iterator[Item]) -> bytes:
    """Items as lines of JSON, the same for the same items."""
    lines = (json.dumps(asdict(item), sort_keys=True) for item in items)
    return "".join(f"{line}\n" for line in lines).encode()


def read_groups(data: bytes) -> Iterator[Group]:
    """The items that `written` wrote, in groups.

    Raises:
        OptionError: something else wrote it.
    """
    items: list[Item] = []
    index = 0
    try:
        for line in data.splitlines():
            items.append(decode(Item, parse_json(line)))
            if len(items) == GROUP_ITEMS:
                yield Group(index, tuple(items))
                items, index = [], index + 1
    except MismatchError as error:
        raise OptionError(
            f"items.jsonl of the job is damaged ({error}); begin the job in another folder"
        ) from error
    if items:
        yield Group(index, tuple(items))
