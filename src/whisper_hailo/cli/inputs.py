"""What the user named: files, folders of them, standard input."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from whisper_hailo.core.errors import AudioError

STDIN: Final = "-"

AUDIO_SUFFIXES: Final = frozenset(
    ".wav .flac .mp3 .ogg .oga .opus .m4a .mp4 .mkv .webm .aac .aif .aiff .caf .wma .au".split()  # noqa: SIM905
)
"""What is taken from a folder; a file that is named is taken whatever it is called."""


@dataclass(frozen=True, slots=True)
class Input:
    """One recording.

    Attributes:
        name: what to call it.
        path: the file; `None` for standard input.
        stem: place of its results below the output folder, without a suffix.
    """

    name: str
    path: Path | None
    stem: Path

    def source(self) -> Path | BinaryIO:
        """What to open.

        Raises:
            AudioError: standard input is closed or cannot be kept.
        """
        return _kept_stdin() if self.path is None else self.path


def find_inputs(words: Sequence[Path]) -> list[Input]:
    """Files as named; folders with all recordings below them, in order of their names.

    Raises:
        AudioError: a folder without recordings.
    """
    return [entry for word in words for entry in _expand(word)]


def _expand(word: Path) -> Iterator[Input]:
    if str(word) == STDIN:
        yield Input("stdin", None, Path("stdin"))
    elif word.is_dir():
        files = sorted(
            path
            for path in word.rglob("*")
            if path.suffix.lower() in AUDIO_SUFFIXES and path.is_file()
        )
        if not files:
            raise AudioError(f"{word} holds no audio files; name a folder with recordings")
        for path in files:
            yield Input(str(path), path, path.relative_to(word).with_suffix(""))
    else:
        yield Input(str(word), word, Path(word.stem))


def _kept_stdin() -> BinaryIO:
    """Standard input as a file that can be read more than once."""
    if sys.stdin is None:
        raise AudioError("standard input is closed; pipe a recording into it, or name a file")
    file: BinaryIO = sys.stdin.buffer
    if file.seekable():
        return file
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - until the end of the program
    try:
        shutil.copyfileobj(file, copy)
    except OSError as error:
        raise AudioError(
            f"standard input cannot be buffered ({error.strerror}); free some space in the "
            "temporary folder, or name a file"
        ) from error
    copy.seek(0)
    return copy
