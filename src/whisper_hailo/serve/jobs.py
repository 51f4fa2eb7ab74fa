"""Jobs that clients wait for, and the queue that they wait in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Self, TypeAlias

from whisper_hailo.core.types import BufferText, Segment, Transcript
from whisper_hailo.serve.errors import BusyError, ClientDisconnectedError
from whisper_hailo.serve.quota import ENDING
from whisper_hailo.serve.request import Caller
from whisper_hailo.transcription.recording import FairShare, Recording
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.schedule import WindowSource
from whisper_hailo.transcription.window import WindowRequest, WindowResult

Outcome: TypeAlias = Transcript | BufferText

EventCallback: TypeAlias = Callable[[Segment | Outcome | Exception], None]
"""Called on the engine's thread with each final segment, then with the outcome or the failure."""


class Job(Recording):
    """A recording of a client, which gets its segments as they are final and may leave.

    Attributes:
        run: that it belongs to; `None` once its end is reported.
        asked_s: when it was asked for, by `time.monotonic`.
        begun_s: when its first window was taken up; 0 before.
        is_partial: it is a partial of a live stream, which holds a place of its own, or of a
            command that may not be over yet.
    """

    caller: Caller
    emit: EventCallback
    run: TranscriptionRun | None
    asked_s: float
    begun_s = 0.0
    is_partial = False
    _n_emitted = 0

    def outcome(self, run: TranscriptionRun) -> Outcome:
        return run.transcript(self)

    def leave(self, why: Exception | None = None) -> None:
        """Stop at the next step of the decoder: the client has gone. From any thread."""
        self.abandoned = why or ClientDisconnectedError()

    def next(self) -> WindowRequest | None:
        self._begin_window()
        return super().next()

    def take(self, result: WindowResult) -> None:
        self._expect_wanted()
        super().take(result)
        self._emit_segments()

    def finish(self) -> None:
        super().finish()
        if self.failure is None:
            self._emit_segments()

    def _begin_window(self) -> None:
        self._expect_wanted()
        self.begun_s = self.begun_s or time.monotonic()

    def _expect_wanted(self) -> None:
        if self.abandoned is not None:
            raise self.abandoned

    def _emit_segments(self) -> None:
        new, self._n_emitted = self.segments[self._n_emitted :], len(self.segments)
        for segment in new:
            self.emit(segment)


class PartialJob(Job):
    """A recording of one window, which is there already: `request`."""

    name = "running"
    is_partial = True
    sequential = True
    request: WindowRequest
    _result: WindowResult

    def open(self) -> Self:
        return self

    def next(self) -> WindowRequest | None:
        self._begin_window()
        if self._exhausted:
            return None
        self._exhausted, self._n_waiting = True, 1
        return self.request

    def take(self, result: WindowResult) -> None:
        self._expect_wanted()
        self._n_waiting, self._result = 0, result

    def finish(self) -> None:
        pass

    def outcome(self, run: TranscriptionRun) -> Outcome:
        return run.text(self._result)


class JobQueue(WindowSource):
    """The jobs of all clients.

    Every job is handed to the schedule at once, which decides whose turn it is.

    Attributes:
        used_s: when it changed last, by `time.monotonic`.
    """

    def __init__(self, rest_s: float | None = None) -> None:
        self._rest_s = rest_s
        self._new: list[Job] = []
        self._unfinished: list[Job] = []
        self._condition = threading.Condition()
        self._closed = self._ended = self._releasing = False
        self.n_live = 0
        self.used_s = time.monotonic()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Hold the lock for a change, after which all that wait look again."""
        with self._condition:
            yield
            self.used_s = time.monotonic()
            self._condition.notify_all()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Count a live stream as long as the block lasts; its model is not released."""
        with self._change():
            self.n_live += 1
        try:
            yield
        finally:
            with self._change():
                self.n_live -= 1

    def release(self) -> bool:
        """End the source, as if it had been idle for long; return whether it is idle."""
        with self._change():
            is_idle = not (self._unfinished or self.n_live)
            self._releasing |= is_idle
            return is_idle

    def put(self, job: Job) -> None:
        """Let a job wait for its turn; a partial of a live stream has its place already."""
        with self._change():
            if self._is_over if job.is_partial else self._closed:
                raise BusyError(ENDING)
            shares = {other.caller.client: other.share for other in self._unfinished}
            least = min((share.n_windows for share in shares.values()), default=0)
            job.share = shares.get(job.caller.client) or FairShare(least)
            self._unfinished.append(job)
            self._new.append(job)

    def done(self, job: Job) -> None:
        """Free the place of a job that is over, or left."""
        with self._change():
            if job in self._unfinished:
                self._unfinished.remove(job)

    def take_all(self) -> list[Job]:
        """Return all that is unfinished, and take back what the schedule has not taken up.

        A job whose client left is over, but may still wait for the schedule.
        """
        with self._change():
            new, self._new = self._new, []
            return list(dict.fromkeys([*new, *self._unfinished]))

    def next(self, *, n_free: int, idle: bool) -> Job | None:
        del n_free  # whose turn it is is decided window by window
        with self._condition:
            while not self._new or self._releasing:
                if not idle or self._is_over or self._releasing:
                    return None
                has_changed = self._condition.wait(self._rest_s)
                if not (has_changed or self.n_live):  # idle for too long
                    return None
            return self._new.pop(0)

    def rows(self, most: int) -> int:
        """See `WindowSource`; a live stream waits for no more than one window."""
        return 1 if self.n_live else most

    def wait(self, coming: Future[Any]) -> bool:
        def wake(_: Future[Any]) -> None:
            with self._change():
                pass

        coming.add_done_callback(wake)
        with self._condition:
            self._condition.wait_for(lambda: self._new or coming.done())
            return bool(self._new)

    def wait_for_more(self) -> bool:
        """Wait until there is a job; false where there will be none."""
        with self._condition:
            self._releasing = False
            self._condition.wait_for(lambda: self._new or self._is_over)
            return bool(self._new)

    def close(self) -> None:
        """Take no further job; those that are there are still done."""
        with self._change():
            self._closed = True

    @property
    def _is_over(self) -> bool:
        """Whether nothing comes any more; live streams under way still ask for partial texts."""
        return self._ended or (self._closed and not self.n_live)

    def wait_until_empty(self, timeout_s: float) -> bool:
        with self._condition:
            return self._condition.wait_for(
                lambda: not (self._unfinished or self.n_live), timeout_s
            )

    def leave_all(self, why: Exception) -> None:
        """Give up all jobs, partials of live streams included."""
        with self._change():
            self._closed = self._ended = True
            for job in self._unfinished:
                job.leave(why)

    @property
    def unfinished(self) -> list[Job]:
        with self._condition:
            return self._unfinished.copy()

    @property
    def n_unfinished(self) -> int:
        """Unfinished requests, without partial texts of live streams."""
        return sum(not job.is_partial for job in self.unfinished)

    @property
    def n_waiting(self) -> int:
        """Unfinished requests that are not begun."""
        return sum(not (job.begun_s or job.is_partial) for job in self.unfinished)
