"""The schedule: batches of windows from many recordings, encoded ahead of decoding."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.timing import StageClock
from whisper_hailo.decoding.search.loop import Steps
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.repair import repair_windows
from whisper_hailo.transcription.stages import LazyFuture, Prefetch, Stages
from whisper_hailo.transcription.window import WindowRequest, WindowResult
from whisper_hailo.transcription.window_cache import (
    CachedWindow,
    WindowCache,
    window_key,
)

PATIENCE: Final = 8
"""Batches after which waiting work goes before more urgent work."""

SLICE: Final = 16
"""Steps of an interrupted batch until it may be interrupted again: as long as a short command."""

QUANTUM: Final = 48
"""Steps of a batch before another one may go first that is as urgent: some ten seconds of speech.

Hard speech takes hundreds: text that runs on, then a beam search, then samples.
"""


class PriorityScheduler:
    """The lowest priority number goes first; within it, the client that had least.

    Nothing starves: however much urgent work comes, one of nine batches is of waiting work. A batch
    that was interrupted so often gets some steps, not all that it needs: somebody may wait for a
    command.
    """

    def __init__(self) -> None:
        self._n_passed: dict[int, int] = {}
        """For each priority that waits, the batches that went before it."""
        self._n_left: dict[int, int] = {}
        """For each priority that was due, the steps until it may be interrupted again."""
        self._n_steps: Counter[int] = Counter()
        """For each priority, its steps since it was interrupted."""

    def note(self, served: Iterable[Recording], waiting: Iterable[Recording]) -> None:
        """Count a batch that is about to be decoded."""
        waiting_priorities = {recording.priority for recording in waiting}
        served_priorities = {recording.priority for recording in served}
        for priority in served_priorities:
            if self.is_due(priority):
                self._n_left[priority] = SLICE
        self._n_passed = {
            priority: self._n_passed.get(priority, 0) + 1
            for priority in waiting_priorities - served_priorities
        }

    def note_step(self, priority: int) -> None:
        """Count a step of a batch; enough of them are as good as a batch."""
        self._n_steps[priority] += 1
        if priority in self._n_left:
            self._n_left[priority] -= 1
        if self._n_steps[priority] >= SLICE:
            self._n_passed.pop(priority, None)
            self.note_end(priority)

    def note_end(self, priority: int) -> None:
        """Note that a batch is decoded."""
        self._n_steps.pop(priority, None)
        self._n_left.pop(priority, None)

    def is_due(self, priority: int) -> bool:
        """Return whether work of this priority was passed over for long enough."""
        return self._n_passed.get(priority, 0) >= PATIENCE

    def may_interrupt(self, priority: int) -> bool:
        """Return whether a batch of this priority may be interrupted."""
        return not self.is_due(priority) and not self._n_left.get(priority)

    def next_of(self, ready: Iterable[Recording]) -> Recording:
        """Return the recording whose turn it is; of equal ones, the first."""

        def rank(recording: Recording) -> tuple[bool, int, int, int]:
            is_due = self.is_due(recording.priority)
            share = recording.share
            n_drawn = recording.n_drawn if share.takes_turns else 0
            return not is_due, recording.priority, share.n_windows, n_drawn

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

    def wait_for_audio(self, is_ready: Callable[[], bool]) -> None:
        """Wait for a new recording, or until a recording that comes piece by piece is ready."""


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
    in_order: deque[Recording] = deque()
    done: list[Recording] = []

    def remember_order() -> Iterator[Recording]:
        for recording in recordings:
            in_order.append(recording)
            yield recording

    for recording in schedule(RecordingList(remember_order())).run():
        done.append(recording)
        while in_order and in_order[0] in done:
            done.remove(in_order[0])
            yield in_order.popleft()


Progress: TypeAlias = Callable[[float, float | None], None]
"""Called after each window with seconds done and seconds in all (`None`: unknown)."""

Members: TypeAlias = list[tuple[Recording, WindowRequest]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Windows that are decoded together.

    Attributes:
        encoded: their audio features, which may be pending; `None` for cached windows.
        cached: their results, if all of them are in the cache.
        overtakes: others wait for it.
    """

    members: Members
    encoded: LazyFuture | None
    cached: Sequence[CachedWindow] = ()
    overtakes: bool = False

    @property
    def recordings(self) -> list[Recording]:
        """The recording of each window."""
        return [recording for recording, _ in self.members]

    @property
    def requests(self) -> list[WindowRequest]:
        """The windows."""
        return [request for _, request in self.members]

    @property
    def priority(self) -> int:
        """That of all its recordings."""
        return self.members[0][0].priority


@dataclass(frozen=True, slots=True)
class _Phase:
    """A part of what is done with a batch.

    Attributes:
        clock: times it.
        stages: those that are paused while others go before a step.
        steps: `None` where all is done.
        results: those of the batch, where all is done.
    """

    clock: StageClock
    stages: tuple[str, ...] = ()
    steps: Steps[Any] | None = None
    results: Sequence[WindowResult] = ()


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
        self._prefetch = Prefetch(
            stages.encode_windows, stages.start, enabled=self.encode_ahead
        )
        self._active: list[Recording] = []
        self._queue: list[_Batch] = []  # encoded ahead, to be decoded
        self._running: list[_Batch] = []  # interrupted by others that overtook them
        self._drawn: dict[
            Recording, WindowRequest
        ] = {}  # windows that no batch has yet
        self._turns = PriorityScheduler()

    def run(self) -> Iterator[Recording]:
        """Yield recordings that are done or failed; an error in one does not stop the others."""
        for done in self.run_windows():
            yield from done

    def run_windows(self) -> Iterator[list[Recording]]:
        """Yield the recordings that each batch completed, mostly none."""
        try:
            with self._prefetch:
                while True:
                    if not self._queue:
                        self._queue_batch()
                    if self._queue:
                        batch = self._next_to_decode()
                        self._turns.note(batch.recordings, self._active)
                        if self._can_encode_ahead(batch):
                            self._queue_batch()
                        yield from self._transcribe(batch)
                        if len(self._active) > 1:
                            self._find_ends(batch)
                    elif not self._active:
                        break
                    else:
                        self.source.wait_for_audio(self._has_ready)
                    yield self._remove_done()
        finally:
            for recording in self._active:
                recording.close()

    def _find_ends(self, batch: _Batch) -> None:
        """Find out which recordings end with this batch; keep the next windows of others.

        Else those that are done would be reported after the next batch, which is of others.
        """
        for recording in dict.fromkeys(batch.recordings):
            if recording in self._drawn or not recording.is_ready:
                continue
            request = recording.next_or_fail()
            if request is not None:
                self._drawn[recording] = request

    def _has_ready(self) -> bool:
        """Return whether a window can be drawn, or an end noted, without waiting for audio."""
        return any(recording.is_ready for recording in self._active)

    def _can_encode_ahead(self, batch: _Batch) -> bool:
        """Return whether the windows after a batch can be encoded while it is decoded."""
        is_sequential = any(recording.sequential for recording in batch.recordings)
        return self.encode_ahead and not self._queue and not is_sequential

    def _queue_batch(self) -> None:
        """Begin the next batch, if there are windows for one."""
        batch = self._next_batch()
        if batch is not None:
            self._queue.append(batch)

    def _next_to_decode(self) -> _Batch:
        """Return the first batch in the queue, or one that overtakes it."""
        first = self._queue[0]
        while not self._turns.is_due(first.priority):
            urgent = self._next_batch(partial(_may_overtake, first.priority, False))
            if urgent is not None:
                return urgent
            # Until its encoder is done, a more urgent recording may still come.
            coming = None if first.encoded is None else first.encoded.coming
            if coming is None or coming.done() or not self.source.wait(coming):
                break
        return self._queue.pop(0)

    def _overtake(
        self, batch: _Batch, n_steps: int
    ) -> Generator[list[Recording], None, int]:
        """Decode what goes before the next step of a batch.

        `n_steps` are those of the batch since another one that is as urgent went first; the new
        number is returned.
        """
        for_equals = n_steps >= QUANTUM
        self._running.append(batch)
        while True:
            other = self._next_overtaking(batch.priority, for_equals)
            if other is None:
                break
            self._turns.note(other.recordings, self._active)
            yield from self._transcribe(other)
            self._find_ends(other)
            yield self._remove_done()
            if other.priority == batch.priority:
                n_steps = 0
                for_equals = False
        self._running.pop()
        return n_steps + 1

    def _next_overtaking(self, priority: int, for_equals: bool) -> _Batch | None:
        """Return what goes before a batch of this priority that is being decoded."""
        if not self._turns.may_interrupt(priority):
            return None
        least_urgent = priority if for_equals else priority - 1
        if self._queue and self._queue[0].priority <= least_urgent:
            # No window follows one that is under way.
            under_way = {
                recording for batch in self._running for recording in batch.recordings
            }
            if under_way.isdisjoint(self._queue[0].recordings):
                return self._queue.pop(0)
        return self._next_batch(partial(_may_overtake, priority, for_equals))

    def _next_batch(
        self, goes_first: Callable[[Recording], bool] | None = None
    ) -> _Batch | None:
        """Return a new batch; with `goes_first`, only of open recordings for which it is true.

        It has windows of the open recordings in turns, then of new ones.
        """
        while self._open_next(n_free=0) is not None:
            pass  # all that are urgent
        members: Members = []
        ready = [recording for recording in self._active if recording.is_ready]
        if goes_first is not None:
            ready = [recording for recording in ready if goes_first(recording)]
        while True:
            n_free = self.source.rows(self.batch_size) - len(members)
            if n_free <= 0:
                break
            if not ready and goes_first is None:
                new = self._open_next(n_free)
                if new is not None:
                    ready.append(new)
            if not ready:
                break
            recording = self._turns.next_of(ready)
            fits = not members or self._kind(recording) == self._kind(members[0][0])
            can_draw = fits and recording.is_ready
            if not can_draw or not self._draw(recording, members):
                ready.remove(recording)
        if not members:
            return None
        return self._begin(members, apart=goes_first is not None)

    def _begin(self, members: Members, *, apart: bool) -> _Batch:
        """Look windows up in the cache, or start to encode them."""
        requests = [request for _, request in members]
        cached = self._recall(requests)
        if cached is not None:
            return _Batch(members, None, cached)
        encoded = self._prefetch.begin(requests, now=len(requests) > 1, apart=apart)
        return _Batch(members, encoded, overtakes=apart)

    def _recall(self, requests: Sequence[WindowRequest]) -> list[CachedWindow] | None:
        """Return the cached results of windows; `None` unless all of them are known."""
        if self.cache is None:
            return None
        windows: list[CachedWindow] = []
        for request in requests:
            window = self.cache.recall(window_key(request))
            if window is None:
                return None
            windows.append(window)
        return windows

    def _remember(
        self, requests: Sequence[WindowRequest], results: Sequence[WindowResult]
    ) -> None:
        """Put the results of a decoded batch into the cache, if there is one."""
        if self.cache is not None:
            pairs = zip(requests, results, strict=True)
            self.cache.remember(
                [CachedWindow.of(request, result) for request, result in pairs]
            )

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
        request = self._drawn.pop(recording, None)
        if request is None:
            request = recording.next_or_fail()
        if recording.failure is not None:
            batch[:] = [member for member in batch if member[0] is not recording]
            return False
        if request is None:
            return False
        recording.share.n_windows += 1
        recording.n_drawn += 1
        batch.append((recording, request))
        return True

    def _remove_done(self) -> list[Recording]:
        """Remove and finish the recordings that are done or failed."""
        done = [
            recording
            for recording in self._active
            if recording.failure is not None or recording.done
        ]
        self._active = [
            recording for recording in self._active if recording not in done
        ]
        for recording in done:
            self._drawn.pop(recording, None)
            with recording.failing():
                recording.finish()
        return done

    def _transcribe(self, batch: _Batch) -> Iterator[list[Recording]]:
        """Decode a batch and hand out the results; others go before its steps.

        An expected error fails all of it.
        """
        clock = StageClock()
        # What overtakes others has the processor for itself.
        pause = self._prefetch.paused() if batch.overtakes else nullcontext()
        with pause, clock.stage("total"):
            try:
                phases = self._phases(batch, clock)
                phase = next(phases)
                n_steps = 0
                while phase.steps is not None:
                    try:
                        next(phase.steps)
                    except StopIteration as end:
                        phase = phases.send(end.value)
                        continue
                    self._turns.note_step(batch.priority)
                    with phase.clock.paused(*phase.stages):
                        n_steps = yield from self._overtake(batch, n_steps)
                    _raise_if_abandoned(batch.recordings)
            except Exception as error:
                yield from self._fail(batch, error)
                return
            _hand_out(batch.recordings, phase.results)
        for recording in batch.recordings:
            recording.context.clock.add(clock, 1 / len(batch.members))
        if self.progress is not None:
            last = batch.recordings[-1]
            self.progress(batch.requests[-1].window.end_s, last.stream_duration_s)

    def _phases(self, batch: _Batch, clock: StageClock) -> Generator[_Phase, Any, None]:
        """Yield the phases of a batch, given the result of each; the last one has no steps.

        They are run by `_transcribe` itself, so that a traceback is no longer than it has to be.
        """
        requests = batch.requests
        if batch.encoded is None:
            pairs = zip(batch.cached, requests, strict=True)
            results = [window.again(request) for window, request in pairs]
            yield _Phase(clock, results=results)
            return
        engine = self._engine(batch.recordings[0])
        encoding = batch.encoded.steps(self._wait_for_other(batch))
        encoded = yield _Phase(clock, ("total",), encoding)
        stages = ("decode", "total")
        decoding = engine.decode_windows(encoded, requests)
        results = yield _Phase(encoded.clock, stages, decoding)
        repairing = repair_windows(
            engine, self.stages.encode, encoded.clock, requests, results
        )
        results = yield _Phase(encoded.clock, stages, repairing)
        self._turns.note_end(batch.priority)
        clock.add(encoded.clock)
        self._remember(requests, results)
        yield _Phase(clock, results=results)

    def _wait_for_other(self, batch: _Batch) -> Callable[[Future[Any]], bool]:
        """Return what waits for a batch's encoder, or for a recording that may go before it."""
        if self._turns.may_interrupt(batch.priority):
            return self.source.wait
        return lambda _: False

    def _fail(self, batch: _Batch, error: Exception) -> Iterator[list[Recording]]:
        """Let the recordings of a batch fail.

        An unexpected error may come from one window, so each is retried alone.
        """
        if len(batch.members) > 1 and not isinstance(error, WhisperHailoError):
            yield from self._transcribe_each(batch.members)
        else:
            for recording in batch.recordings:
                recording.fail(error)

    def _transcribe_each(self, members: Members) -> Iterator[list[Recording]]:
        """Decode the windows of a batch one by one, except those of failed recordings."""
        for member in members:
            recording = member[0]
            if recording.failure is None:
                yield from self._transcribe(self._begin([member], apart=True))


def _hand_out(recordings: Sequence[Recording], results: Sequence[WindowResult]) -> None:
    """Give the results of windows to their recordings."""
    for recording, result in zip(recordings, results, strict=True):
        if recording.failure is None:
            with recording.failing():
                recording.take(result)


def _may_overtake(priority: int, for_equals: bool, recording: Recording) -> bool:
    """Return whether a recording may go before a batch of this priority."""
    if recording.priority < priority:
        return True
    return for_equals and recording.priority == priority and not recording.n_drawn


def _raise_if_abandoned(recordings: Sequence[Recording]) -> None:
    """Raise the reason where none of these recordings is wanted any more."""
    reasons = [recording.abandoned for recording in recordings]
    if reasons[0] is not None and None not in reasons:
        raise reasons[0]
