"""Live audio transcribed by a served model, together with the requests of other clients."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import cast

from whisper_hailo.core.types import BufferText, FloatArray, Segment, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.recognizer import WhisperRecognizer
from whisper_hailo.serve.errors import ClientDisconnectedError, DeadlineExceededError
from whisper_hailo.serve.jobs import EventCallback, Job, Outcome
from whisper_hailo.serve.request import Caller, Choices
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.transcription.partials import PartialBuffer


class LiveRecognizer(WhisperRecognizer):
    """A `WhisperRecognizer` whose buffers wait in the queue of a served model.

    `transcribe` blocks until the model has decoded the buffer.

    Raises:
        ClientDisconnectedError: it was cancelled.
        DeadlineExceededError: a buffer was not decoded within `deadline_s`.
    """

    def __init__(
        self,
        model: ServedModel,
        options: DecodingOptions,
        caller: Caller,
        deadline_s: float,
    ) -> None:
        super().__init__(model.transcriber, options)
        self.model = model
        self._caller = caller
        self._deadline_s = deadline_s
        self._job: Job | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Cancel the buffer that is being decoded, and refuse later ones. From any thread."""
        self._is_cancelled = True
        job = self._job  # the thread that decodes may be done with it meanwhile
        if job is not None:
            job.cancel()

    def _with_options(self, options: DecodingOptions) -> LiveRecognizer:
        return LiveRecognizer(self.model, options, self._caller, self._deadline_s)

    def transcribe_item(self, audio: FloatArray, choices: Choices) -> Transcript:
        """Return the transcript of `(n_samples,)` at 16 kHz, as if it was uploaded."""
        outcome = self._wait_for(
            lambda emit: self.model.transcribe_item(audio, choices, self._caller, emit)
        )
        return cast(Transcript, outcome)

    def _run(self, buffer: PartialBuffer, options: DecodingOptions) -> BufferText:
        outcome = self._wait_for(
            lambda emit: self.model.transcribe_partial(
                buffer, options, self._caller, emit
            )
        )
        return cast(BufferText, outcome)

    def _wait_for(self, submit: Callable[[EventCallback], Job]) -> Segment | Outcome:
        """Return the outcome of a job, given what submits it."""
        # Not a future, which would hold the error that its caller raises, and so what was sent.
        events: SimpleQueue[Segment | Outcome | Exception] = SimpleQueue()
        self._job = submit(events.put)
        try:
            # `cancel` may have come before there was a job to cancel.
            if self._is_cancelled:
                raise ClientDisconnectedError
            event = events.get(timeout=self._deadline_s)
        except Empty:
            raise DeadlineExceededError(
                f"live audio exceeded its {self._deadline_s:g} s deadline; retry later"
            ) from None
        finally:
            self.model.cancel(self._job)
            self._job = None
        if isinstance(event, Exception):
            try:
                raise event
            finally:
                del event  # the traceback holds this frame
        return event
