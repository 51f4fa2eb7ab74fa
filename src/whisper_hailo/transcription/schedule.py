"""Takes recordings from a source through the stages: turns, batches, encoding ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.timing import StageClock
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.stages import LazyFuture, Prefetch, Stages
from whisper_hailo.transcription.window import Encoded, WindowEngine, WindowRequest, WindowResult

PATIENCE: Final = 8
"""So many batches on end what waits is passed over by what is more urgent; the next one is its."""


class PriorityScheduler:
    """The most urgent goes first, and of several alike the one who had least.

    No recording starves: however much comes that is urgent, of nine batches one is of what
    waits behind it.
    """

    def __init__(self) -> None:
        self._passed: dict[int, int] = {}

    def note(self, served: Iterable[Recording], waiting: Collection[Recording]) -> None:
        """A batch is decoded."""
        had = {recording.priority for recording in served}
        self._passed = {
            priority: self._passed.get(priority, 0) + 1
            for priority in {recording.priority for recording in waiting} - had
        }

    def is_due(self, priority: int) -> bool:
        """Whether what has this priority was passed over for long enough."""
        return self._passed.get(priority, 0) >= PATIENCE

    def next_of(self, ready: Iterable[Recording]) -> Recording:
        """Whose turn it is; of several alike, the one that came first."""
        return min(ready, key=self._rank)

    def _rank(self, recording: Recording) -> tuple[bool, int, int]:
        is_due = self.is_due(recording.priority)
        return not is_due, recording.priority, recording.share.n_windows


class WindowSource(Protocol):
    """Where recordings come from; more may come while others are transcribed."""

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        """The next recording, not opened yet.

        Args:
            n_free: rows of the batch that no recording under way fills; 0 where there are none, so
                that only what is urgent should come.
            idle: nothing is under way, so that it may be waited for.

        Returns:
            `None` when there is none now; when idle, that there will be none.
        """
        ...

    def rows(self, most: int) -> int:
        """How many windows the next batch may have, of so many at most."""
        ...

    def wait(self, coming: Future[Any]) -> bool:
        """Wait until something is there, or a recording for `next`; whether it is a recording."""
        ...


class Listed:
    """Recordings in the order of a list, the next one when there is room."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings = iter(recordings)

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del idle
        return next(self._recordings, None) if n_free else None

    def rows(self, most: int) -> int:
        """As many as there are."""
        return most

    def wait(self, coming: Future[Any]) -> bool:
        """No recording comes before there is room, so that the next batch need not wait either."""
        del coming
        return False


def in_order(
    recordings: Iterable[Recording], schedule: Callable[[WindowSource], Schedule]
) -> Iterator[Recording]:
    """Transcribe a list of recordings; they come back in its order.

    Args:
        recordings: not opened yet; each is when its turn comes.
        schedule: of a source.
    """
    begun: deque[Recording] = deque()

    def noted() -> Iterator[Recording]:
        for recording in recordings:
            begun.append(recording)
            yield recording

    done: list[Recording] = []
    for recording in schedule(Listed(noted())).run():
        done.append(recording)
        while begun and begun[0] in done:
            done.remove(begun[0])
            yield begun.popleft()


Progress: TypeAlias = Callable[[float, float | None], None]
"""Called after each window with seconds done and seconds in all (`None`: unknown)."""

Members: TypeAlias = list[tuple[Recording, WindowRequest]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Windows that are decoded together, and their audio features, which may still be coming."""

    members: Members
    encoded: LazyFuture[Encoded]

    @property
    def sequential(self) -> bool:
        """Whether what comes next depends on it."""
        return any(recording.sequential for recording, _ in self.members)

    @property
    def priority(self) -> int:
        """That all of its windows have."""
        return self.members[0][0].priority


_Ahead: TypeAlias = Prefetch[Sequence[WindowRequest], Encoded]


class Schedule:
    """Runs recordings through the stages, as many windows at a time as a batch holds.

    While a batch is decoded, the next one is encoded. A batch has windows of one priority; a more
    urgent one that arrives overtakes it before it is decoded, as far as `PriorityScheduler` allows,
    without waiting for its encoder. A sequential recording adds one window to a batch, and nothing
    is encoded ahead of it. Recordings with different engines share a batch where the engines have
    the same `batch_key`.

    Args:
        source: of the recordings.
        stages: take a batch of windows to text; all engines stand behind its encoder.
        batch_size: most windows of a batch.
        progress: told after each batch how far its last recording is.
        encode_ahead: without it, encoder and decoder take turns.
    """

    def __init__(
        self,
        source: WindowSource,
        stages: Stages,
        batch_size: int = 1,
        progress: Progress | None = None,
        *,
        encode_ahead: bool = True,
    ) -> None:
        self._source = source
        self._stages = stages
        self._batch_size = batch_size
        self._progress = progress
        self._encode_ahead = encode_ahead
        self._active: list[Recording] = []
        self._turns = PriorityScheduler()

    def run(self) -> Iterator[Recording]:
        """Transcribe all that comes.

        Yields:
            recordings that are done, or that failed: whatever error one makes, foreseen or not, the
            others have their turn.
        """
        for done in self.steps():
            yield from done

    def steps(self) -> Iterator[list[Recording]]:
        """Yield the recordings that each batch completed, mostly none."""
        stages = self._stages
        try:
            with Prefetch(stages.encode, stages.start, enabled=self._encode_ahead) as ahead:
                row = [batch] if (batch := self._next_batch(ahead)) else []
                while row or self._active:
                    if row:
                        batch = self._first(row, ahead)
                        self._turns.note((one for one, _ in batch.members), self._active)
                        may_wait = self._encode_ahead and not (row or batch.sequential)
                        if may_wait and (waiting := self._next_batch(ahead)):
                            row.append(waiting)
                        self._transcribe(batch)
                    yield self._done()
                    if not row and (batch := self._next_batch(ahead)):
                        row.append(batch)
        finally:
            for recording in self._active:
                recording.close()

    def _first(self, row: list[_Batch], ahead: _Ahead) -> _Batch:
        """The batch that is decoded next: the row's first, or one that overtakes it."""
        while not self._turns.is_due(row[0].priority):
            if urgent := self._next_batch(ahead, row[0]):
                return urgent
            coming = row[0].encoded.coming
            if coming is None or coming.done() or not self._source.wait(coming):
                break
        return row.pop(0)

    def _next_batch(self, ahead: _Ahead, waiting: _Batch | None = None) -> _Batch | None:
        """What is to be decoded next; where a batch waits already, only what is more urgent."""
        members = self._fill() if waiting is None else self._fill(waiting.priority)
        if not members:
            return None
        requests = [request for _, request in members]
        encoded = ahead.begin(requests, now=len(requests) > 1, apart=waiting is not None)
        return _Batch(members, encoded)

    def _fill(self, before: int | None = None) -> Members:
        """Take windows of the recordings under way, in turns; then of new ones."""
        batch: Members = []
        while self._begin(n_free=0) is not None:
            pass
        ready = [one for one in self._active if before is None or one.priority < before]
        while (n_free := self._source.rows(self._batch_size) - len(batch)) > 0:
            if not ready and before is None and (new := self._begin(n_free)):
                ready.append(new)
            if not ready:
                break
            recording = self._turns.next_of(ready)
            fits = not batch or self._kind(recording) == self._kind(batch[0][0])
            if not (fits and self._draw(recording, batch)):
                ready.remove(recording)
        return batch

    def _engine(self, recording: Recording) -> WindowEngine:
        return self._stages.engine_of(recording.engine)

    def _kind(self, recording: Recording) -> Hashable:
        """Windows of one kind may be decoded together."""
        return recording.priority, self._engine(recording).batch_key

    def _begin(self, n_free: int) -> Recording | None:
        """Open the next recording, if there is one."""
        idle = n_free > 0 and not self._active
        recording = self._source.next(n_free=n_free, idle=idle)
        if recording is not None:
            self._active.append(recording)
            try:
                recording.open()
            except Exception as error:
                recording.fail(error)
        return recording

    def _draw(self, recording: Recording, batch: Members) -> bool:
        """Add the recording's next window to the batch, if it has one; none if it breaks."""
        try:
            request = None if recording.failure else recording.next()
        except Exception as error:
            recording.fail(error)
            batch[:] = [member for member in batch if member[0] is not recording]
            request = None
        if request is not None:
            recording.share.n_windows += 1
            batch.append((recording, request))
        return request is not None

    def _done(self) -> list[Recording]:
        """Recordings that are done or failed, which are under way no more."""
        done = [recording for recording in self._active if recording.failure or recording.done]
        self._active = [recording for recording in self._active if recording not in done]
        for recording in done:
            try:
                recording.finish()
            except Exception as error:
                recording.fail(error)
        return done

    def _transcribe(self, batch: _Batch) -> None:
        """Take a batch to text and hand out the results; its error is that of all in it.

        An unexpected error may come of one window, so each is tried again by itself.
        """
        members = batch.members
        clock, requests = StageClock(), [request for _, request in members]
        with clock.stage("total"):
            try:
                encoded = batch.encoded.result()
                results = self._engine(members[0][0]).transcribe(encoded, requests)
            except Exception as error:
                if len(members) > 1 and not isinstance(error, WhisperHailoError):
                    self._transcribe_each(members)
                    return
                for recording, _ in members:
                    recording.fail(error)
                return
            clock.add(encoded.clock)
            for (recording, _), result in zip(members, results, strict=True):
                _hand_out(recording, result)
        for recording, _ in members:
            recording.context.clock.add(clock, 1 / len(members))
        if self._progress is not None:
            recording, request = members[-1]
            self._progress(request.window.end_s, recording.stream_duration_s)

    def _transcribe_each(self, members: Members) -> None:
        """Take the windows of a batch one by one, but for those of recordings that broke."""
        for recording, request in members:
            if not recording.failure:
                encoded = LazyFuture(partial(self._stages.encode, [request]))
                self._transcribe(_Batch([(recording, request)], encoded))


def _hand_out(recording: Recording, result: WindowResult) -> None:
    """Give a recording its result, unless an earlier one of the batch broke it."""
    if recording.failure:
        return
    try:
        recording.take(result)
    except Exception as error:
        recording.fail(error)
