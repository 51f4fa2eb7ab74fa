"""What the user named: files, folders of them, standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

from whisper_hailo.audio import AUDIO_SUFFIXES, MEDIA_SUFFIXES
from whisper_hailo.audio.files import find_fault
from whisper_hailo.core.errors import AudioError, OptionError, WhisperHailoError, display_path
from whisper_hailo.core.overwrite import FileId, file_id
from whisper_hailo.core.paths import expand_user, list_files
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
        """Return the identity of the file, whatever its name; `None` if there is none."""
        return None if self.fault else file_id(sys.stdin if self.path is None else self.path)

    def source(self) -> Path | BinaryIO:
        """Return what to open."""
        if self.fault is not None:
            raise self.fault
        return sys.stdin.buffer if self.path is None else self.path


def find_inputs(words: Sequence[str]) -> list[Input]:
    """Return files as named, and all recordings below folders, sorted by name.

    Recordings of one name get distinct outputs, and keep those of earlier runs. In one folder the
    recording that came first has the plain name (`demo.txt`), and others keep their suffix
    (`demo.mp3.txt`). Of two folders the first named has it, and recordings of others have their
    folder before it (`more/demo.txt`).
    """
    found = [one for word in words for one in _expand_argument(word)]
    places = {root: place for place, root in enumerate(dict.fromkeys(root for root, _ in found))}
    taken: dict[Path, tuple[Path, Path | None]] = {}
    stems: dict[tuple[Path, Path | None], Path] = {}
    for root, entry in sorted(found, key=lambda one: (places[one[0]], _age_key(one[1].path))):
        if entry.fault is None:
            own = (root, entry.path)
            names = _candidate_stems(root, entry, taken)
            stems[own] = next(stem for stem in names if taken.setdefault(stem, own) == own)
    return [replace(entry, stem=stems.get((root, entry.path), entry.stem)) for root, entry in found]


def _candidate_stems(
    root: Path, entry: Input, taken: Mapping[Path, tuple[Path, Path | None]]
) -> Iterator[Path]:
    """Yield candidate names of a recording's outputs, best first."""
    plain = entry.stem
    whole = plain.with_name(plain.name + ("" if entry.path is None else entry.path.suffix))
    yield plain
    if taken[plain][0] == root:
        yield whole
    for number in count(1):
        folder = Path(root.absolute().name + (f"-{number}" if number > 1 else ""))
        yield folder / plain
        yield folder / whole


def _age_key(path: Path | None) -> tuple[int, int]:
    """Sort by the time of the last copy or move, then by kind."""
    try:
        changed_ns = 0 if path is None else os.stat(path).st_ctime_ns
    except (OSError, ValueError):
        changed_ns = 0
    suffix = "" if path is None else path.suffix.lower()
    kind = AUDIO_SUFFIXES.index(suffix) if suffix in AUDIO_SUFFIXES else len(AUDIO_SUFFIXES)
    return changed_ns, kind


def _expand_argument(word: str) -> Iterator[tuple[Path, Input]]:
    """Yield the inputs of an argument, with the folder that each was found in."""
    word = expand_user(word)
    path = Path(word)
    if word == STDIN:
        closed = AudioError("standard input is closed; pipe a recording into it, or name a file")
        yield Path(), Input("stdin", None, Path("stdin"), closed if sys.stdin is None else None)
    elif os.path.isdir(word):  # a `Path` fails on names that are too long
        yield from ((path, entry) for entry in _find_recordings(path))
    else:
        fault = None if word else _input_error(word, "is no file name")
        yield path.parent, Input(word, path, Path(path.stem), fault)


def _find_recordings(folder: Path) -> Iterator[Input]:
    """Yield the folders that cannot be read, and all recordings below a folder."""
    faults: list[Input] = []

    def note(path: Path, why: str) -> None:
        what = f"{why}, expected a folder of recordings"
        faults.append(Input(str(path), path, Path(path.stem), _input_error(str(path), what)))

    found = list_files(folder, lambda path, why: note(path, f"cannot be looked into ({why})"))
    paths = [path for path in found if path.suffix.lower() in AUDIO_SUFFIXES]
    if not paths and not faults:
        note(folder, "holds no audio files")
    yield from faults
    for path in paths:
        yield Input(str(path), path, path.relative_to(folder).with_suffix(""))


def looked_at(entry: Input) -> Input:
    """Return an input with its fault, as far as it is found without a model."""
    if entry.fault is not None or entry.path is None:
        return entry
    name = display_path(entry.name)
    fault: WhisperHailoError | None
    if _ADDRESS.match(entry.name) and not os.path.exists(entry.name):
        fault = OptionError(
            f"{name} is an address, expected a file; fetch it first (curl -LO {name}), or caption "
            f"it as it comes: whisper-hailo caption {name}"
        )
    elif entry.path.suffix.lower() in MEDIA_SUFFIXES and find_spec("av") is None:
        needed = f"needs PyAV to be read, which is not installed: {install_command('media')}"
        fault = AudioError(f"{name} {needed}")
    else:
        fault = find_fault(entry.path, name)
    return replace(entry, fault=fault)


def _input_error(name: str, what: str) -> AudioError:
    return AudioError(f"{display_path(name)} {what}; check the name and its permissions")
