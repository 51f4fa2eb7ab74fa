"""Tasks to outcomes with one loaded model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any, Self

from whisper_hailo.batch.reader import audio_s
from whisper_hailo.batch.records import Failure, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.results import later
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import AudioError, WhisperHailoError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber


@dataclass(frozen=True, slots=True)
class Setup:
    """What every worker of a job does.

    Attributes:
        model: arguments of `Transcriber.from_model`.
        options: language, search, cures.
        long: how pieces longer than a window are taken apart.
        batch_size: windows decoded together; the same for all workers, since a batch may change a
            close choice.
    """

    model: Mapping[str, Any]
    options: DecodingOptions
    long: LongOptions = field(default_factory=LongOptions)
    batch_size: int = 1


class BatchWorker(Closing):
    """One model, loaded."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._transcriber = Transcriber.from_model(**setup.model)

    def open(self) -> Self:
        """Load the model."""
        self._transcriber.open()
        return self

    def close(self) -> None:
        self._transcriber.close()

    def do(self, task: Task) -> Outcome:
        """Transcribe the pieces of a task."""
        begin = perf_counter()
        results: dict[int, PieceResult] = {
            place: _failed(piece, piece.failure)
            for place, piece in enumerate(task.pieces)
            if piece.failure is not None
        }
        sound = [place for place in range(len(task.pieces)) if place not in results]
        for language in dict.fromkeys(task.pieces[place].language for place in sound):
            own = [place for place in sound if task.pieces[place].language == language]
            pieces = [task.pieces[place] for place in own]
            results |= zip(own, self._transcribed(pieces, language), strict=True)
        return Outcome(
            task.group,
            task.index,
            task.is_last,
            tuple(results[place] for place in range(len(task.pieces))),
            round(perf_counter() - begin, 3),
            round(audio_s(task), 3),
        )

    def _transcribed(self, pieces: Sequence[Piece], language: str | None) -> list[PieceResult]:
        options, setup = self._setup.options, self._setup
        if language is not None:
            options = replace(options, language=language)
        outcomes = self._transcriber.transcribe_many(
            [piece.samples for piece in pieces if piece.samples is not None],
            options,
            long=setup.long,
            batch_size=setup.batch_size,
        )
        return [_result(piece, outcome) for piece, outcome in zip(pieces, outcomes, strict=True)]


def _result(piece: Piece, outcome: Transcript | Exception) -> PieceResult:
    """The outcome of a piece."""
    if isinstance(outcome, Exception):
        if isinstance(outcome, WhisperHailoError) and not isinstance(outcome, AudioError):
            raise outcome
        return _failed(piece, Failure.of(outcome))
    end_s = piece.start_s + piece.n_samples / SAMPLE_RATE_HZ
    return PieceResult(piece.item, end_s, outcome.language, later(outcome.segments, piece.start_s))


def _failed(piece: Piece, failure: Failure) -> PieceResult:
    return PieceResult(piece.item, piece.start_s, failure=failure)


def work(pipe: Connection, setup: Setup) -> None:
    """A process of a worker: tasks in, outcomes out."""
    with BatchWorker(setup) as worker:
        while True:
            pipe.send(worker.do(pipe.recv()))
