"""What the user named: files, folders of them, standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from whisper_hailo.audio import AUDIO_SUFFIXES, MEDIA_SUFFIXES
from whisper_hailo.audio.files import find_fault
from whisper_hailo.cli.messages import print_note
from whisper_hailo.core.errors import (
    AudioError,
    OptionError,
    WhisperHailoError,
    display_path,
)
from whisper_hailo.core.overwrite import FileId, file_id
from whisper_hailo.core.paths import (
    candidate_names,
    expand_user,
    is_hidden,
    list_files,
)
from whisper_hailo.core.process import install_command

STDIN: Final = "-"
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Input:
    """One recording, or why it was not found.

    Attributes:
        path: the file; `None` for standard input.
        stem: path of its results below the output folder, without a suffix.
    """

    name: str
    path: Path | None
    stem: Path
    fault: WhisperHailoError | None = None

    @property
    def id(self) -> FileId | None:
        """The identity of the file, whatever its name; `None` if there is none."""
        if self.fault is not None:
            return None
        return file_id(sys.stdin if self.path is None else self.path)

    def source(self) -> Path | BinaryIO:
        """Return what to open; raises the fault of an input that was not found."""
        if self.fault is not None:
            raise self.fault
        return sys.stdin.buffer if self.path is None else self.path


_InputKey: TypeAlias = tuple[Path, Path | None]


@dataclass(frozen=True, slots=True)
class _FoundInput:
    """An input with the folder that was named, or the folder of the file that was."""

    root: Path
    entry: Input

    @property
    def key(self) -> _InputKey:
        """What makes it the same recording, found twice."""
        return self.root, self.entry.path


def find_inputs(words: Sequence[str]) -> list[Input]:
    """Return files as named, and all recordings below folders, sorted by name.

    Recordings of one name get distinct outputs, and keep those of earlier runs. In one folder the
    recording that came first has the plain name (`demo.txt`), and others keep their suffix
    (`demo.mp3.txt`). Of two folders the first named has it, and recordings of others have their
    folder before it (`more/demo.txt`).
    """
    items: list[_FoundInput] = []
    for word in words:
        items += _expand_argument(word)
    stems = _assign_stems(items)
    inputs = []
    for item in items:
        stem = stems.get(item.key, item.entry.stem)
        inputs.append(replace(item.entry, stem=stem))
    return inputs


def _assign_stems(items: Sequence[_FoundInput]) -> dict[_InputKey, Path]:
    """Return a stem for each recording without a fault that no other recording has."""
    roots = dict.fromkeys(item.root for item in items)
    ranks = {root: rank for rank, root in enumerate(roots)}
    owners: dict[Path, _InputKey] = {}
    stems: dict[_InputKey, Path] = {}

    # Those of the first folder choose first, and in a folder the oldest: a recording that is added
    # later must not take over the results of another.
    def rank(item: _FoundInput) -> tuple[int, tuple[int, int]]:
        return ranks[item.root], _age_key(item.entry.path)

    for item in sorted(items, key=rank):
        if item.entry.fault is None:
            stem = _choose_stem(item, owners)
            owners[stem] = item.key
            stems[item.key] = stem
    return stems


def _choose_stem(item: _FoundInput, owners: Mapping[Path, _InputKey]) -> Path:
    """Return the best stem that is free, or the recording's own already."""
    plain = item.entry.stem
    owner = owners.get(plain)
    if owner in (None, item.key):
        return plain  # before the folder's path is asked for: the working directory may be gone
    candidates = candidate_names(
        plain.as_posix(),
        "" if item.entry.path is None else item.entry.path.suffix,
        item.root.absolute().name,
        is_taken_by_neighbour=owner[0] == item.root,
    )
    stems = map(Path, candidates)
    return next(stem for stem in stems if owners.get(stem, item.key) == item.key)


def _age_key(path: Path | None) -> tuple[int, int]:
    """Sort by the time of the last copy or move, then by kind."""
    changed_ns = 0
    if path is not None:
        # No such file, or no name that a file can have.
        with suppress(OSError, ValueError):
            changed_ns = os.stat(path).st_ctime_ns
    suffix = "" if path is None else path.suffix.lower()
    kind = (
        AUDIO_SUFFIXES.index(suffix)
        if suffix in AUDIO_SUFFIXES
        else len(AUDIO_SUFFIXES)
    )
    return changed_ns, kind


def _expand_argument(word: str) -> Iterator[_FoundInput]:
    """Yield the inputs that an argument names."""
    word = expand_user(word)
    path = Path(word)
    if word == STDIN:
        fault: AudioError | None = None
        if sys.stdin is None:
            fault = AudioError(
                "standard input is closed; pipe a recording into it, or name a file"
            )
        yield _FoundInput(Path(), Input("stdin", None, Path("stdin"), fault))
    elif os.path.isdir(word):  # a `Path` fails on names that are too long
        for entry in _find_recordings(path):
            yield _FoundInput(path, entry)
    else:
        fault = None if word else _input_error(word, "is not a valid file name")
        yield _FoundInput(path.parent, Input(word, path, Path(path.stem), fault))


def _find_recordings(folder: Path) -> Iterator[Input]:
    """Yield the folders that cannot be read, and all recordings below a folder."""
    faults: list[Input] = []

    def add_fault(path: Path, reason: str) -> None:
        error = _input_error(str(path), f"{reason}, expected a folder of recordings")
        faults.append(Input(str(path), path, Path(path.stem), error))

    def add_unreadable(path: Path, reason: str) -> None:
        add_fault(path, f"cannot be read ({reason})")

    recordings = []
    n_hidden = 0
    for path in list_files(folder, add_unreadable):
        if path.suffix.lower() not in AUDIO_SUFFIXES:
            continue
        if is_hidden(path, folder):
            n_hidden += 1
        else:
            recordings.append(path)
    if n_hidden:
        print_note(f"{display_path(folder)}: {_describe_hidden(n_hidden)}")
    if not recordings and not faults:
        add_fault(folder, "holds no audio files")
    yield from faults
    for path in recordings:
        yield Input(str(path), path, path.relative_to(folder).with_suffix(""))


def _describe_hidden(count: int) -> str:
    """Return what is said of hidden files of a folder."""
    return (
        "1 hidden file is skipped"
        if count == 1
        else f"{count} hidden files are skipped"
    )


def check_input(entry: Input) -> Input:
    """Return an input with its fault, as far as one is found without a model."""
    if entry.fault is not None or entry.path is None:
        return entry
    name = display_path(entry.name)
    fault: WhisperHailoError | None
    if _ADDRESS.match(entry.name) and not os.path.exists(entry.name):
        fault = OptionError(
            f"{name} is an address, expected a file; download it first (curl -LO {name}), or "
            f"caption it live: whisper-hailo caption {name}"
        )
    elif entry.path.suffix.lower() in MEDIA_SUFFIXES and find_spec("av") is None:
        fault = AudioError(
            f"{name} needs PyAV, which is not installed: {install_command('media')}"
        )
    else:
        fault = find_fault(entry.path, name)
    return replace(entry, fault=fault)


def _input_error(name: str, reason: str) -> AudioError:
    return AudioError(
        f"{display_path(name)} {reason}; check the name and its permissions"
    )
