"""Lists of recordings, read line by line: JSON lines, CSV, and plain lists of paths.

A list may have ten million lines. It is never held in memory, and lines of shards that others
transcribe are only searched for a duration, not parsed.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Protocol, TypeAlias, cast

from whisper_hailo.audio import AUDIO_SUFFIXES
from whisper_hailo.batch.storage import (
    describe_error,
    is_address,
    join_address,
    redact,
)
from whisper_hailo.core.errors import AudioError, OptionError, display_path
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json

AUDIO_FIELDS: Final = ("audio", "audio_filepath", "path")
"""Names of the field with the recording; the second is NeMo's."""

LIST_SUFFIXES: Final = (".txt", ".lst", ".list")
CSV_SUFFIXES: Final = (".csv", ".tsv")
MANIFEST_SUFFIXES: Final = (".jsonl", ".json", ".ndjson", *CSV_SUFFIXES, *LIST_SUFFIXES)

SMALL_BYTES: Final = 4 << 20
"""Manifests up to this size are read before anything is transcribed: that takes 4 s, and its faults
should not show after hours."""

_MAX_ID: Final = 1024
_MAX_PART_BYTES: Final = 250
"""Between two slashes: the system takes 255, and a format's name follows."""

_DURATION: Final = re.compile(rb'"duration"\s*:\s*(\d+(?:\.\d+)?)')


@dataclass(frozen=True, slots=True)
class Item:
    """One recording of a job.

    Attributes:
        id: unique; names its results.
        audio: path or address.
        language: code; `None`: that of the options.
    """

    id: str
    audio: str
    language: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


Row: TypeAlias = tuple[int, Any]
"""A line's number and its content: bytes, or the fields of CSV."""


class Manifest(Protocol):
    """A list of recordings."""

    @property
    def source(self) -> str:
        """Its path or address."""

    def rows(self) -> Iterator[Row]:
        """Yield all rows, unparsed."""

    def duration_s(self, content: Any) -> float | None:  # noqa: ANN401 - of a row
        """Return the duration of a row's recording; `None` if the row does not say."""

    def parse(self, content: Any) -> Item:  # noqa: ANN401 - of a row
        """Return the recording of a row.

        Raises:
            MismatchError, OptionError: the row has none.
        """


def open_manifest(source: str) -> Manifest:
    """Return the list of a path or an address, by the ending of its name."""
    suffix = PurePosixPath(source).suffix.lower()
    if suffix in CSV_SUFFIXES:
        return CsvManifest(source, "\t" if suffix == ".tsv" else ",")
    if suffix in LIST_SUFFIXES:
        return PathList(source)
    return JsonLines(source)


def parse_rows(manifest: Manifest, rows: Iterable[Row]) -> tuple[Item, ...]:
    """Return the recordings of some rows.

    Raises:
        OptionError: a row cannot be parsed, or two of them have the same id.
    """
    items: dict[str, Item] = {}
    lines: dict[str, int] = {}
    label = display_path(redact(manifest.source))
    for number, content in rows:
        try:
            item = manifest.parse(content)
        except (MismatchError, OptionError) as error:
            raise OptionError(
                f"{label}, line {number}: {error}; expected such as "
                '{"audio": "a.flac", "id": "a", "language": "en"}'
            ) from None
        if item.id in items:
            raise OptionError(
                f"{label}: lines {lines[item.id]} and {number} have the same id "
                f"{display_path(item.id)}; give each a unique id"
            )
        items[item.id] = item
        lines[item.id] = number
    return tuple(items.values())


def is_small(manifest: Manifest) -> bool:
    """Return whether a manifest is read in a second, so that it can be checked before the work."""
    if is_address(manifest.source):
        return False
    path = Path(manifest.source)
    return path.is_file() and path.stat().st_size <= SMALL_BYTES


@dataclass(frozen=True, slots=True)
class JsonLines:
    """Lines such as `{"audio": "a.flac", "id": "a", "language": "en"}`."""

    source: str

    def rows(self) -> Iterator[Row]:
        return _number_lines(self.source)

    def duration_s(self, content: bytes) -> float | None:
        match = _DURATION.search(content)
        return None if match is None else float(match[1])

    def parse(self, content: bytes) -> Item:
        return make_item(parse_json(content), self.source)


@dataclass(frozen=True, slots=True)
class CsvManifest:
    """Rows below a heading; columns are named as the fields of JSON lines."""

    source: str
    delimiter: str = ","

    def rows(self) -> Iterator[Row]:
        lines = (line.decode("utf-8") for line in _read_lines(self.source))
        reader = csv.DictReader(lines, delimiter=self.delimiter)
        try:
            for fields in reader:
                yield reader.line_num, fields
        except (csv.Error, UnicodeDecodeError) as error:
            raise OptionError(
                f"{display_path(redact(self.source))}, line {reader.line_num}: {error}; expected "
                "CSV in UTF-8"
            ) from None

    def duration_s(self, content: dict[str, str]) -> float | None:
        try:
            return float(content["duration"])
        except (KeyError, TypeError, ValueError):
            return None

    def parse(self, content: dict[str | None, Any]) -> Item:
        if None in content:
            raise MismatchError("it has more fields than the header row")
        filled = {name: value for name, value in content.items() if value}
        return make_item(filled, self.source)


@dataclass(frozen=True, slots=True)
class PathList:
    """A path or an address a line."""

    source: str

    def rows(self) -> Iterator[Row]:
        return _number_lines(self.source)

    def duration_s(self, content: bytes) -> float | None:
        del content
        return None

    def parse(self, content: bytes) -> Item:
        return make_item({"audio": os.fsdecode(content.strip())}, self.source)


def _number_lines(source: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    for number, line in enumerate(_read_lines(source), start=1):
        if not line.isspace():
            yield number, line


def _read_lines(source: str) -> Iterator[bytes]:
    """Yield lines with their ends, without the byte order mark of the first."""
    label = display_path(redact(source))
    try:
        with _open_source(source) as file:
            first = file.readline().removeprefix(b"\xef\xbb\xbf")
            if first:
                yield first
            yield from file
    except FileNotFoundError:
        raise AudioError(f"{label} does not exist; check the path") from None
    except OSError as error:
        raise AudioError(
            f"{label} cannot be read ({describe_error(error)}), expected a list of recordings; "
            "check the path"
        ) from error


def _open_source(source: str) -> BinaryIO:
    if not is_address(source):
        return Path(source).open("rb")
    import fsspec

    return cast(BinaryIO, fsspec.open(source, "rb").open())


def make_item(raw: Any, source: str) -> Item:  # noqa: ANN401 - any JSON
    """Return the recording of a manifest's object; its path is relative to the manifest.

    Raises:
        MismatchError: a field is missing, or of another type.
        OptionError: the language is unknown.
    """
    fields = dict(decode(dict[str, Any], raw))
    name = next((name for name in AUDIO_FIELDS if name in fields), "audio")
    if name not in fields:
        raise MismatchError("audio is missing")
    audio = decode(str, fields.pop(name), name)
    # `failures/` of a job may be the manifest of another.
    fields.pop("error", None)
    language = decode(str | None, fields.pop("language", None), "language")  # type: ignore[arg-type]
    item_id = decode(str, fields.pop("id", default_id(audio)), "id")
    metadata = decode(dict[str, Any], fields.pop("metadata", {}), "metadata")
    return Item(
        id=check_id(item_id),
        audio=_join_audio(source, audio),
        language=None if language is None else language_code(language),
        metadata=metadata | fields,
    )


def _join_audio(source: str, audio: str) -> str:
    if is_address(audio) or audio.startswith("/"):
        return audio
    if is_address(source):
        return join_address(source.rpartition("/")[0], audio)
    return str(Path(source).absolute().parent / audio)


def default_id(audio: str) -> str:
    """Return the path of a recording without scheme and suffix, which names its results."""
    name = audio
    if is_address(audio):
        name = redact(audio).partition("://")[2]
    return strip_suffix(name)


def strip_suffix(name: str) -> str:
    """Return a name without a suffix of recordings."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in AUDIO_SUFFIXES else name


def check_id(item_id: str) -> str:
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
            f"id is {display_path(item_id)}, which is not a valid file name"
        )
    return name
