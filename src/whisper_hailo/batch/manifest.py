"""Recordings of a job, and the inputs that name them: lines of JSON, folders, and recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, Final

from whisper_hailo.audio import AUDIO_SUFFIXES
from whisper_hailo.core.errors import AudioError, OptionError, display_path
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.paths import list_files
from whisper_hailo.core.read_files import read_text, split_json_lines
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json

_NAMES: Final = ("audio", "audio_filepath", "path")
"""Of the field that names a recording; the second is NeMo's."""

_LONGEST_ID: Final = 1024
_LONGEST_PART: Final = 250
"""Bytes between two slashes: the system takes 255, and a format's name follows."""


@dataclass(frozen=True, slots=True)
class Item:
    """One recording of a job.

    Attributes:
        id: unique; names its results.
        language: code; `None` is that of the options.
    """

    id: str
    audio: str
    language: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recording that the job may have, or another one of its id.

    Attributes:
        folder: name of the folder that it was found in; empty where a manifest gives the id.
    """

    item: Item
    folder: str = ""

    def spellings(self) -> Iterator[Item]:
        """Yield the item under its id; if found in a folder, also as `talks/ID`, `talks-2/ID`."""
        yield self.item
        for number in count(1) if self.folder else ():
            folder = self.folder if number == 1 else f"{self.folder}-{number}"
            yield replace(self.item, id=f"{folder}/{self.item.id}")


def read_sources(sources: Sequence[Path]) -> Iterator[Candidate]:
    """Yield the recordings of manifests, of folders sorted by name, and single ones."""
    for source in sources:
        if source.is_dir():
            found = _in_folder(source)
        elif source.suffix.lower() in AUDIO_SUFFIXES and source.exists():
            path = source.absolute()
            found = iter([Candidate(Item(path.name, str(path)), path.parent.name)])
        else:
            found = _in_manifest(source)
        is_empty = True
        for candidate in found:
            is_empty = False
            yield candidate
        if is_empty:
            raise AudioError(
                f"{display_path(source)} names no recordings, expected a folder of them or lines "
                'such as {"audio": "a.flac"}; check the path'
            )


def _in_folder(folder: Path) -> Iterator[Candidate]:
    def refuse(path: Path, why: str) -> None:
        raise AudioError(
            f"{display_path(path)} cannot be looked into ({why}); change its permissions"
        )

    name = folder.absolute().name
    for path in list_files(folder, refuse):
        if path.suffix.lower() in AUDIO_SUFFIXES:
            yield Candidate(Item(path.relative_to(folder).as_posix(), str(path.absolute())), name)


def _in_manifest(path: Path) -> Iterator[Candidate]:
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise AudioError(f"{display_path(path)} does not exist; check the path") from None
    except (OSError, ValueError) as error:
        raise AudioError(
            f"{display_path(path)} cannot be read ({error}), expected lines of JSON; check the path"
        ) from error
    seen: dict[str, int] = {}
    for number, line in enumerate(split_json_lines(text), start=1):
        if not line.strip():
            continue
        try:
            item = _parse_item(parse_json(line.encode()), path.absolute().parent)
        except (MismatchError, OptionError) as error:
            raise OptionError(
                f"{display_path(path)}, line {number}: {error}; expected such as "
                '{"audio": "a.flac", "id": "a", "language": "en"}'
            ) from None
        before = seen.setdefault(item.id, number)
        if before != number:
            raise OptionError(
                f"{display_path(path)}: lines {before} and {number} both have the id "
                f"{display_path(item.id)}; give each an id of its own"
            )
        yield Candidate(item)


def _parse_item(raw: Any, folder: Path) -> Item:  # noqa: ANN401 - any JSON
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
        str(folder / audio),
        None if language is None else language_code(language),
        decode(dict[str, Any], fields.pop("metadata", {}), "metadata") | fields,
    )


def _checked_id(own: str) -> str:
    """Return an id that files can be named by."""
    path = PurePosixPath(own.lstrip("/"))
    name = str(path)  # of two spellings of one path the second is refused as the same
    try:
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    except UnicodeEncodeError:  # half a character that is none of a name either
        longest = 0
    fits = len(name) <= _LONGEST_ID and 0 < longest <= _LONGEST_PART
    if not fits or ".." in path.parts or "\0" in name:
        raise MismatchError(f"id is {display_path(own)}, which no file can be called")
    return name
