"""The schedule: batches of windows from many recordings, encoded ahead of decoding."""

from __future__ import annotations

from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Sequence,
)
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
"""Consecutive batches after which waiting work goes before more urgent work."""

QUANTUM: Final = 48
"""Steps of a batch before another one may go first that is as urgent: some ten seconds of speech.

Hard speech takes hundreds: text that runs on, then a beam search, then samples.
"""


class PriorityScheduler:
    """The lowest priority number goes first; within it, the client that had least.

    Nothing starves: however much urgent work comes, one of nine batches is of waiting work.
    """

    def __init__(self) -> None:
        self._passed: dict[int, int] = {}

    def note(self, served: Iterable[Recording], waiting: Collection[Recording]) -> None:
        """Count a decoded batch."""
        had = {recording.priority for recording in served}
        self._passed = {
            priority: self._passed.get(priority, 0) + 1
            for priority in {recording.priority for recording in waiting} - had
        }

    def is_due(self, priority: int) -> bool:
        """Return whether work of this priority was passed over for long enough."""
        return self._passed.get(priority, 0) >= PATIENCE

    def next_of(self, ready: Iterable[Recording]) -> Recording:
        """Return the recording whose turn it is; of equal ones, the first."""
        return min(ready, key=self._rank)

    def _rank(self, recording: Recording) -> tuple[bool, int, int]:
        is_due = self.is_due(recording.priority)
        return not is_due, recording.priority, recording.share.n_windows


class WindowSource(Protocol):
    """Where recordings come from; more may come while others are transcribed."""

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        """Return the next recording, not opened yet.

        Args:
            n_free: free rows of the batch; with 0, only urgent recordings should come.
            idle: nothing is under way, so that it may block.

        Returns:
            `None` when there is none now; when idle, that there will be none.
        """
        ...

    def rows(self, most: int) -> int:
        """Return the most windows of the next batch, up to `most`."""
        ...

    def wait(self, coming: Future[Any]) -> bool:
        """Wait for `coming` or for a new recording; return whether it is a recording."""
        ...


class RecordingList:
    """Recordings of a list, in order, as rows become free."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings = iter(recordings)

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del idle
        return next(self._recordings, None) if n_free else None

    def rows(self, most: int) -> int:
        return most

    def wait(self, coming: Future[Any]) -> bool:
        """Return at once: no recording comes before a row is free."""
        del coming
        return False


def transcribe_in_order(
    recordings: Iterable[Recording], schedule: Callable[[WindowSource], Schedule]
) -> Iterator[Recording]:
    """Transcribe a list of recordings; they come back in its order."""
    begun: deque[Recording] = deque()

    def noted() -> Iterator[Recording]:
        for recording in recordings:
            begun.append(recording)
            yield recording

    done: list[Recording] = []
    for recording in schedule(RecordingList(noted())).run():
        done.append(recording)
        while begun and begun[0] in done:
            done.remove(begun[0])
            yield begun.popleft()


Progress: TypeAlias = Callable[[float, float | None], None]
"""Called after each window with seconds done and seconds in all (`None`: unknown)."""

Members: TypeAlias = list[tuple[Recording, WindowRequest]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Windows that are decoded together, and their audio features, which may be pending."""

    members: Members
    encoded: LazyFuture[Encoded]

    @property
    def sequential(self) -> bool:
        """Whether what comes next depends on it."""
        return any(recording.sequential for recording, _ in self.members)

    @property
    def priority(self) -> int:
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
        stages: of windows; all engines share its encoder.
        batch_size: most windows of a batch.
        progress: called after each batch.
        encode_ahead: encode while decoding.
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
        self._row: list[_Batch] = []
        self._running: list[_Batch] = []
        self._drawn: dict[Recording, WindowRequest] = {}
        self._turns = PriorityScheduler()

    def run(self) -> Iterator[Recording]:
        """Yield recordings that are done or failed; an error in one does not stop the others."""
        for done in self.steps():
            yield from done

    def steps(self) -> Iterator[list[Recording]]:
        """Yield the recordings that each batch completed, mostly none."""
        stages = self._stages
        try:
            with Prefetch(stages.encode, stages.start, enabled=self._encode_ahead) as ahead:
                row = self._row
                while True:
                    if not row and (batch := self._next_batch(ahead)):
                        row.append(batch)
                    if not (row or self._active):
                        break
                    if row:
                        batch = self._first(row, ahead)
                        self._turns.note((one for one, _ in batch.members), self._active)
                        may_wait = self._encode_ahead and not (row or batch.sequential)
                        if may_wait and (waiting := self._next_batch(ahead)):
                            row.append(waiting)
                        yield from self._transcribe(batch, ahead)
                    yield self._done()
        finally:
            for recording in self._active:
                recording.close()

    def _first(self, row: list[_Batch], ahead: _Ahead) -> _Batch:
        """Return the batch to decode next: the first in the row, or one that overtakes it."""
        while not self._turns.is_due(row[0].priority):
            if urgent := self._next_batch(ahead, partial(_overtakes, row[0].priority, False)):
                return urgent
            coming = row[0].encoded.coming
            if coming is None or coming.done() or not self._source.wait(coming):
                break
        return row.pop(0)

    def _overtake(
        self, batch: _Batch, ahead: _Ahead, clock: StageClock, n_steps: int
    ) -> Generator[list[Recording], None, int]:
        """Decode what goes before the next step of a batch; the batch is not timed meanwhile.

        Args:
            batch: is being decoded.
            ahead: encodes.
            clock: of the batch.
            n_steps: of the batch since another one that is as urgent went first.

        Returns:
            that number from now on.
        """
        for_equals = n_steps >= QUANTUM
        self._running.append(batch)
        with clock.paused("decode", "total"):
            while (
                other := self._next_overtaking(batch.priority, ahead, for_equals=for_equals)
            ) is not None:
                self._turns.note((one for one, _ in other.members), self._active)
                yield from self._transcribe(other, ahead)
                self._look_ahead(other.members)
                yield self._done()
                if other.priority == batch.priority:
                    n_steps, for_equals = 0, False
        self._running.pop()
        return n_steps + 1

    def _next_overtaking(self, priority: int, ahead: _Ahead, *, for_equals: bool) -> _Batch | None:
        """Return what goes before a batch of this priority that is being decoded."""
        if self._turns.is_due(priority):
            return None
        if self._row and self._may_overtake(self._row[0], priority - (not for_equals)):
            return self._row.pop(0)
        return self._next_batch(ahead, partial(_overtakes, priority, for_equals))

    def _may_overtake(self, waiting: _Batch, most: int) -> bool:
        """Return whether a batch is urgent enough, and no window of it follows one under way."""
        under_way = {one for batch in self._running for one, _ in batch.members}
        return waiting.priority <= most and under_way.isdisjoint(one for one, _ in waiting.members)

    def _next_batch(
        self, ahead: _Ahead, goes_first: Callable[[Recording], bool] | None = None
    ) -> _Batch | None:
        """Return a new batch; where one waits already, only a more urgent one."""
        members = self._fill(goes_first)
        if not members:
            return None
        requests = [request for _, request in members]
        encoded = ahead.begin(requests, now=len(requests) > 1, apart=goes_first is not None)
        return _Batch(members, encoded)

    def _fill(self, goes_first: Callable[[Recording], bool] | None) -> Members:
        """Take windows of the open recordings in turns, then of new ones."""
        batch: Members = []
        while self._begin(n_free=0) is not None:
            pass
        ready = [one for one in self._active if goes_first is None or goes_first(one)]
        while (n_free := self._source.rows(self._batch_size) - len(batch)) > 0:
            if not ready and goes_first is None and (new := self._begin(n_free)):
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
        """Return the key of windows that may be decoded together."""
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
        """Add the recording's next window to the batch; return whether there was one."""
        request = self._drawn.pop(recording, None) or self._next_window(recording)
        if recording.failure:
            batch[:] = [member for member in batch if member[0] is not recording]
            return False
        if request is not None:
            recording.share.n_windows += 1
            recording.has_begun = True
            batch.append((recording, request))
        return request is not None

    def _next_window(self, recording: Recording) -> WindowRequest | None:
        """Return the recording's next window, if it has one; it fails if it breaks."""
        try:
            return None if recording.failure else recording.next()
        except Exception as error:
            recording.fail(error)
            return None

    def _look_ahead(self, members: Members) -> None:
        """Find out which recordings end with these windows; the next ones of others are kept."""
        for recording, _ in members:
            if (request := self._next_window(recording)) is not None:
                self._drawn[recording] = request

    def _done(self) -> list[Recording]:
        """Remove and finish the recordings that are done or failed."""
        done = [recording for recording in self._active if recording.failure or recording.done]
        self._active = [recording for recording in self._active if recording not in done]
        for recording in done:
            self._drawn.pop(recording, None)
            try:
                recording.finish()
            except Exception as error:
                recording.fail(error)
        return done

    def _transcribe(self, batch: _Batch, ahead: _Ahead) -> Iterator[list[Recording]]:
        """Decode a batch and hand out the results; an expected error fails all of it.

        An unexpected error may come from one window, so each is retried alone.
        """
        members = batch.members
        clock, requests = StageClock(), [request for _, request in members]
        with clock.stage("total"):
            try:
                encoded = batch.encoded.result()
                engine = self._engine(members[0][0])
                steps = engine.steps(encoded, requests)
                results, n_steps = None, 0
                while results is None:
                    try:
                        next(steps)
                    except StopIteration as end:
                        results = end.value
                    else:
                        n_steps = yield from self._overtake(batch, ahead, encoded.clock, n_steps)
                        _expect_wanted(members)
            except Exception as error:
                if len(members) > 1 and not isinstance(error, WhisperHailoError):
                    yield from self._transcribe_each(members, ahead)
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

    def _transcribe_each(self, members: Members, ahead: _Ahead) -> Iterator[list[Recording]]:
        """Decode the windows of a batch one by one, except those of failed recordings."""
        for recording, request in members:
            if not recording.failure:
                encoded = LazyFuture(partial(self._stages.encode, [request]))
                yield from self._transcribe(_Batch([(recording, request)], encoded), ahead)


def _overtakes(priority: int, for_equals: bool, recording: Recording) -> bool:
    """Return whether a recording may go before a batch of this priority."""
    newly_equal = for_equals and recording.priority == priority and not recording.has_begun
    return recording.priority < priority or newly_equal


def _expect_wanted(members: Members) -> None:
    """Raise the reason where no recording of these windows is wanted any more."""
    reasons = [recording.abandoned for recording, _ in members]
    if reasons[0] is not None and None not in reasons:
        raise reasons[0]


def _hand_out(recording: Recording, result: WindowResult) -> None:
    """Give a recording its result, unless it has failed."""
    if recording.failure:
        return
    try:
        recording.take(result)
    except Exception as error:
        recording.fail(error)
