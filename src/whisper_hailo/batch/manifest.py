"""Items of a job, the tasks that they are split into, and the inputs that name them.

Inputs are lines of JSON, folders of recordings, and recordings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, Final

from whisper_hailo.audio import AUDIO_SUFFIXES
from whisper_hailo.batch.store import is_address
from whisper_hailo.core.errors import AudioError, OptionError, WhisperHailoError, display_path
from whisper_hailo.core.files import list_files, read_text, split_json_lines
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json
from whisper_hailo.core.types import FloatArray, Segment

GROUP_ITEMS: Final = 16
"""Items read in sequence. Any reader forms the same tasks of them, so that no result depends on the
number of workers or on earlier runs."""

PIECE_S: Final = 300.0
"""Most seconds of a piece, and of all pieces of a task together unless it is one piece."""

MOST_PIECES: Final = 32
"""Most short recordings that are decoded together."""


@dataclass(frozen=True, slots=True)
class Item:
    """One recording of the manifest.

    Attributes:
        id: unique; names its results.
        language: code; `None` is that of the options.
    """

    id: str
    audio: str
    language: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive items of the manifest.

    Attributes:
        index: its first item is number `index * GROUP_ITEMS`.
        items: at most `GROUP_ITEMS`.
    """

    index: int
    items: tuple[Item, ...]
    done: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item has no transcript: the error's class and message."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        if isinstance(error, WhisperHailoError):
            return cls(type(error).__name__, str(error))
        return cls("Internal", f"{type(error).__name__}: {error}"[:400])


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a recording.

    Attributes:
        start_s: start in the recording, in seconds.
        samples: `(n_samples,)` float32 16 kHz mono; `None` if it failed.
        failure: why it could not be read from here on.
    """

    item: int
    start_s: float
    samples: FloatArray | None = None
    language: str | None = None
    failure: Failure | None = None

    @property
    def n_samples(self) -> int:
        return 0 if self.samples is None else self.samples.size


@dataclass(frozen=True, slots=True)
class Task:
    """Pieces that are transcribed together, by any worker."""

    group: int
    index: int
    pieces: tuple[Piece, ...]
    is_last: bool


@dataclass(frozen=True, slots=True)
class PieceResult:
    """The result of a piece, without its audio."""

    item: int
    end_s: float
    language: str = ""
    segments: tuple[Segment, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task.

    Attributes:
        took_s: seconds of its worker.
        audio_s: seconds of its audio.
    """

    group: int
    index: int
    is_last: bool
    results: tuple[PieceResult, ...]
    took_s: float = 0.0
    audio_s: float = 0.0


_NAMES: Final = ("audio", "audio_filepath", "path")
"""Of the field that names a recording; the second is NeMo's."""

_LONGEST_ID: Final = 1024
_LONGEST_PART: Final = 250
"""Bytes between two slashes: the system takes 255, and a format's name follows."""


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
        if self.folder:
            for number in count(1):
                folder = self.folder if number == 1 else f"{self.folder}-{number}"
                yield replace(self.item, id=f"{folder}/{self.item.id}")


def read_sources(sources: Sequence[Path]) -> Iterator[Candidate]:
    """Yield the recordings of manifests, of folders sorted by name, and single ones."""
    for source in sources:
        is_empty = True
        for candidate in _read_source(source):
            is_empty = False
            yield candidate
        if is_empty:
            raise AudioError(
                f"{display_path(source)} names no recordings, expected a folder of them or lines "
                "such as "
                '{"audio": "a.flac"}; check the path'
            )


def _read_source(source: Path) -> Iterator[Candidate]:
    if source.is_dir():
        return _in_folder(source)
    if source.suffix.lower() in AUDIO_SUFFIXES and source.exists():
        path = source.absolute()
        return iter([Candidate(Item(path.name, str(path)), path.parent.name)])
    return _with_own_ids(source)


def _with_own_ids(path: Path) -> Iterator[Candidate]:
    seen: dict[str, int] = {}
    for number, item in enumerate(_in_manifest(path), start=1):
        before = seen.setdefault(item.id, number)
        if before != number:
            raise OptionError(
                f"{display_path(path)}: items {before} and {number} both have the id "
                f"{display_path(item.id)}; give each an id of its own"
            )
        yield Candidate(item)


def _in_folder(folder: Path) -> Iterator[Candidate]:
    def refuse(path: Path, why: str) -> None:
        raise AudioError(
            f"{display_path(path)} cannot be looked into ({why}); change its permissions"
        )

    name = folder.absolute().name
    for path in list_files(folder, refuse):
        if path.suffix.lower() in AUDIO_SUFFIXES:
            yield Candidate(Item(path.relative_to(folder).as_posix(), str(path.absolute())), name)


def _in_manifest(path: Path) -> Iterator[Item]:
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise AudioError(f"{display_path(path)} does not exist; check the path") from None
    except (OSError, ValueError) as error:
        raise AudioError(
            f"{display_path(path)} cannot be read ({error}), expected lines of JSON; check the path"
        ) from error
    for number, line in enumerate(split_json_lines(text), start=1):
        if line.strip():
            try:
                yield _item(parse_json(line.encode()), path.absolute().parent)
            except (MismatchError, OptionError) as error:
                raise OptionError(
                    f"{display_path(path)}, line {number}: {error}; expected such as "
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
    """Return an id that files can be named by."""
    path = PurePosixPath(own.rpartition("://")[2].lstrip("/"))
    name = str(path)  # of two spellings of one path the second is refused as the same
    try:
        lengths = [len(os.fsencode(part)) for part in path.parts]
    except UnicodeEncodeError:  # half a character that is none of a name either
        lengths = []
    fits = len(name) <= _LONGEST_ID and 0 < max(lengths, default=0) <= _LONGEST_PART
    if not fits or ".." in path.parts or "\0" in name:
        raise MismatchError(f"id is {display_path(own)}, which no file can be called")
    return name
