"""The schedule: batches of windows from many recordings, encoded ahead of decoding."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.timing import StageClock
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.stages import LazyFuture, Prefetch, Stages
from whisper_hailo.transcription.window import WindowRequest
from whisper_hailo.transcription.window_cache import CachedWindow, WindowCache, window_key

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

    def note(self, served: Iterable[Recording], waiting: Iterable[Recording]) -> None:
        """Count a decoded batch."""
        passed = {one.priority for one in waiting} - {one.priority for one in served}
        self._passed = {priority: self._passed.get(priority, 0) + 1 for priority in passed}

    def is_due(self, priority: int) -> bool:
        """Return whether work of this priority was passed over for long enough."""
        return self._passed.get(priority, 0) >= PATIENCE

    def next_of(self, ready: Iterable[Recording]) -> Recording:
        """Return the recording whose turn it is; of equal ones, the first."""

        def rank(one: Recording) -> tuple[bool, int, int]:
            return not self.is_due(one.priority), one.priority, one.share.n_windows

        return min(ready, key=rank)


class WindowSource:
    """Where recordings come from; more may come while others are transcribed."""

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        """Return the next recording, not opened yet; `None` when there is none now.

        With no free rows, only urgent recordings should come. When idle, it may block, and `None`
        is the end.
        """
        raise NotImplementedError

    def rows(self, most: int) -> int:
        """Return the most windows of the next batch, up to `most`."""
        return most

    def wait(self, coming: Future[Any]) -> bool:
        """Wait for `coming` or for a new recording; return whether it is a recording."""
        del coming
        return False


class RecordingList(WindowSource):
    """Recordings of a list, in order, as rows become free; none comes before that."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings = iter(recordings)

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del idle
        return next(self._recordings, None) if n_free else None


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
    """Windows that are decoded together.

    Attributes:
        encoded: their audio features, which may be pending; `None` for cached windows.
        cached: their results, if all of them are in the cache.
    """

    members: Members
    encoded: LazyFuture | None
    cached: Sequence[CachedWindow] = ()

    @property
    def recordings(self) -> list[Recording]:
        return [recording for recording, _ in self.members]

    @property
    def priority(self) -> int:
        return self.members[0][0].priority


@dataclass(eq=False)
class Schedule:
    """Runs recordings through the stages, as many windows at a time as a batch holds.

    While a batch is decoded, the next one is encoded. A batch has windows of one priority; a more
    urgent one that arrives overtakes it before it is decoded, as far as `PriorityScheduler` allows,
    without waiting for its encoder. A sequential recording adds one window to a batch, and nothing
    is encoded ahead of it. Recordings with different engines share a batch where the engines have
    the same `batch_key`.

    Args:
        stages: all engines share their encoder.
        cache: windows that are not decoded again.
    """

    source: WindowSource
    stages: Stages
    batch_size: int = 1
    progress: Progress | None = None
    encode_ahead: bool = field(default=True, kw_only=True)
    cache: WindowCache | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        stages = self.stages
        self._prefetch = Prefetch(stages.encode, stages.start, enabled=self.encode_ahead)
        self._active: list[Recording] = []
        self._row: list[_Batch] = []
        self._running: list[_Batch] = []
        self._drawn: dict[Recording, WindowRequest] = {}
        self._turns = PriorityScheduler()

    def run(self) -> Iterator[Recording]:
        """Yield recordings that are done or failed; an error in one does not stop the others."""
        for done in self.run_windows():
            yield from done

    def run_windows(self) -> Iterator[list[Recording]]:
        """Yield the recordings that each batch completed, mostly none."""
        row = self._row
        try:
            with self._prefetch:
                while True:
                    if not row and (batch := self._next_batch()):
                        row.append(batch)
                    if not (row or self._active):
                        break
                    if row:
                        batch = self._first()
                        self._turns.note(batch.recordings, self._active)
                        waits = row or any(one.sequential for one in batch.recordings)
                        if self.encode_ahead and not waits and (waiting := self._next_batch()):
                            row.append(waiting)
                        yield from self._transcribe(batch)
                    yield self._done()
        finally:
            for recording in self._active:
                recording.close()

    def _first(self) -> _Batch:
        """Return the batch to decode next: the first in the row, or one that overtakes it."""
        first = self._row[0]
        while not self._turns.is_due(first.priority):
            if urgent := self._next_batch(partial(_may_overtake, first.priority, False)):
                return urgent
            coming = None if first.encoded is None else first.encoded.coming
            if coming is None or coming.done() or not self.source.wait(coming):
                break
        return self._row.pop(0)

    def _overtake(
        self, batch: _Batch, clock: StageClock, n_steps: int
    ) -> Generator[list[Recording], None, int]:
        """Decode what goes before the next step of a batch; its clock is paused meanwhile.

        `n_steps` are those of the batch since another one that is as urgent went first; the new
        number is returned.
        """
        for_equals = n_steps >= QUANTUM
        self._running.append(batch)
        with clock.paused("decode", "total"):
            while (other := self._next_overtaking(batch.priority, for_equals)) is not None:
                self._turns.note(other.recordings, self._active)
                yield from self._transcribe(other)
                # Find out which of them end with this window; keep the next windows of others.
                for recording in other.recordings:
                    if (request := recording.next_or_fail()) is not None:
                        self._drawn[recording] = request
                yield self._done()
                if other.priority == batch.priority:
                    n_steps, for_equals = 0, False
        self._running.pop()
        return n_steps + 1

    def _next_overtaking(self, priority: int, for_equals: bool) -> _Batch | None:
        """Return what goes before a batch of this priority that is being decoded."""
        if self._turns.is_due(priority):
            return None
        if self._row and self._row[0].priority <= priority - (not for_equals):
            # No window follows one that is under way.
            under_way = {one for batch in self._running for one in batch.recordings}
            if under_way.isdisjoint(self._row[0].recordings):
                return self._row.pop(0)
        return self._next_batch(partial(_may_overtake, priority, for_equals))

    def _next_batch(self, goes_first: Callable[[Recording], bool] | None = None) -> _Batch | None:
        """Return a new batch; where one waits already, only a more urgent one.

        It has windows of the open recordings in turns, then of new ones.
        """
        members: Members = []
        while self._open_next(n_free=0) is not None:
            pass
        ready = [one for one in self._active if goes_first is None or goes_first(one)]
        while (n_free := self.source.rows(self.batch_size) - len(members)) > 0:
            if not ready and goes_first is None and (new := self._open_next(n_free)):
                ready.append(new)
            if not ready:
                break
            recording = self._turns.next_of(ready)
            fits = not members or self._kind(recording) == self._kind(members[0][0])
            if not (fits and self._draw(recording, members)):
                ready.remove(recording)
        return self._begin(members, apart=goes_first is not None) if members else None

    def _begin(self, members: Members, *, apart: bool) -> _Batch:
        """Look windows up in the cache, or start to encode them."""
        requests = [request for _, request in members]
        if self.cache is not None:
            found = [self.cache.recall(window_key(request)) for request in requests]
            cached = [window for window in found if window is not None]
            if len(cached) == len(requests):
                return _Batch(members, None, cached)
        return _Batch(members, self._prefetch.begin(requests, now=len(requests) > 1, apart=apart))

    def _engine(self, recording: Recording) -> DecoderEngine:
        return recording.engine or self.stages.engine

    def _kind(self, recording: Recording) -> Hashable:
        """Return the key of windows that may be decoded together."""
        return recording.priority, self._engine(recording).batch_key

    def _open_next(self, n_free: int) -> Recording | None:
        """Open the next recording, if there is one."""
        idle = n_free > 0 and not self._active
        recording = self.source.next(n_free=n_free, idle=idle)
        if recording is not None:
            self._active.append(recording)
            with recording.failing():
                recording.open()
        return recording

    def _draw(self, recording: Recording, batch: Members) -> bool:
        """Add the recording's next window to the batch; return whether there was one."""
        request = self._drawn.pop(recording, None) or recording.next_or_fail()
        if recording.failure:
            batch[:] = [member for member in batch if member[0] is not recording]
            return False
        if request is not None:
            recording.share.n_windows += 1
            recording.has_begun = True
            batch.append((recording, request))
        return request is not None

    def _done(self) -> list[Recording]:
        """Remove and finish the recordings that are done or failed."""
        done = [recording for recording in self._active if recording.failure or recording.done]
        self._active = [recording for recording in self._active if recording not in done]
        for recording in done:
            self._drawn.pop(recording, None)
            with recording.failing():
                recording.finish()
        return done

    def _transcribe(self, batch: _Batch) -> Iterator[list[Recording]]:
        """Decode a batch and hand out the results; an expected error fails all of it.

        An unexpected error may come from one window, so each is retried alone.
        """
        members, recordings = batch.members, batch.recordings
        clock, requests = StageClock(), [request for _, request in members]
        with clock.stage("total"):
            try:
                cached = zip(batch.cached, requests, strict=False)
                results = [window.again(request) for window, request in cached]
                if batch.encoded is not None:
                    encoded = batch.encoded.result()
                    steps = self._engine(recordings[0]).decode_windows(encoded, requests)
                    n_steps = 0
                    while True:
                        try:
                            next(steps)
                        except StopIteration as end:
                            results = end.value
                            break
                        n_steps = yield from self._overtake(batch, encoded.clock, n_steps)
                        _expect_wanted(recordings)
                    clock.add(encoded.clock)
                    if self.cache is not None:
                        decoded = zip(requests, results, strict=True)
                        self.cache.remember([CachedWindow.of(*pair) for pair in decoded])
            except Exception as error:
                if len(members) > 1 and not isinstance(error, WhisperHailoError):
                    yield from self._transcribe_each(members)
                    return
                for recording in recordings:
                    recording.fail(error)
                return
            for recording, result in zip(recordings, results, strict=True):
                if not recording.failure:
                    with recording.failing():
                        recording.take(result)
        for recording in recordings:
            recording.context.clock.add(clock, 1 / len(members))
        if self.progress is not None:
            self.progress(requests[-1].window.end_s, recordings[-1].stream_duration_s)

    def _transcribe_each(self, members: Members) -> Iterator[list[Recording]]:
        """Decode the windows of a batch one by one, except those of failed recordings."""
        for member in members:
            if not member[0].failure:
                yield from self._transcribe(self._begin([member], apart=True))


def _may_overtake(priority: int, for_equals: bool, recording: Recording) -> bool:
    """Return whether a recording may go before a batch of this priority."""
    newly_equal = for_equals and recording.priority == priority and not recording.has_begun
    return recording.priority < priority or newly_equal


def _expect_wanted(recordings: Sequence[Recording]) -> None:
    """Raise the reason where none of these recordings is wanted any more."""
    reasons = [recording.abandoned for recording in recordings]
    if reasons[0] is not None and None not in reasons:
        raise reasons[0]
