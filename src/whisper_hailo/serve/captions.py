"""The engine of a server for one stream of captions."""

from __future__ import annotations

from concurrent.futures import Future

from whisper_hailo.core.types import BufferText, Segment
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.engine import TranscriberEngine
from whisper_hailo.serve.errors import ClientDisconnectedError, DeadlineExceededError
from whisper_hailo.serve.job import Outcome, PartialJob
from whisper_hailo.serve.request import Caller
from whisper_hailo.serve.worker import Worker
from whisper_hailo.transcription.partials import PartialBuffer


class EngineCaptions(TranscriberEngine):
    """A `TranscriberEngine` whose buffers are decoded by a worker, together with other requests.

    `transcribe` waits for the worker, so it is called on a thread of its own.

    Args:
        worker: open.
        options: of the stream.
        caller: whose stream it is.
        deadline_s: for each buffer.

    Raises:
        OptionError: see `TranscriberEngine`.
    """

    def __init__(
        self, worker: Worker, options: DecodingOptions, caller: Caller, deadline_s: float
    ) -> None:
        super().__init__(worker.transcriber, options)
        self._worker = worker
        self._caller = caller
        self._deadline_s = deadline_s
        self._job: PartialJob | None = None
        self._left = False

    def _with(self, options: DecodingOptions) -> EngineCaptions:
        return EngineCaptions(self._worker, options, self._caller, self._deadline_s)

    def _run(self, buffer: PartialBuffer, options: DecodingOptions) -> BufferText:
        """Have the worker decode a buffer.

        Raises:
            DeadlineExceededError: it took longer than the deadline.
            ClientDisconnectedError: the client has disconnected.
            WhisperHailoError: the worker's error.
        """
        result: Future[BufferText] = Future()

        def emit(event: Segment | Outcome | Exception) -> None:
            if isinstance(event, Exception):
                result.set_exception(event)
            elif isinstance(event, BufferText):
                result.set_result(event)

        job = self._job = self._worker.transcribe_partial(buffer, options, self._caller, emit)
        try:
            if self._left:  # before there was a job to leave
                raise ClientDisconnectedError("the client left")
            return result.result(self._deadline_s)
        except TimeoutError:
            raise DeadlineExceededError(
                f"live audio exceeded its {self._deadline_s:g} s deadline; retry later"
            ) from None
        finally:
            self._worker.leave(job)

    def leave(self) -> None:
        """Cancel the running buffer: the client has disconnected. From any thread."""
        self._left = True
        if self._job is not None:
            self._job.leave()
