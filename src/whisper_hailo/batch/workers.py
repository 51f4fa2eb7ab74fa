"""Worker processes of a job on this machine, each with one loaded model."""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from threading import Event, Lock, Thread
from time import process_time
from typing import Any, Final

from whisper_hailo.batch.tasks import (
    ENGINE,
    Failure,
    Outcome,
    Piece,
    PieceResult,
    Task,
)
from whisper_hailo.core.errors import AudioError, DeviceError, WhisperHailoError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber

_TRIES: Final = 3
"""Processes that a task may cost: something else may have killed them."""

_JOIN_S: Final = 5.0
"""Wait this long for a process that has ended or was killed."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The model and the options of every worker of a job.

    Attributes:
        model: arguments of `Transcriber.from_model`.
        long: how pieces longer than a window are cut.
        batch_size: windows decoded together; the same for all workers, since a batch may change a
            close choice.
    """

    model: Mapping[str, Any]
    options: DecodingOptions
    long: LongOptions = field(default_factory=LongOptions)
    batch_size: int = 1


def transcribe_task(transcriber: Transcriber, setup: Setup, task: Task) -> Outcome:
    """Transcribe the pieces of a task, those of a language together."""
    begin_s = process_time()
    # Results are in the order of the pieces; those that can be transcribed are replaced below.
    results = [_make_failure(piece, piece.failure) for piece in task.pieces]
    by_language: dict[str | None, list[int]] = {}
    for index, piece in enumerate(task.pieces):
        if piece.failure is None:
            by_language.setdefault(piece.language, []).append(index)
    for language, indexes in by_language.items():
        pieces = [task.pieces[index] for index in indexes]
        outcomes = transcriber.transcribe_many(
            [piece.samples for piece in pieces if piece.samples is not None],
            replace(setup.options, language=language) if language else setup.options,
            long=setup.long,
            batch_size=setup.batch_size,
        )
        for index, outcome in zip(indexes, outcomes, strict=True):
            results[index] = _make_result(task.pieces[index], outcome)
    return Outcome(
        task.shard,
        tuple(results),
        cpu_s=round(process_time() - begin_s, 3),
        audio_s=round(task.audio_s, 3),
    )


def _make_result(piece: Piece, outcome: Transcript | Exception) -> PieceResult:
    if isinstance(outcome, Exception):
        # An error of the model or the device is none of this recording: the job ends.
        if isinstance(outcome, WhisperHailoError) and not isinstance(
            outcome, AudioError
        ):
            raise outcome
        return _make_failure(piece, Failure.of(outcome))
    end_s = piece.start_s + piece.n_samples / SAMPLE_RATE_HZ
    segments = tuple(
        shift_segment(segment, piece.start_s) for segment in outcome.segments
    )
    untranscribed = tuple(
        replace(
            speech,
            start_s=round(speech.start_s + piece.start_s, 2),
            end_s=round(speech.end_s + piece.start_s, 2),
        )
        for speech in outcome.untranscribed
    )
    return PieceResult(
        item=piece.item,
        start_s=piece.start_s,
        n_pieces=piece.n_pieces,
        end_s=end_s,
        language=outcome.language,
        segments=segments,
        untranscribed=untranscribed,
        warnings=piece.warnings,
    )


def _make_failure(piece: Piece, failure: Failure | None) -> PieceResult:
    return PieceResult(
        piece.item, piece.start_s, piece.n_pieces, piece.start_s, failure=failure
    )


def shift_segment(segment: Segment, start_s: float) -> Segment:
    """Shift a segment of a piece to its time in the recording."""
    if not start_s:
        return segment

    def shift(time_s: float) -> float:
        return round(time_s + start_s, 3)

    words = [
        replace(word, start_s=shift(word.start_s), end_s=shift(word.end_s))
        for word in segment.words
    ]
    return replace(
        segment,
        start_s=shift(segment.start_s),
        end_s=shift(segment.end_s),
        window_start_s=shift(segment.window_start_s),
        words=tuple(words),
    )


def run_worker(pipe: Connection, setup: Setup) -> None:
    """Run a worker process, tasks in, outcomes out, until its parent has gone."""
    try:
        with Transcriber.from_model(**setup.model) as transcriber:
            while True:
                pipe.send(transcribe_task(transcriber, setup, pipe.recv()))
    except EOFError:
        return
    except Exception as error:  # the parent raises it
        with suppress(OSError):  # the parent has gone
            pipe.send(error)


class Child:
    """A worker process with a pipe, which ends when this process does."""

    def __init__(self, setup: Setup) -> None:
        # Not a fork: sessions of the runtime do not survive one.
        context = multiprocessing.get_context("spawn")
        self._pipe, worker_pipe = context.Pipe()
        self._process = context.Process(
            target=run_worker, args=(worker_pipe, setup), daemon=True
        )
        # Only this process handles Ctrl-C: the worker inherits that the signal is blocked.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        worker_pipe.close()  # or the end of a worker that died would not be seen

    def do(self, task: Task) -> Outcome:
        """Transcribe a task in the process, and wait for it.

        Raises:
            EOFError: the process died.
            Exception: whatever the process sends.
        """
        # A broken pipe raises nothing here: the worker may have sent why it ended, which is read.
        with suppress(OSError):
            self._pipe.send(task)
        try:
            outcome: Outcome | Exception = self._pipe.recv()
        except OSError as error:
            raise EOFError from error
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def died_of(self) -> str:
        """The signal, such as `SIGKILL`, or the exit code that it ended with."""
        self._process.join(_JOIN_S)
        code = self._process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """Kill the process; a thread that waits for a task gets an `EOFError`."""
        self._process.kill()
        self._process.join(_JOIN_S)


class Worker:
    """A worker process, started when needed, and again after a task that killed it."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._child: Child | None = None
        self._is_stopped = False

    def start(self) -> Child:
        """Start the process, unless it runs, so that it loads its model."""
        if self._child is None:
            self._child = Child(self._setup)
        return self._child

    def stop(self) -> None:
        """End it for good; a thread that waits for a task gets an `EOFError`."""
        self._is_stopped = True
        if self._child is not None:
            self._child.kill()

    def do(self, task: Task) -> Outcome:
        """Transcribe a task; a piece that kills three processes has failed."""
        cause = ""
        for n_tries in range(1, _TRIES + 1):
            if self._is_stopped:
                raise EOFError
            child = self.start()
            try:
                return child.do(task)
            except EOFError:
                cause = child.died_of
            except DeviceError:  # a chip may work again for another process
                if n_tries == _TRIES:
                    raise
            child.kill()
            self._child = None
        if len(task.pieces) > 1:
            return self._do_each(task)
        message = f"{_TRIES} workers crashed on it ({cause}); report it"
        failure = Failure(ENGINE, "Crash", message)
        return Outcome(task.shard, (_make_failure(task.pieces[0], failure),))

    def _do_each(self, task: Task) -> Outcome:
        """Transcribe the pieces of a task one by one, so that only the one that kills fails."""
        parts = [self.do(replace(task, pieces=(piece,))) for piece in task.pieces]
        return Outcome(
            task.shard,
            results=tuple(result for part in parts for result in part.results),
            cpu_s=sum(part.cpu_s for part in parts),
            audio_s=sum(part.audio_s for part in parts),
        )


def run_tasks(workers: Sequence[Worker], tasks: Iterator[Task]) -> Iterator[Outcome]:
    """Yield the outcomes of tasks, as they come; the workers stay the caller's."""
    reading = Lock()
    stop = Event()
    idle: queue.LifoQueue[Worker] = queue.LifoQueue()  # few tasks start few processes
    finished: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def work() -> None:
        try:
            while True:
                with reading:
                    task = None if stop.is_set() else next(tasks, None)
                if task is None:
                    break
                worker = idle.get()
                try:
                    finished.put(worker.do(task))
                finally:
                    idle.put(worker)
            finished.put(None)
        except BaseException as error:
            finished.put(error)

    # One reads the next task while the workers of all others compute.
    n_threads = len(workers) + 1
    for _ in range(n_threads):
        Thread(target=work, daemon=True).start()
    try:
        while n_threads:
            outcome = finished.get()
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None:
                n_threads -= 1
            else:
                yield outcome
    finally:
        stop.set()
