"""The engine of a server for one stream of captions, look by look."""

from __future__ import annotations

from concurrent.futures import Future

from whisper_hailo.core.types import BufferText, FloatArray, Segment
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.engine import options_in
from whisper_hailo.serve.errors import ClientDisconnectedError, DeadlineExceededError
from whisper_hailo.serve.job import Outcome, PartialJob
from whisper_hailo.serve.request import Caller
from whisper_hailo.serve.worker import Worker
from whisper_hailo.transcription.partials import PartialBuffer


class EngineCaptions:
    """The engine of a server for one stream of captions: see `CaptionEngine`.

    Args:
        worker: open.
        options: of the stream; decoded greedily, without times by the model.
        caller: whose stream it is.
        deadline_s: most seconds of a look.
    """

    def __init__(
        self, worker: Worker, options: DecodingOptions, caller: Caller, deadline_s: float
    ) -> None:
        self._worker = worker
        self._options = options
        self._caller = caller
        self._deadline_s = deadline_s
        self._look: PartialJob | None = None
        self._left = False

    @property
    def name(self) -> str:
        return self._worker.name

    @property
    def content_s(self) -> float:
        """The window less its margin."""
        return self._worker.transcriber.content_s

    @property
    def language(self) -> str:
        """As set; `auto`: it is found out."""
        return self._options.language

    def in_language(self, language: str) -> EngineCaptions:
        """For the same caller, in another language; see `CaptionEngine`."""
        options = options_in(self._options, language)
        self._worker.transcriber.check(options)
        return EngineCaptions(self._worker, options, self._caller, self._deadline_s)

    def transcribe(
        self,
        audio: FloatArray,
        draft: Draft,
        *,
        language: str | None = None,
        word_times: bool = False,
        hold_back_s: float = 0.0,
    ) -> BufferText:
        """See `CaptionEngine`. It waits, so it is called on a thread of its own.

        Raises:
            DeadlineExceededError: it was not heard by its deadline.
            ClientDisconnectedError: the client has gone.
            WhisperHailoError: what kept it from being heard.
        """
        options = self._options
        if language is not None:
            options = options_in(options, language)
        heard: Future[BufferText] = Future()

        def emit(event: Segment | Outcome | Exception) -> None:
            if isinstance(event, Exception):
                heard.set_exception(event)
            elif isinstance(event, BufferText):
                heard.set_result(event)

        running = PartialBuffer(audio, draft, word_times, hold_back_s)
        look = self._look = self._worker.transcribe_partial(running, options, self._caller, emit)
        try:
            if self._left:  # before there was a look to leave
                raise ClientDisconnectedError("the client left")
            return heard.result(self._deadline_s)
        except TimeoutError:
            raise DeadlineExceededError(
                f"live audio exceeded its {self._deadline_s:g} s deadline; retry later"
            ) from None
        finally:
            self._worker.leave(look)

    def leave(self) -> None:
        """Free the place of a running partial: the client has gone. From any thread."""
        self._left = True
        if self._look is not None:
            self._look.leave()
