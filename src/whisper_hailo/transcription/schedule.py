"""Which windows of which recordings are decoded together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.timing import StageClock
from whisper_hailo.transcription.longform.plan import Heard
from whisper_hailo.transcription.prefetch import Ahead
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.stages import Encoded, Hearing

Progress: TypeAlias = Callable[[float, float | None], None]
"""Called after each window with seconds done and seconds in all (`None`: unknown)."""

Active: TypeAlias = deque[Recording | Exception]
"""Recordings under way and errors, in the order of the sources."""

Members: TypeAlias = list[tuple[Recording, Window]]

SourceT = TypeVar("SourceT")


@dataclass(frozen=True, slots=True)
class _Batch:
    """Windows that are decoded together, and what waits for their audio features."""

    members: Members
    encoded: Callable[[], Encoded]

    @property
    def sequential(self) -> bool:
        """Whether what comes next depends on it."""
        return any(recording.sequential for recording, _ in self.members)


def in_batches(
    sources: Iterable[SourceT],
    begin: Callable[[SourceT], Recording],
    hearing: Hearing,
    batch_size: int,
    progress: Progress | None = None,
    *,
    encode_ahead: bool = True,
) -> Iterator[Recording | Exception]:
    """Run recordings through the windows, as many windows at a time as a batch holds.

    While a batch is decoded, the next one is encoded. A recording whose windows wait for each
    other gives one to a batch, others fill it up, and nothing is encoded ahead; the next
    recording is opened when those before it leave room.

    Args:
        sources: what to open.
        begin: opens one.
        hearing: takes a batch of windows to text.
        batch_size: most windows of a batch.
        progress: told after each batch how far the first unfinished recording is.
        encode_ahead: without it, encoder and decoder take turns.

    Yields:
        finished recordings, or what kept them from finishing, in the order of the sources: whatever
        error one makes, foreseen or not, the others have their turn.
    """
    waiting = iter(sources)
    active: Active = deque()

    def next_batch() -> _Batch | None:
        members = _fill(waiting, active, begin, batch_size)
        windows = [window for _, window in members]
        return _Batch(members, ahead.begin(windows)) if members else None

    try:
        with Ahead(hearing.encode, hearing.start, enabled=encode_ahead) as ahead:
            batch = next_batch()
            while batch or active:
                following = None
                if batch:
                    if encode_ahead and not batch.sequential:
                        following = next_batch()
                    _run(batch, hearing, active, progress)
                yield from _finished(active)
                batch = following or next_batch()
    finally:
        for outcome in active:
            if isinstance(outcome, Recording):
                outcome.close()


def _finished(active: Active) -> Iterator[Recording | Exception]:
    """Take finished recordings and errors from the front."""
    while active and (isinstance(active[0], Exception) or active[0].done):
        outcome = active.popleft()
        if isinstance(outcome, Recording):
            try:
                outcome.finish()
            except Exception as error:
                outcome.close()
                outcome = error
        yield outcome


def _fill(
    waiting: Iterator[SourceT],
    active: Active,
    begin: Callable[[SourceT], Recording],
    batch_size: int,
) -> Members:
    """Windows of the recordings under way, then of new ones."""
    batch: Members = []
    for index, recording in enumerate(active):
        if isinstance(recording, Recording):
            active[index] = _draw(recording, batch, batch_size)
    while len(batch) < batch_size:
        try:
            source = next(waiting)
        except StopIteration:
            break
        try:
            recording = begin(source)
        except Exception as error:
            active.append(error)
        else:
            active.append(_draw(recording, batch, batch_size))
    return batch


def _draw(recording: Recording, batch: Members, batch_size: int) -> Recording | Exception:
    """Add the recording's next windows to the batch; a broken recording becomes its error."""
    try:
        while len(batch) < batch_size and (window := recording.next()) is not None:
            batch.append((recording, window))
    except Exception as error:
        recording.close()
        batch[:] = [(other, window) for other, window in batch if other is not recording]
        return error
    return recording


def _run(batch: _Batch, hearing: Hearing, active: Active, progress: Progress | None) -> None:
    """Hear a batch and hand out the results; its error is that of every recording in it.

    An error that nobody foresaw may come of one window, so each is heard again by itself.
    """
    members = batch.members
    clock = StageClock()
    with clock.stage("total"):
        contexts = [recording.context for recording, _ in members]
        windows = [window for _, window in members]
        try:
            heard = hearing.interpret(batch.encoded(), windows, contexts)
        except Exception as error:
            if len(members) == 1 or isinstance(error, WhisperHailoError):
                _fail([recording for recording, _ in members], active, error)
            else:
                _run_each(members, hearing, active, progress)
            return
        for (recording, _), result in zip(members, heard, strict=True):
            _take(recording, result, active)
    for recording, _ in members:
        recording.context.clock.add(clock, 1 / len(members))
    if progress is not None:
        recording, window = members[-1]
        progress(window.end_s, recording.stream_duration_s)


def _run_each(
    members: Members, hearing: Hearing, active: Active, progress: Progress | None
) -> None:
    """Hear the windows of a batch one by one, but for those of recordings that broke meanwhile."""
    for recording, window in members:
        if recording in active:
            alone = _Batch([(recording, window)], partial(hearing.encode, [window]))
            _run(alone, hearing, active, progress)


def _take(recording: Recording, result: Heard, active: Active) -> None:
    """Give a recording its result, unless an earlier one of the batch broke it."""
    if recording not in active:
        return
    try:
        recording.take(result)
    except Exception as error:
        _fail([recording], active, error)


def _fail(recordings: list[Recording], active: Active, error: Exception) -> None:
    """Put an error in the place of recordings; those after them have their turn."""
    for index, outcome in enumerate(active):
        if isinstance(outcome, Recording) and outcome in recordings:
            outcome.close()
            active[index] = error
