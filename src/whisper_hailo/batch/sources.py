"""The inputs of a job: one manifest, or folders, files, patterns and manifests that are listed.

A list is written to the job's folder, `manifest.jsonl`. Recordings keep their place and their name
in it, whatever is added later; one manifest is read where it is.
"""

from __future__ import annotations

import glob
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from whisper_hailo.audio import AUDIO_SUFFIXES
from whisper_hailo.batch.manifest import (
    MANIFEST_SUFFIXES,
    Item,
    open_manifest,
    parse_rows,
    strip_suffix,
)
from whisper_hailo.batch.storage import (
    Storage,
    describe_error,
    is_address,
    open_file_system,
    redact,
)
from whisper_hailo.core.errors import AudioError, OptionError, display_path
from whisper_hailo.core.paths import candidate_names, is_hidden, list_files

logger = logging.getLogger(__name__)

LISTED: Final = "manifest.jsonl"
"""Name of the list in the job's folder."""

_PATTERN: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class FoundRecording:
    """A recording that was found, not named by a manifest.

    Attributes:
        root: folder that was named, or that of the file that was.
    """

    audio: str
    root: str

    @property
    def name(self) -> str:
        """Its path below the root."""
        return self.audio.removeprefix(self.root).lstrip("/")

    def names(self, owner: str) -> Iterator[str]:
        """Yield names of its results, best first, as those of `transcribe`.

        `owner` is the recording that has the first one, empty if nothing has.
        """
        plain = strip_suffix(self.name)
        return candidate_names(
            plain,
            self.name.removeprefix(plain),
            PurePosixPath(self.root).name,
            is_taken_by_neighbour=owner.startswith(f"{self.root}/"),
        )


InputKind: TypeAlias = Literal["folder", "pattern", "recording", "manifest"]


def classify_input(word: str) -> InputKind:
    """Return what an input names, a path or an address.

    Addresses are not asked: without an ending of recordings or manifests they are folders.
    """
    if is_address(word):
        # What a web server is asked for with a `?` is no pattern.
        is_pattern = bool(_PATTERN & set(word)) and not word.startswith("http")
        name = word.partition("?")[0]
        is_folder = not _is_recording(name) and not _is_manifest(name)
    else:
        is_pattern = bool(_PATTERN & set(word)) and not os.path.lexists(word)
        name = word
        is_folder = os.path.isdir(word)
    if is_pattern:
        return "pattern"
    if is_folder:
        return "folder"
    return "recording" if _is_recording(name) else "manifest"


def only_manifest(words: Sequence[str]) -> str | None:
    """Return the manifest that is the only input, by its path or address; `None` if it is not."""
    if len(words) != 1 or classify_input(words[0]) != "manifest":
        return None
    (word,) = words
    return word if is_address(word) else str(Path(word).absolute())


def list_sources(
    words: Sequence[str],
    storage: Storage,
    is_still: Callable[[str], bool] | None = None,
) -> int:
    """Add the recordings of some inputs to the job's list; return how many were added.

    Args:
        words: folders, recordings, patterns and manifests; paths or addresses.
        storage: the job's folder.
        is_still: returns whether a file is complete; others are left for the next time, and an
            input may be empty.

    Raises:
        AudioError: an input names no recordings.
        OptionError: an id is that of another recording.
    """
    items = ItemList(storage)
    for word in words:
        is_empty = True
        for found in find_recordings(word):
            is_empty = False
            if isinstance(found, Item):
                items.add_named(found)
            elif is_still is None or is_still(found.audio):
                items.add_found(found)
        if is_empty and is_still is None:
            raise AudioError(
                f"{display_path(redact(word))} lists no recordings, expected a folder of them or "
                'lines such as {"audio": "a.flac"}; check the path'
            )
    return items.write()


class ItemList:
    """The list in a job's folder, with what is added to it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        content = storage.read(LISTED)
        self._is_new = content is None
        self._content = content or b""
        self._audio_by_id: dict[str, str] = {}
        self._audio: set[str] = set()
        self._lines: list[str] = []
        for line in self._content.splitlines():
            record = json.loads(line)
            self._keep(record["id"], record["audio"])

    def _keep(self, item_id: str, audio: str) -> None:
        self._audio_by_id[item_id] = audio
        self._audio.add(audio)

    def add_named(self, item: Item) -> None:
        """Add the recording of a manifest, under its id."""
        audio = self._audio_by_id.get(item.id)
        if audio is None:
            self._add(item)
        elif audio != item.audio:
            raise OptionError(
                f"{self._storage.label} has another recording with the id {display_path(item.id)}; "
                "give it a unique id"
            )

    def add_found(self, found: FoundRecording) -> None:
        """Add a recording that was found, under the first name that is free."""
        if found.audio in self._audio:  # it may have been found through another folder
            return
        plain = strip_suffix(found.name)
        names = found.names(self._audio_by_id.get(plain, ""))
        free = next(name for name in names if name not in self._audio_by_id)
        self._add(Item(free, found.audio))

    def _add(self, item: Item) -> None:
        self._keep(item.id, item.audio)
        fields = {name: value for name, value in asdict(item).items() if value}
        self._lines.append(json.dumps(fields) + "\n")

    def write(self) -> int:
        """Write the list, if it has grown; return by how many recordings."""
        if self._lines or self._is_new:
            self._storage.write(LISTED, self._content.decode() + "".join(self._lines))
        return len(self._lines)


def find_recordings(word: str) -> Iterator[Item | FoundRecording]:
    """Yield the recordings of a folder, a pattern or a manifest, sorted by name, or the one named.

    Raises:
        AudioError: a folder or a list cannot be read.
    """
    kind = classify_input(word)
    if is_address(word):
        yield from _find_at_address(word, kind)
    elif kind == "folder":
        yield from _find_in_folder(Path(word))
    elif kind == "pattern":
        root = str(Path(word[: _pattern_start(word)]).absolute())
        for name in sorted(glob.glob(word, recursive=True)):
            if _is_recording(name):
                yield FoundRecording(str(Path(name).absolute()), root)
    elif kind == "recording":
        path = Path(word).absolute()
        if not os.path.lexists(path):
            raise AudioError(f"{display_path(word)} does not exist; check the path")
        yield FoundRecording(str(path), str(path.parent))
    else:
        yield from _read_items(str(Path(word).absolute()))


def _find_in_folder(folder: Path) -> Iterator[FoundRecording]:
    root = str(folder.absolute())
    n_hidden = 0
    for path in list_files(folder, _refuse_unreadable):
        if path.suffix.lower() not in AUDIO_SUFFIXES:
            continue
        if is_hidden(path, folder):
            n_hidden += 1
            continue
        yield FoundRecording(str(path.absolute()), root)
    if n_hidden:
        logger.info("%s: hidden files are skipped: %d", display_path(folder), n_hidden)


def _find_at_address(word: str, kind: InputKind) -> Iterator[Item | FoundRecording]:
    if kind == "manifest":
        yield from _read_items(word)
        return
    if kind == "recording":
        yield FoundRecording(word, word.partition("?")[0].rpartition("/")[0])
        return
    file_system, path = open_file_system(word)
    try:
        found = file_system.glob(path) if kind == "pattern" else file_system.find(path)
    except Exception as error:  # libraries of fsspec raise many kinds
        raise AudioError(
            f"{redact(word)} cannot be listed ({describe_error(error)}); check the address and "
            "its permissions"
        ) from error
    _, root_path = open_file_system(word[: _pattern_start(word)])
    root = file_system.unstrip_protocol(root_path).rstrip("/")
    for name in sorted(found):
        if _is_recording(name):
            yield FoundRecording(file_system.unstrip_protocol(name), root)


def _pattern_start(word: str) -> int:
    """Return the length of the folder before the first part with a `*`."""
    positions = [word.find(letter) for letter in _PATTERN if letter in word]
    return word.rfind("/", 0, min(positions)) + 1 if positions else len(word)


def _is_recording(name: str) -> bool:
    return strip_suffix(name) != name


def _is_manifest(name: str) -> bool:
    return name.lower().endswith(MANIFEST_SUFFIXES)


def _read_items(source: str) -> Iterator[Item]:
    manifest = open_manifest(source)
    yield from parse_rows(manifest, manifest.rows())


def _refuse_unreadable(path: Path, reason: str) -> None:
    raise AudioError(
        f"{display_path(path)} cannot be read ({reason}); change its permissions"
    )
