"""Jobs: recordings that clients wait for, and the queue in which they wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias, cast

from whisper_hailo.core.types import BufferText, Segment, Transcript
from whisper_hailo.serve.errors import BusyError, ClientDisconnectedError
from whisper_hailo.serve.quota import ENDING
from whisper_hailo.serve.request import Caller, Priority
from whisper_hailo.transcription.recording import FairShare, Recording
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.schedule import WindowSource
from whisper_hailo.transcription.window import WindowRequest, WindowResult

_COMMAND_S: Final = 1.0
"""Longer than a command takes on most machines."""

Outcome: TypeAlias = Transcript | BufferText

EventCallback: TypeAlias = Callable[[Segment | Outcome | Exception], None]
"""Called on the model's thread with each final segment, then with the outcome or the failure."""


@dataclass(eq=False)
class ClientRecording(Recording):
    """A recording whose client gets each segment as soon as it is final, and may leave.

    Args:
        on_segment: called on the model's thread with each final segment.
        on_window: called there with the priority of each decoded window.

    Attributes:
        begun_s: when its first window was drawn, by `time.monotonic`; 0 before.
    """

    on_segment: Callable[[Segment], None] = field(kw_only=True)
    on_window: Callable[[int], None] = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begun_s = 0.0
        self._n_sent = 0

    def next(self) -> WindowRequest | None:
        self._begin_window()
        return super().next()

    def take(self, result: WindowResult) -> None:
        self.on_window(self.priority)
        self._raise_if_abandoned()
        super().take(result)
        self._send_segments()

    def finish(self) -> None:
        super().finish()
        if self.failure is None:
            self._send_segments()

    def make_outcome(self, run: TranscriptionRun) -> Outcome:
        """Return the transcript of a recording that is done."""
        return run.transcript(self)

    def _begin_window(self) -> None:
        self._raise_if_abandoned()
        if not self.begun_s:
            self.begun_s = time.monotonic()

    def _raise_if_abandoned(self) -> None:
        if self.abandoned is not None:
            raise self.abandoned

    def _send_segments(self) -> None:
        new = self.segments[self._n_sent :]
        self._n_sent = len(self.segments)
        for segment in new:
            self.on_segment(segment)


@dataclass(eq=False)
class PartialRecording(ClientRecording):
    """A recording of one window that is cut already; it gives its text as a whole.

    Args:
        request: the window.
    """

    request: WindowRequest = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._result: WindowResult | None = None

    @property
    def sequential(self) -> bool:
        """Whether the next window depends on the result of the previous one; there is only one."""
        return True

    def open(self) -> Self:
        return self

    def next(self) -> WindowRequest | None:
        self._begin_window()
        if self._exhausted:
            return None
        self._exhausted = True
        self._n_waiting = 1
        return self.request

    def take(self, result: WindowResult) -> None:
        self.on_window(self.priority)
        self._raise_if_abandoned()
        self._n_waiting = 0
        self._result = result

    def finish(self) -> None:
        """Do nothing: there is no file to close, and no segment is held back."""

    def make_outcome(self, run: TranscriptionRun) -> Outcome:
        """Return the text of the window."""
        # A recording without a failure is done when its result is back.
        return run.text(cast(WindowResult, self._result))


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A recording that a client waits for.

    Attributes:
        run: that the recording belongs to.
        asked_s: when it was asked for, by `time.monotonic`.
        is_partial: it is a partial of a live stream, which holds a place of its own, or of a
            command that may go on.
    """

    recording: ClientRecording
    caller: Caller
    emit: EventCallback
    run: TranscriptionRun
    asked_s: float
    is_partial: bool = False

    def cancel(self, reason: Exception | None = None) -> None:
        """Stop at the next step of the decoder, by default because the client left.

        May be called from any thread.
        """
        self.recording.abandoned = reason or ClientDisconnectedError()

    def make_outcome(self) -> Outcome | None:
        """Return the text of a job that is over; `None` if it failed."""
        if self.recording.failure is not None:
            return None
        return self.recording.make_outcome(self.run)


class JobQueue(WindowSource):
    """The jobs of all clients.

    Every job is handed to the schedule at once, which decides whose turn it is.

    Attributes:
        used_s: when the queue changed last, by `time.monotonic`.
        n_live: live streams under way.
    """

    def __init__(self, rest_s: float | None = None) -> None:
        self._rest_s = rest_s
        self._new: list[Job] = []  # the schedule has not taken them up
        self._unfinished: list[Job] = []  # they hold a place
        self._unreported: dict[Recording, Job] = {}
        self._condition = threading.Condition()
        self._is_closed = False
        self._is_ended = False
        self._is_releasing = False
        self.n_live = 0
        self.used_s = time.monotonic()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Hold the lock for a change, and wake all threads that wait for one."""
        with self._condition:
            yield
            self.used_s = time.monotonic()
            self._condition.notify_all()

    @contextmanager
    def count_live_stream(self) -> Iterator[None]:
        """Count a live stream as long as the block lasts; its model is not released."""
        with self._change():
            self.n_live += 1
        try:
            yield
        finally:
            with self._change():
                self.n_live -= 1

    def release_if_idle(self) -> bool:
        """End the source as if it had been idle for long; return whether it is idle."""
        with self._change():
            is_idle = not (self._unfinished or self.n_live)
            if is_idle:
                self._is_releasing = True
            return is_idle

    def put(self, job: Job) -> None:
        """Let a job wait for its turn.

        Raises:
            BusyError: the server ends. Partials of live streams are taken until those are over.
        """
        with self._change():
            is_refused = self._is_over if job.is_partial else self._is_closed
            if is_refused:
                raise BusyError(ENDING)
            job.recording.share = self._share_of(job.caller.client)
            self._unfinished.append(job)
            self._unreported[job.recording] = job
            self._new.append(job)

    def _share_of(self, client: str) -> FairShare:
        """Return the share of a client; that of a new client is as small as anybody's."""
        shares = {job.caller.client: job.recording.share for job in self._unfinished}
        # One that began at 0 would go before all who have waited for long.
        least = min((share.n_windows for share in shares.values()), default=0)
        return shares.get(client) or FairShare(least, takes_turns=True)

    def free_place(self, job: Job) -> None:
        """Free the place of a job that is over, or whose client left."""
        with self._change():
            if job in self._unfinished:
                self._unfinished.remove(job)

    def job_of(self, recording: Recording) -> Job | None:
        """Return the job of a recording; `None` if its end was reported."""
        with self._condition:
            return self._unreported.get(recording)

    def remove(self, job: Job) -> None:
        """Remove a job whose end is being reported."""
        self.free_place(job)
        with self._condition:
            del self._unreported[job.recording]

    def take_back_all(self) -> list[Job]:
        """Return all jobs that were not reported, and let the schedule take up none of them.

        A job whose client left has no place, but the schedule may not have seen it yet.
        """
        with self._change():
            self._new.clear()
            return list(self._unreported.values())

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del n_free  # whose turn it is is decided window by window
        with self._condition:
            while not self._new or self._is_releasing:
                if not idle or self._is_over or self._is_releasing:
                    return None
                has_changed = self._condition.wait(self._rest_s)
                if not (has_changed or self.n_live):  # idle for too long
                    return None
            return self._new.pop(0).recording

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

    def wait_for_audio(self, is_ready: Callable[[], bool]) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._new or is_ready())

    def wait_for_commands(self) -> None:
        """Wait until no command is under way, but not for long if they keep coming."""
        with self._condition:
            self._condition.wait_for(lambda: not self._has_command(), _COMMAND_S)

    def _has_command(self) -> bool:
        return any(
            job.recording.priority <= Priority.INTERACTIVE for job in self._unfinished
        )

    def wake(self) -> None:
        """Let the schedule look for audio that has come. From any thread."""
        with self._condition:
            self._condition.notify_all()

    def wait_for_more(self) -> bool:
        """Wait until there is a job; return false if there will be none."""
        with self._condition:
            self._is_releasing = False
            self._condition.wait_for(lambda: self._new or self._is_over)
            return bool(self._new)

    def close(self) -> None:
        """Take no further job; those that are here are still done."""
        with self._change():
            self._is_closed = True

    @property
    def _is_over(self) -> bool:
        """Whether no job comes any more; live streams under way still ask for partial texts."""
        return self._is_ended or (self._is_closed and not self.n_live)

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until all jobs and live streams are over; return whether they are."""
        with self._condition:
            return self._condition.wait_for(
                lambda: not (self._unfinished or self.n_live), timeout_s
            )

    def cancel_all(self, reason: Exception) -> None:
        """Cancel all jobs, partials of live streams included, and take no more."""
        with self._change():
            self._is_closed = True
            self._is_ended = True
            for job in self._unfinished:
                job.cancel(reason)

    @property
    def unfinished(self) -> list[Job]:
        """Jobs that hold a place."""
        with self._condition:
            return self._unfinished.copy()

    @property
    def n_unfinished(self) -> int:
        """Unfinished requests, without partial texts of live streams."""
        return sum(not job.is_partial for job in self.unfinished)

    @property
    def n_waiting(self) -> int:
        """Unfinished requests whose first window was not drawn yet."""
        return sum(
            not (job.recording.begun_s or job.is_partial) for job in self.unfinished
        )
