"""Tasks that a shard's recordings are split into, and their results.

Any reader forms the same tasks of a shard, so that no result depends on the number of workers or on
earlier runs. Decoders that bad files may crash run in a process of their own (`audio/readers.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.batch.fetching import (
    AccessError,
    FetchedFile,
    Fetcher,
    UnreachableError,
)
from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.storage import redact
from whisper_hailo.core.errors import AudioError, OptionError, WhisperHailoError
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    Segment,
    UntranscribedSpeech,
)

MOST_PIECES: Final = 16
"""Pieces of a task, and so the most recordings that are decoded together."""

PIECE_S: Final = 300.0
"""Most seconds of a piece, and of all pieces of a task together unless it is one piece."""
MAX_PIECE_SAMPLES: Final = round(PIECE_S * SAMPLE_RATE_HZ)

SEARCHED_S: Final = 60.0
"""Seconds at the end of a full piece that are searched for a pause."""
_PAUSE_S: Final = 0.5
_FRAME: Final = SAMPLE_RATE_HZ // 50
"""Samples whose loudness is summed: 20 ms."""

AUDIO: Final = "audio"
ACCESS: Final = "access"
ENGINE: Final = "engine"
"""Kinds of failures."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item has no transcript.

    Attributes:
        kind: `audio`: the recording is broken, for good; `access`: it could not be fetched, and the
            next run tries again; `engine`: the program failed on it.
        type: class of the error.
    """

    kind: str
    type: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the failure that an error is."""
        kind = ENGINE
        if isinstance(error, AccessError):
            kind = ACCESS
        elif isinstance(error, AudioError):
            kind = AUDIO
        message = str(error)
        if not isinstance(error, WhisperHailoError):
            message = f"{type(error).__name__}: {error}"[:400]
        return cls(kind, type(error).__name__, redact(message))

    @property
    def is_final(self) -> bool:
        """Whether the next run does not try again."""
        return self.kind != ACCESS


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a recording.

    Attributes:
        item: place of the recording in its shard.
        start_s: start in the recording, in seconds.
        n_pieces: of the whole recording, if this is its last one; else 0.
        samples: `(n_samples,)` float32 16 kHz mono; `None` if it failed.
        failure: why it could not be read from here on.
        warnings: what is wrong with the recording, with its last piece.
    """

    item: int
    start_s: float
    n_pieces: int
    samples: FloatArray | None = None
    language: str | None = None
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        return 0 if self.samples is None else self.samples.size

    @property
    def key(self) -> PieceKey:
        """What no other piece of the shard has."""
        return self.item, self.start_s


PieceKey: TypeAlias = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Task:
    """Pieces that are transcribed together, by any worker."""

    shard: int
    pieces: tuple[Piece, ...]

    @property
    def audio_s(self) -> float:
        return sum(piece.n_samples for piece in self.pieces) / SAMPLE_RATE_HZ

    @property
    def key(self) -> TaskKey:
        """The pieces that it has: with others their text could differ in close choices."""
        return tuple(piece.key for piece in self.pieces)


TaskKey: TypeAlias = tuple[PieceKey, ...]


@dataclass(frozen=True, slots=True)
class PieceResult:
    """The result of a piece, or of a whole recording, without its audio.

    Attributes:
        item: see `Piece`, as `start_s`, `n_pieces` and `warnings`.
        end_s: end in the recording, in seconds; times of segments are of the recording, too.
    """

    item: int
    start_s: float
    n_pieces: int
    end_s: float
    language: str = ""
    segments: tuple[Segment, ...] = ()
    untranscribed: tuple[UntranscribedSpeech, ...] = ()
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def key(self) -> PieceKey:
        return self.item, self.start_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task.

    Attributes:
        cpu_s: processor time of its worker.
        audio_s: seconds of its audio.
    """

    shard: int
    results: tuple[PieceResult, ...]
    cpu_s: float = 0.0
    audio_s: float = 0.0

    @property
    def key(self) -> TaskKey:
        """That of its task."""
        return tuple(result.key for result in self.results)


def read_tasks(
    shard: int,
    items: Sequence[tuple[int, Item]],
    done: Collection[TaskKey],
    fetcher: Fetcher,
) -> Iterator[Task]:
    """Yield the tasks of a shard that are not done.

    Args:
        shard: its number.
        items: recordings to be transcribed, with their places in the shard.
        done: keys of tasks whose results are known.
        fetcher: brings the recordings.
    """
    pieces: list[Piece] = []
    n_samples = 0
    for piece in _read_pieces(items, fetcher):
        is_full = n_samples + piece.n_samples > MAX_PIECE_SAMPLES
        if pieces and (is_full or len(pieces) == MOST_PIECES):
            task = Task(shard, tuple(pieces))
            if task.key not in done:
                yield task
            pieces = []
            n_samples = 0
        pieces.append(piece)
        n_samples += piece.n_samples
    task = Task(shard, tuple(pieces))
    if pieces and task.key not in done:
        yield task


def _read_pieces(
    items: Sequence[tuple[int, Item]], fetcher: Fetcher
) -> Iterator[Piece]:
    fetched = fetcher.fetch_ahead([item for _, item in items])
    for (index, _), (item, file) in zip(items, fetched, strict=True):
        yield from _read_recording(index, item, file, fetcher)


def _read_recording(
    index: int, item: Item, file: Future[FetchedFile], fetcher: Fetcher
) -> Iterator[Piece]:
    """Yield the pieces of a recording, the last one with its failure or warnings."""
    end_s = 0.0
    n_pieces = 0
    try:
        recording = file.result()
    except (OptionError, UnreachableError):  # of the whole job
        raise
    except Exception as error:
        yield Piece(index, end_s, 1, failure=Failure.of(error))
        return
    try:
        with open_audio(recording.path, redact(item.audio)) as stream:
            for start_s, samples, is_last in cut_pieces(stream):
                n_pieces += 1
                if is_last and stream.warnings:
                    fetcher.expect_readable(item.audio, recording)
                yield Piece(
                    item=index,
                    start_s=start_s,
                    n_pieces=n_pieces if is_last else 0,
                    samples=samples,
                    language=item.language,
                    warnings=tuple(stream.warnings) if is_last else (),
                )
                end_s = start_s + samples.size / SAMPLE_RATE_HZ
    except Exception as error:  # of this recording; the others have their turn
        yield Piece(index, end_s, n_pieces + 1, failure=Failure.of(error))
    finally:
        recording.close()


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
