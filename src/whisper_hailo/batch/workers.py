"""Worker processes of a job on this machine, each with one loaded model."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from time import perf_counter
from typing import Any, Final, Self, TypeAlias

from whisper_hailo.batch.manifest import Failure, Group, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.reader import Child, GroupReader, task_audio_s
from whisper_hailo.batch.results import shift_segments
from whisper_hailo.core.errors import AudioError, DeviceError, WhisperHailoError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber


@dataclass(frozen=True, slots=True)
class Setup:
    """What every worker of a job does.

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


class BatchWorker(Closing):
    """Transcribes tasks with one loaded model."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._transcriber = Transcriber.from_model(**setup.model)

    def open(self) -> Self:
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
            round(task_audio_s(task), 3),
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
    if isinstance(outcome, Exception):
        if isinstance(outcome, WhisperHailoError) and not isinstance(outcome, AudioError):
            raise outcome
        return _failed(piece, Failure.of(outcome))
    end_s = piece.start_s + piece.n_samples / SAMPLE_RATE_HZ
    return PieceResult(
        piece.item, end_s, outcome.language, shift_segments(outcome.segments, piece.start_s)
    )


def _failed(piece: Piece, failure: Failure) -> PieceResult:
    return PieceResult(piece.item, piece.start_s, failure=failure)


def run_worker(pipe: Connection, setup: Setup) -> None:
    """Run a worker process: tasks in, outcomes out."""
    with BatchWorker(setup) as worker:
        while True:
            pipe.send(worker.do(pipe.recv()))


_TRIES: Final = 3
"""Workers that a task may cost: something else may have killed them."""

_LOOK_S: Final = 0.02

Coming: TypeAlias = "queue.Queue[Task | BaseException | None]"


@dataclass(slots=True)
class _Attempt:
    """A task in progress.

    Attributes:
        whole: the task that it is a piece of, if that one cost too many.
    """

    task: Task
    tries: int = 0
    whole: _Whole | None = None
    place: int = 0

    def apart(self) -> list[_Attempt]:
        """Split into pieces: one of them kills the workers."""
        whole = _Whole(self.task)
        return [
            _Attempt(replace(self.task, pieces=(piece,)), whole=whole, place=place)
            for place, piece in enumerate(self.task.pieces)
        ]

    def given_up(self, why: str) -> Outcome:
        """Return the outcome of a piece that kills every worker."""
        (piece,) = self.task.pieces
        failure = Failure("Crash", f"{_TRIES} workers died of it ({why}); report it")
        result = PieceResult(piece.item, piece.start_s, failure=failure)
        return Outcome(self.task.group, self.task.index, self.task.is_last, (result,))


@dataclass(slots=True)
class _Whole:
    """A task whose pieces are done one by one."""

    task: Task
    results: dict[int, Outcome] = field(default_factory=dict)

    def take(self, place: int, outcome: Outcome) -> Outcome | None:
        """Return the whole task's outcome, once all pieces have theirs."""
        self.results[place] = outcome
        if len(self.results) < len(self.task.pieces):
            return None
        parts = [self.results[place] for place in range(len(self.task.pieces))]
        return Outcome(
            outcome.group,
            outcome.index,
            outcome.is_last,
            tuple(result for part in parts for result in part.results),
            sum(part.took_s for part in parts),
            sum(part.audio_s for part in parts),
        )


class LocalEngine:
    """Worker processes of this machine, started as needed."""

    def __init__(self, setup: Setup, n_workers: int) -> None:
        self._setup = setup
        self._n_workers = n_workers
        self._idle: list[Child] = []
        self._busy: dict[Child, _Attempt] = {}
        self._again: deque[_Attempt] = deque()

    def prepare(self) -> None:
        """Start a worker, so that it loads its model before there is a task."""
        self._idle.append(Child(run_worker, self._setup))

    def run(self, groups: Iterable[Group]) -> Iterator[Outcome]:
        """Yield the outcomes of all tasks of some groups, as they come."""
        stop = threading.Event()
        coming: Coming = queue.Queue(maxsize=1)
        threading.Thread(target=read_tasks_ahead, args=(groups, coming, stop), daemon=True).start()
        more = True
        try:
            while more or self._busy or self._again:
                if len(self._busy) < self._n_workers and (more or self._again):
                    more = self._hand_out(coming) and more
                yield from self._collect()
        finally:
            stop.set()
            for child in (*self._busy, *self._idle):
                child.end()

    def do(self, task: Task) -> Outcome:
        """Transcribe one task; the worker stays for the next."""
        self._again.append(_Attempt(task))
        while True:
            if not self._busy:
                self._begin(self._again.popleft())
            for outcome in self._collect(patience_s=None):
                return outcome

    def _hand_out(self, coming: Coming) -> bool:
        """Give a worker the next task, if any is ready; return whether there may be more."""
        if self._again:
            self._begin(self._again.popleft())
            return True
        try:
            task = coming.get(timeout=0 if self._busy else _LOOK_S)
        except queue.Empty:
            return True
        if isinstance(task, BaseException):
            raise task
        if task is not None:
            self._begin(_Attempt(task))
        return task is not None

    def _begin(self, attempt: _Attempt) -> None:
        child = self._idle.pop() if self._idle else Child(run_worker, self._setup)
        self._busy[child] = attempt
        with suppress(EOFError):  # it died: what of is read from it, as whenever it dies
            child.send(attempt.task)

    def _collect(self, patience_s: float | None = _LOOK_S) -> Iterator[Outcome]:
        """Yield what workers have finished."""
        pipes = {child.pipe: child for child in self._busy}
        for pipe in wait(list(pipes), timeout=patience_s):
            child = pipes[pipe]  # type: ignore[index]
            try:
                outcome: Outcome | None = child.receive()
            except EOFError:
                outcome = self._died(child)
            except DeviceError:
                if self._busy[child].tries + 1 >= _TRIES:
                    raise
                outcome = self._died(child)
            else:
                attempt = self._busy.pop(child)
                self._idle.append(child)
                if attempt.whole is not None and outcome is not None:
                    outcome = attempt.whole.take(attempt.place, outcome)
            if outcome is not None:
                yield outcome

    def _died(self, child: Child) -> Outcome | None:
        """Retry a task with another worker, or return the outcome of one that is given up."""
        attempt = self._busy.pop(child)
        why = child.died_of
        child.end()
        attempt.tries += 1
        if attempt.tries < _TRIES:
            self._again.append(attempt)
        elif len(attempt.task.pieces) > 1:
            self._again.extend(attempt.apart())
        else:
            outcome = attempt.given_up(why)
            return outcome if attempt.whole is None else attempt.whole.take(attempt.place, outcome)
        return None


def read_tasks_ahead(groups: Iterable[Group], coming: Coming, stop: threading.Event) -> None:
    """Read while workers work; one waiting task is enough."""

    def put(what: Task | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                coming.put(what, timeout=_LOOK_S)
            except queue.Full:
                continue
            return True
        return False

    try:
        with GroupReader() as reader:
            for group in groups:
                for task in reader.tasks(group):
                    if not put(task):
                        return
    except BaseException as error:
        put(error)
    else:
        put(None)
