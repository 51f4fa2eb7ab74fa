"""Which recordings a calibration set is drawn from, and in which order."""

from __future__ import annotations

import hashlib
import logging
import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.audio import AUDIO_SUFFIXES, open_audio
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.errors import AudioError, shown
from whisper_hailo.core.files import files_below
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

logger = logging.getLogger(__name__)

_LIBRISPEECH = re.compile(r"(\d+)-\d+-\d+$")


@dataclass(frozen=True, slots=True)
class Sources:
    """The recordings of a folder.

    Attributes:
        folder: where they lie.
        files: paths in the folder, speakers taking turns, both shuffled by the seed.
        n_speakers: speakers that the layout tells apart.
        listing_sha256: hash of every path, size and time: changes when the folder does.
    """

    folder: Path
    files: tuple[str, ...]
    n_speakers: int
    listing_sha256: str


def find_sources(folder: Path, seed: int) -> Sources:
    """List the recordings below a folder.

    A speaker is the number that LibriSpeech's file names begin with, or else the folder that a
    file lies in.

    Raises:
        AudioError: no such folder, or no file in it that looks like audio.
    """
    if not folder.is_dir():
        raise AudioError(
            f"{shown(folder)} is no folder; give one with recordings of speech to --audio"
        )
    listing = hashlib.sha256()
    speakers: dict[str, list[str]] = {}
    for path in _audio_files(folder):
        name = path.relative_to(folder).as_posix()
        status = path.stat()
        line = f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
        listing.update(line.encode(errors="surrogateescape"))
        speakers.setdefault(_speaker(path, folder), []).append(name)
    if not speakers:
        raise AudioError(
            f"{shown(folder)} holds no file that looks like audio ({' '.join(AUDIO_SUFFIXES)}); "
            "give a folder with recordings of speech"
        )
    return Sources(folder, _turns(speakers, seed), len(speakers), listing.hexdigest())


def window_order(name: str, n_windows: int, seed: int) -> list[int]:
    """In which order the windows of one file are drawn: shuffled by the seed and the name."""
    order = list(range(n_windows))
    random.Random(f"{seed}:{name}").shuffle(order)  # noqa: S311 - a sample, no secret
    return order


def _audio_files(folder: Path) -> Iterator[Path]:
    def tell(path: Path, why: str) -> None:
        logger.warning("%s cannot be looked into (%s); what is in it is left out", path, why)

    for path in files_below(folder, tell):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in AUDIO_SUFFIXES and path.is_file() and not hidden:
            yield path


def _speaker(path: Path, folder: Path) -> str:
    if match := _LIBRISPEECH.match(path.stem):
        return f"librispeech {match.group(1)}"
    return path.parent.relative_to(folder).as_posix()


def _turns(speakers: dict[str, list[str]], seed: int) -> tuple[str, ...]:
    """One file of each speaker, then the next of each, and so on."""
    rng = random.Random(seed)  # noqa: S311 - a sample, no secret
    names = sorted(speakers)
    rng.shuffle(names)
    queues = [rng.sample(speakers[name], len(speakers[name])) for name in names]
    turns = zip_longest(*queues)
    return tuple(name for turn in turns for name in turn if name is not None)


MIN_SPEECH_S: Final = 0.5
"""A recording's last window may be shorter than the others, but not by so much."""

SILENCE: Final = 1e-3
"""Windows whose loudest sample lies below it (-60 dB) teach the statistics nothing."""


def quota_per_turn(n_windows: int, n_files: int) -> int:
    """Windows that each file gives per turn, so that one turn is enough if files are long."""
    return max(1, math.ceil(n_windows / n_files))


def draw(
    path: Path, name: str, plan: WindowPlan, seed: int, turn: tuple[int, int]
) -> Iterator[tuple[int, FloatArray]]:
    """The windows that one file gives in one turn.

    Args:
        path: the recording.
        name: its path in the folder, which its own shuffling depends on.
        plan: the window.
        seed: of the shuffling.
        turn: number of the turn, and windows per turn.

    Yields:
        number of the window in the file and its `(n_samples,)` float32 audio, in their order.
    """
    number, quota = turn
    with open_audio(path) as stream:
        n_windows = _count(stream.duration_s, plan)
        wanted: set[int] | None = None
        if n_windows is not None:
            order = window_order(name, n_windows, seed)
            wanted = set(order[number * quota : (number + 1) * quota])
            if not wanted:
                return
        last = (number + 1) * quota - 1 if wanted is None else max(wanted)
        for index, audio in enumerate(stream.blocks(plan.content_samples)):
            is_drawn = index >= number * quota if wanted is None else index in wanted
            if is_drawn and _is_usable(audio):
                yield index, audio
            if index >= last:
                return


def _count(duration_s: float | None, plan: WindowPlan) -> int | None:
    """Windows of a recording, `None` where its header does not say how long it is."""
    if duration_s is None:
        return None
    return max(1, math.ceil(duration_s * SAMPLE_RATE_HZ / plan.content_samples))


def _is_usable(audio: FloatArray) -> bool:
    long_enough = audio.size >= MIN_SPEECH_S * SAMPLE_RATE_HZ
    return long_enough and bool(np.max(np.abs(audio)) >= SILENCE)
