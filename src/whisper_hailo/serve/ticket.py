"""Tickets: requests that were accepted, seen from the event loop that answers them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import UNSPACED_LANGUAGES, Segment, Transcript
from whisper_hailo.serve.errors import DeadlineExceededError
from whisper_hailo.serve.jobs import Job, Outcome
from whisper_hailo.serve.request import Priority
from whisper_hailo.serve.served_model import ServedModel

JobEvent: TypeAlias = Segment | Outcome | Exception


class EventChannel:
    """Events of a job on their way from the model's thread to the running event loop.

    A job holds its channel and not its ticket, which holds the job: without that cycle, the audio
    of a client that left is freed at once.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[JobEvent] = asyncio.Queue()

    def emit(self, event: JobEvent) -> None:
        """Queue an event. From any thread."""
        # The model may finish a job of a loop that has ended.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def receive(self) -> JobEvent:
        """Return the next event, as soon as there is one."""
        return await self._events.get()


class Ticket(Closing):
    """A request that was accepted: its segments as they are final, then its transcript.

    Closing it cancels what is not done.

    Attributes:
        duration_s: length of the recording, if it is known.
    """

    def __init__(
        self,
        model: ServedModel,
        job: Job,
        events: EventChannel,
        *,
        duration_s: float | None,
        deadline_s: float,
    ) -> None:
        self.job = job
        self.duration_s = duration_s
        self._model = model
        self._events = events
        self._deadline_s = deadline_s
        self._deadline = asyncio.get_running_loop().time() + deadline_s
        self._transcript: Transcript | None = None

    async def segments(self) -> AsyncIterator[Segment]:
        """Yield each segment when it is final; afterwards there is the transcript.

        Raises:
            DeadlineExceededError: the request took too long.
        """
        while True:
            try:
                async with asyncio.timeout_at(self._deadline):
                    event = await self._events.receive()
            except TimeoutError:
                raise DeadlineExceededError(
                    f"the request exceeded its {self._deadline_s:g} s deadline; send shorter audio "
                    "or retry when the server is less busy"
                ) from None
            if isinstance(event, Exception):
                try:
                    raise event
                finally:
                    # The traceback holds this frame; without the cycle the error, and all that
                    # its frames hold, is freed at once.
                    del event
            if isinstance(event, Segment):
                yield event
            elif isinstance(event, Transcript):
                self._transcript = event
                return

    async def deltas(self) -> AsyncIterator[tuple[str, Segment]]:
        """Yield what each segment adds to the text, with the space before it, and the segment."""
        space = ""
        async for segment in self.segments():
            if segment.text:
                yield space + segment.text, segment
                space = "" if segment.language in UNSPACED_LANGUAGES else " "

    async def result(self, priority: Priority | None = None) -> Transcript:
        """Return the transcript, from now on with another priority if one is given."""
        if priority is not None:
            self.job.recording.priority = priority
        async for _ in self.segments():
            pass
        return self.transcript

    @property
    def transcript(self) -> Transcript:
        """The transcript, once all segments have come.

        Raises:
            RuntimeError: segments are still to come.
        """
        if self._transcript is None:
            raise RuntimeError("the transcript is incomplete; read all segments first")
        return self._transcript

    def close(self) -> None:
        self._model.cancel(self.job)
