"""Recordings of a job, and the inputs that name them: lines of JSON, folders, and recordings."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, Final

from whisper_hailo.audio import AUDIO_SUFFIXES
from whisper_hailo.core.errors import AudioError, OptionError, display_path
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.paths import is_hidden, list_files
from whisper_hailo.core.read_files import read_text, split_json_lines
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json

logger = logging.getLogger(__name__)

_AUDIO_FIELDS: Final = ("audio", "audio_filepath", "path")
"""Names of the field with the recording; the second is NeMo's."""

_MAX_ID: Final = 1024
_MAX_PART_BYTES: Final = 250
"""Between two slashes: the system takes 255, and a format's name follows."""


@dataclass(frozen=True, slots=True)
class Item:
    """One recording of a job.

    Attributes:
        id: unique; names its results.
        language: code; `None`: that of the options.
    """

    id: str
    audio: str
    language: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recording that the job may have already, or another one with its id.

    Attributes:
        folder: name of the folder that it was found in; empty where a manifest gives the id.
    """

    item: Item
    folder: str = ""

    def spellings(self) -> Iterator[Item]:
        """Yield the item under its id; if found in a folder, also as `talks/ID`, `talks-2/ID`."""
        yield self.item
        if not self.folder:
            return
        yield replace(self.item, id=f"{self.folder}/{self.item.id}")
        for number in count(2):
            yield replace(self.item, id=f"{self.folder}-{number}/{self.item.id}")


def read_sources(sources: Sequence[Path]) -> Iterator[Candidate]:
    """Yield the recordings of manifests, of folders sorted by name, and single ones."""
    for source in sources:
        if source.is_dir():
            candidates = _read_folder(source)
        elif source.suffix.lower() in AUDIO_SUFFIXES and source.exists():
            path = source.absolute()
            candidates = iter([Candidate(Item(path.name, str(path)), path.parent.name)])
        else:
            candidates = _read_manifest(source)
        is_empty = True
        for candidate in candidates:
            is_empty = False
            yield candidate
        if is_empty:
            raise AudioError(
                f"{display_path(source)} names no recordings, expected a folder of them or lines "
                'such as {"audio": "a.flac"}; check the path'
            )


def _read_folder(folder: Path) -> Iterator[Candidate]:
    def refuse(path: Path, reason: str) -> None:
        raise AudioError(
            f"{display_path(path)} cannot be looked into ({reason}); change its permissions"
        )

    name = folder.absolute().name
    n_hidden = 0
    for path in list_files(folder, refuse):
        if path.suffix.lower() not in AUDIO_SUFFIXES:
            continue
        if is_hidden(path, folder):
            n_hidden += 1
            continue
        relative = path.relative_to(folder).as_posix()
        yield Candidate(Item(relative, str(path.absolute())), name)
    if n_hidden:
        logger.info("%s: hidden files are skipped: %d", display_path(folder), n_hidden)


def _read_manifest(path: Path) -> Iterator[Candidate]:
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise AudioError(
            f"{display_path(path)} does not exist; check the path"
        ) from None
    except (OSError, ValueError) as error:
        raise AudioError(
            f"{display_path(path)} cannot be read ({error}), expected lines of JSON; check the path"
        ) from error
    lines_by_id: dict[str, int] = {}
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
        if item.id in lines_by_id:
            raise OptionError(
                f"{display_path(path)}: lines {lines_by_id[item.id]} and {number} both have the id "
                f"{display_path(item.id)}; give each an id of its own"
            )
        lines_by_id[item.id] = number
        yield Candidate(item)


def _parse_item(raw: Any, folder: Path) -> Item:  # noqa: ANN401 - any JSON
    fields = dict(decode(dict[str, Any], raw))
    name = next((name for name in _AUDIO_FIELDS if name in fields), "audio")
    if name not in fields:
        raise MismatchError("audio is missing")
    audio = decode(str, fields.pop(name), name)
    fields.pop(
        "error", None
    )  # `failures.jsonl` of a job may be the manifest of another
    language = decode(str | None, fields.pop("language", None), "language")  # type: ignore[arg-type]
    item_id = decode(str, fields.pop("id", audio), "id")
    metadata = decode(dict[str, Any], fields.pop("metadata", {}), "metadata")
    return Item(
        id=_check_id(item_id),
        audio=str(folder / audio),
        language=None if language is None else language_code(language),
        metadata=metadata | fields,
    )


def _check_id(item_id: str) -> str:
    """Return an id as the name of a file below the job's folder.

    Raises:
        MismatchError: no file can have the name.
    """
    path = PurePosixPath(item_id.lstrip("/"))
    name = str(path)  # of two spellings of one path the second is refused as the same
    try:
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    except UnicodeEncodeError:  # half a character, which no name can hold
        longest = 0
    fits = len(name) <= _MAX_ID and 0 < longest <= _MAX_PART_BYTES
    if not fits or ".." in path.parts or "\0" in name:
        raise MismatchError(
            f"id is {display_path(item_id)}, which no file can be called"
        )
    return name
