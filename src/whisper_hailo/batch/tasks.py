"""Groups of recordings, the tasks that they are split into, and the results of these.

Any reader forms the same tasks of a group, so that no result depends on the number of workers or on
earlier runs. Decoders that bad files may crash run in a process of their own (`audio/readers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.batch.manifest import Item
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    Segment,
    UntranscribedSpeech,
)

GROUP_ITEMS: Final = 16
"""Items read in sequence, and so the most recordings that are decoded together."""

PIECE_S: Final = 300.0
"""Most seconds of a piece, and of all pieces of a task together unless it is one piece."""
MAX_PIECE_SAMPLES: Final = round(PIECE_S * SAMPLE_RATE_HZ)

SEARCHED_S: Final = 60.0
"""Seconds at the end of a full piece that are searched for a pause."""
_PAUSE_S: Final = 0.5
_FRAME: Final = SAMPLE_RATE_HZ // 50
"""Samples whose loudness is summed: 20 ms."""


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive items of a job.

    Attributes:
        items: at most `GROUP_ITEMS`.
        done: indexes of the tasks whose results are known.
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
        item: place of the recording in its group.
        start_s: start in the recording, in seconds.
        n_pieces: of the whole recording, if this is its last one; else 0.
        samples: `(n_samples,)` float32 16 kHz mono; `None` if it failed.
        failure: why it could not be read from here on.
    """

    item: int
    start_s: float
    n_pieces: int
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

    @property
    def audio_s(self) -> float:
        return sum(piece.n_samples for piece in self.pieces) / SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class PieceResult:
    """The result of a piece, or of a whole recording, without its audio.

    Attributes:
        item: see `Piece`, as `n_pieces`.
        end_s: end in the recording, in seconds; times of segments are of the recording, too.
    """

    item: int
    n_pieces: int
    end_s: float
    language: str = ""
    segments: tuple[Segment, ...] = ()
    untranscribed: tuple[UntranscribedSpeech, ...] = ()
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
    results: tuple[PieceResult, ...]
    took_s: float = 0.0
    audio_s: float = 0.0

    @property
    def untranscribed_s(self) -> float:
        """Seconds of speech that got no text."""
        return sum(
            speech.end_s - speech.start_s
            for result in self.results
            for speech in result.untranscribed
        )


def read_tasks(group: Group) -> Iterator[Task]:
    """Yield the tasks of a group that are not done."""
    index = 0
    pieces: list[Piece] = []
    n_samples = 0
    for piece in _read_pieces(group):
        if pieces and n_samples + piece.n_samples > MAX_PIECE_SAMPLES:
            if index not in group.done:
                yield Task(group.index, index, tuple(pieces))
            index += 1
            pieces = []
            n_samples = 0
        pieces.append(piece)
        n_samples += piece.n_samples
    if pieces and index not in group.done:
        yield Task(group.index, index, tuple(pieces))


def _read_pieces(group: Group) -> Iterator[Piece]:
    for index, item in enumerate(group.items):
        end_s = 0.0
        n_pieces = 0
        try:
            with open_audio(item.audio) as stream:
                for start_s, samples, is_last in cut_pieces(stream):
                    n_pieces += 1
                    n_all = n_pieces if is_last else 0
                    yield Piece(index, start_s, n_all, samples, item.language)
                    end_s = start_s + samples.size / SAMPLE_RATE_HZ
        except Exception as error:  # of this recording; the others have their turn
            yield Piece(index, end_s, n_pieces + 1, failure=Failure.of(error))


def cut_pieces(stream: AudioStream) -> Iterator[tuple[float, FloatArray, bool]]:
    """Yield pieces of at most `PIECE_S`, each with its start in seconds, and the last marked."""
    start = 0
    samples = np.zeros(0, np.float32)
    for block in stream.blocks(10 * SAMPLE_RATE_HZ):
        samples = np.concatenate([samples, block])
        if samples.size > MAX_PIECE_SAMPLES:
            n_samples = find_quiet_cut(samples[:MAX_PIECE_SAMPLES])
            yield start / SAMPLE_RATE_HZ, samples[:n_samples], False
            start += n_samples
            samples = samples[
                n_samples:
            ].copy()  # a view would keep the whole array alive
    yield start / SAMPLE_RATE_HZ, samples, True


def find_quiet_cut(samples: FloatArray) -> int:
    """Return the sample in the middle of the quietest half second near a full piece's end.

    Sums are of whole numbers, so that every processor cuts at the same place.
    """
    first = samples.size - round(SEARCHED_S * SAMPLE_RATE_HZ)
    n_frames = (samples.size - first) // _FRAME
    end = samples[first : first + n_frames * _FRAME]
    levels = np.rint(np.clip(end, -1.0, 1.0) * 32767).astype(np.int64)
    power = levels**2
    per_frame = power.reshape(n_frames, _FRAME).sum(axis=1)
    width = round(_PAUSE_S * SAMPLE_RATE_HZ / _FRAME)
    sums = np.concatenate([[0], np.cumsum(per_frame)])
    quiet = int(np.argmin(sums[width:] - sums[:-width]))
    return first + (2 * quiet + width) * _FRAME // 2
