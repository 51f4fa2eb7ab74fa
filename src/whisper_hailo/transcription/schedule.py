"""Which windows of which recordings are decoded together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.timing import StageClock
from whisper_hailo.transcription.prefetch import Prefetch
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.turns import Turns
from whisper_hailo.transcription.window import Encoded, WindowEngine, WindowRequest, WindowResult

Progress: TypeAlias = Callable[[float, float | None], None]
"""Called after each window with seconds done and seconds in all (`None`: unknown)."""

Members: TypeAlias = list[tuple[Recording, WindowRequest]]


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


class Listed:
    """Recordings in the order of a list, the next one when there is room.

    Args:
        recordings: not opened yet.
    """

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings = iter(recordings)

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del idle
        return next(self._recordings, None) if n_free else None

    def rows(self, most: int) -> int:
        """As many as there are."""
        return most


@dataclass(frozen=True, slots=True)
class _Batch:
    """Windows that are decoded together, and what waits for their audio features."""

    members: Members
    encoded: Callable[[], Encoded]

    @property
    def sequential(self) -> bool:
        """Whether what comes next depends on it."""
        return any(recording.sequential for recording, _ in self.members)

    @property
    def priority(self) -> int:
        """Of the most urgent of its windows."""
        return min(recording.priority for recording, _ in self.members)


class Schedule:
    """Runs recordings through the stages, as many windows at a time as a batch holds.

    While a batch is decoded, the next one is encoded; what is more urgent and comes meanwhile goes
    before it, as far as `Turns` lets it. A recording whose windows wait for each other gives one to
    a batch, others fill it up, and nothing is encoded ahead. Recordings with engines of their own
    share a batch where these have the same `batch_key`.

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
        self._turns = Turns()

    def run(self) -> Iterator[Recording]:
        """Transcribe all that comes.

        Yields:
            recordings that are done, or that failed: whatever error one makes, foreseen or not, the
            others have their turn.
        """
        for done in self.steps():
            yield from done

    def steps(self) -> Iterator[list[Recording]]:
        """Likewise, batch by batch: those that one made done, mostly none."""
        stages = self._stages
        try:
            with Prefetch(stages.encode, stages.start, enabled=self._encode_ahead) as ahead:
                batch, waiting = self._next_batch(ahead), None
                while batch or self._active:
                    if batch:
                        self._turns.note((one for one, _ in batch.members), self._active)
                        if self._encode_ahead and not (waiting or batch.sequential):
                            waiting = self._next_batch(ahead)
                        self._transcribe(batch)
                    yield self._done()
                    if urgent := self._next_batch(ahead, waiting):
                        batch = urgent
                    else:
                        batch, waiting = waiting, None
        finally:
            for recording in self._active:
                recording.close()

    def _next_batch(
        self, ahead: Prefetch[Sequence[WindowRequest], Encoded], waiting: _Batch | None = None
    ) -> _Batch | None:
        """What is to be decoded next; where a batch waits already, only what is more urgent."""
        if waiting is not None and self._turns.is_due(waiting.priority):
            return None
        members = self._fill() if waiting is None else self._fill(waiting.priority)
        if not members:
            return None
        return _Batch(members, ahead.begin([request for _, request in members]))

    def _fill(self, before: int | None = None) -> Members:
        """Windows of the recordings under way, each time of the one whose turn it is; then of new.

        Args:
            before: only of those whose priority is less.
        """
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
            fits = not batch or self._key(recording) == self._key(batch[0][0])
            if not (fits and self._draw(recording, batch)):
                ready.remove(recording)
        return batch

    def _engine(self, recording: Recording) -> WindowEngine:
        return recording.engine or self._stages.engine

    def _key(self, recording: Recording) -> Hashable:
        return self._engine(recording).batch_key

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
            return False
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

        An error that nobody foresaw may come of one window, so each is tried again by itself.
        """
        members = batch.members
        clock, requests = StageClock(), [request for _, request in members]
        with clock.stage("total"):
            try:
                encoded = batch.encoded()
                engine = self._engine(members[0][0])
                results = self._stages.decode(encoded, requests, engine)
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
                encoded = partial(self._stages.encode, [request])
                self._transcribe(_Batch([(recording, request)], encoded))


def _hand_out(recording: Recording, result: WindowResult) -> None:
    """Give a recording its result, unless an earlier one of the batch broke it."""
    if recording.failure:
        return
    try:
        recording.take(result)
    except Exception as error:
        recording.fail(error)


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
