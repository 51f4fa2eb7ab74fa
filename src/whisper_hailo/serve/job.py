"""Jobs: recordings, and partial texts of live streams, that clients wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Self, TypeAlias

from whisper_hailo.core.types import BufferText, Segment, Transcript
from whisper_hailo.decoding.search.loop import Steps
from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.request import Caller
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowEngine,
    WindowRequest,
    WindowResult,
)

Outcome: TypeAlias = Transcript | BufferText

EventCallback: TypeAlias = Callable[[Segment | Outcome | Exception], None]
"""Called on the engine's thread with each final segment, then with the outcome or the failure."""


class Job(Recording):
    """A recording of a client, who is told of its segments as they are final, and may leave.

    Attributes:
        caller: whose it is.
        emit: tells the client.
        asked_s: when it was asked for, by `time.monotonic`.
        begun_s: when its first window was taken up; 0 before.
        is_partial: it is one look of a live stream, which holds a place of its own.
    """

    caller: Caller
    emit: EventCallback
    is_partial: ClassVar[bool] = False

    def __init__(self, *of_recording: Any, **named: Any) -> None:  # noqa: ANN401 - those of `Recording`
        super().__init__(*of_recording, **named)
        self.asked_s = time.monotonic()
        self.begun_s = 0.0
        self._n_told = 0
        self._left: Exception | None = None

    def outcome(self, run: TranscriptionRun) -> Outcome:
        """What became of it, once it is done."""
        return run.transcript(self)

    def leave(self, why: Exception | None = None) -> None:
        """Decode no further window: the client has gone. From any thread."""
        self._left = why or ClientDisconnectedError("the client left")

    def next(self) -> WindowRequest | None:
        """See `Recording`."""
        self._expect_wanted()
        if not self.begun_s:
            self.begun_s = time.monotonic()
        return self.window()

    def window(self) -> WindowRequest | None:
        """The next window; see `Recording.next`."""
        return super().next()

    def take(self, result: WindowResult) -> None:
        """See `Recording`; tells of what is final with it."""
        self._expect_wanted()
        self.note(result)
        self._tell_segments()

    def note(self, result: WindowResult) -> None:
        """Note the result of a window; see `Recording.take`."""
        super().take(result)

    def finish(self) -> None:
        """See `Recording`; tells of what is left."""
        super().finish()
        if self.failure is None:
            self._tell_segments()

    def _expect_wanted(self) -> None:
        if self._left is not None:
            raise self._left

    def _tell_segments(self) -> None:
        new, self._n_told = self.segments[self._n_told :], len(self.segments)
        for segment in new:
            self.emit(segment)


class _Alone:
    """An engine whose windows share no batch with others: those with a draft are decoded alone."""

    def __init__(self, engine: WindowEngine) -> None:
        self._engine = engine
        self.batch_key: Hashable = object()

    def context(self) -> Context:
        return self._engine.context()

    def steps(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        return self._engine.steps(encoded, requests)


class PartialJob(Job):
    """A recording of one window, which is there already."""

    is_partial: ClassVar[bool] = True

    _request: WindowRequest
    _result: WindowResult

    def set_window(self, request: WindowRequest) -> None:
        """Take this as its only window."""
        self._request = request
        if self.engine is not None:
            self.engine = _Alone(self.engine)

    def open(self) -> Self:
        """Nothing has to be opened."""
        self.name = "running"
        return self

    @property
    def sequential(self) -> bool:
        return True

    def window(self) -> WindowRequest | None:
        if self._exhausted:
            return None
        self._exhausted, self._n_waiting = True, 1
        return self._request

    def note(self, result: WindowResult) -> None:
        self._n_waiting, self._result = 0, result

    def finish(self) -> None:
        pass

    def outcome(self, run: TranscriptionRun) -> Outcome:
        return run.text(self._result)
