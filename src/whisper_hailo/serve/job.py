"""A recording that somebody waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from whisper_hailo.core.buffers import BufferText
from whisper_hailo.core.types import Segment, Transcript
from whisper_hailo.serve.errors import LeftError
from whisper_hailo.serve.request import Caller
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.window import WindowRequest, WindowResult

Outcome: TypeAlias = Transcript | BufferText

Told: TypeAlias = Callable[[Segment | Outcome | Exception], None]
"""Told of each segment when it is final, and at the end of the outcome or of what prevented it; on
the engine's thread."""


@dataclass(frozen=True, slots=True)
class _EndedPlan:
    """What the schedule asks of the plan of a job that is over."""

    sequential: bool


class Job(Recording):
    """A recording of a client, who is told of its segments as they are final, and may leave.

    Attributes:
        caller: whose it is.
        tell: tells the client.
        asked_s: when it was asked for, by `time.monotonic`.
        begun_s: when its first window was taken up; 0 before.
        is_look: it is one look of a live stream, which holds a place of its own.
    """

    caller: Caller
    tell: Told
    is_look: ClassVar[bool] = False

    def __init__(self, *of_recording: Any, **named: Any) -> None:  # noqa: ANN401 - those of `Recording`
        super().__init__(*of_recording, **named)
        self.asked_s = time.monotonic()
        self.begun_s = 0.0
        self._n_told = 0
        self._left: Exception | None = None

    def outcome(self, run: TranscriptionRun) -> Outcome:
        """What became of it, once it is done.

        Args:
            run: that it is of.
        """
        return run.transcript(self)

    def leave(self, why: Exception | None = None) -> None:
        """Nobody waits for it any more; no further window is decoded. From any thread.

        Args:
            why: what is to be told instead of the transcript.
        """
        self._left = why or LeftError("the client left")

    def next(self) -> WindowRequest | None:
        """See `Recording`.

        Raises:
            LeftError: nobody waits for it any more.
        """
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

    def free_audio(self) -> None:
        """Drop the audio and what reads it: the schedule holds its last job until the next."""
        for name in ("_source", "_stream", "_feed", "_windows"):
            vars(self).pop(name, None)
        if "_plan" in vars(self):
            self._plan = _EndedPlan(self._plan.sequential)  # type: ignore[assignment]

    def _expect_wanted(self) -> None:
        if self._left is not None:
            raise self._left

    def _tell_segments(self) -> None:
        new, self._n_told = self.segments[self._n_told :], len(self.segments)
        for segment in new:
            self.tell(segment)
