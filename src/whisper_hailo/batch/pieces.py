"""Recordings as pieces: whole ones where they are short, cut at pauses where they are long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.batch.records import (
    MOST_PIECES,
    PIECE_S,
    Failure,
    Group,
    Piece,
    Task,
)
from whisper_hailo.batch.store import opened
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

LOOKED_AT_S: Final = 60.0
"""Of a piece that is full so many seconds at its end are looked at for a pause."""

_PAUSE_S: Final = 0.5
_FRAME: Final = SAMPLE_RATE_HZ // 50
_FULL: Final = round(PIECE_S * SAMPLE_RATE_HZ)

Broken: Final = Failure(
    "AudioError",
    "the library that reads it crashed on it; record or export the file again",
)
"""Of an item at which the reading process died, more than once."""


def tasks_of(
    group: Group, broken: Mapping[int, int] | None = None, at: Callable[[int], object] = id
) -> Iterator[Task]:
    """The tasks of a group, those that are done among them.

    Args:
        group: read from its first item on.
        broken: items that cannot be read without a crash, with the pieces that come before it.
        at: told each item's place before it is opened.
    """
    pieces: list[Piece] = []
    index, n_samples = 0, 0
    for piece in _pieces(group, broken or {}, at):
        full = n_samples + piece.n_samples > _FULL or len(pieces) == MOST_PIECES
        # What came before a crash was handed out already, as it would have been without it.
        if pieces and (full or piece.failure is Broken):
            yield Task(group.index, index, tuple(pieces), is_last=False)
            pieces, n_samples, index = [], 0, index + 1
        pieces.append(piece)
        n_samples += piece.n_samples
    yield Task(group.index, index, tuple(pieces), is_last=True)


def _pieces(
    group: Group, broken: Mapping[int, int], at: Callable[[int], object]
) -> Iterator[Piece]:
    for place, item in enumerate(group.items):
        at(place)
        most = broken.get(place)
        end_s, n_pieces = 0.0, 0
        try:
            with opened(item.audio) as source, open_audio(source, item.audio) as stream:
                for start_s, samples in [] if most == 0 else cut(stream):
                    yield Piece(place, start_s, samples, item.language)
                    end_s, n_pieces = start_s + samples.size / SAMPLE_RATE_HZ, n_pieces + 1
                    if n_pieces == most:
                        break
        except Exception as error:  # of this recording; the others have their turn
            yield Piece(place, end_s, failure=Failure.of(error))
        else:
            if most is not None:
                yield Piece(place, end_s, failure=Broken)


def cut(stream: AudioStream) -> Iterator[tuple[float, FloatArray]]:
    """A recording in pieces of at most `PIECE_S`, each with its start in seconds."""
    start, held = 0, np.zeros(0, np.float32)
    for block in stream.blocks(10 * SAMPLE_RATE_HZ):
        held = np.concatenate([held, block])
        if held.size > _FULL:
            n_samples = quiet_place(held[:_FULL])
            yield start / SAMPLE_RATE_HZ, held[:n_samples]
            start, held = start + n_samples, held[n_samples:].copy()
    if held.size:
        yield start / SAMPLE_RATE_HZ, held


def quiet_place(samples: FloatArray) -> int:
    """Where a full piece is cut: in the middle of the quietest half second near its end.

    Sums are of whole numbers, so that every processor cuts at the same place.

    Args:
        samples: `(n_samples,)` float32, more than `LOOKED_AT_S`.

    Returns:
        samples before the cut.
    """
    first = samples.size - round(LOOKED_AT_S * SAMPLE_RATE_HZ)
    n_frames = (samples.size - first) // _FRAME
    end = samples[first : first + n_frames * _FRAME]
    levels = np.rint(np.clip(end, -1.0, 1.0) * 32767).astype(np.int64) ** 2
    per_frame = levels.reshape(n_frames, _FRAME).sum(axis=1)
    width = round(_PAUSE_S * SAMPLE_RATE_HZ / _FRAME)
    sums = np.concatenate([[0], np.cumsum(per_frame)])
    quiet = int(np.argmin(sums[width:] - sums[:-width]))
    return first + (2 * quiet + width) * _FRAME // 2


def audio_s(task: Task) -> float:
    """Seconds of a task's audio."""
    return sum(piece.n_samples for piece in task.pieces) / SAMPLE_RATE_HZ
