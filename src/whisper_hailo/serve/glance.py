"""One look at audio that goes on, among the windows of recordings."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, ClassVar, Self

from whisper_hailo.core.buffers import BufferText
from whisper_hailo.core.types import FloatArray, Segment
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.captioning.engine import options_in
from whisper_hailo.serve.errors import LeftError, TooLateError
from whisper_hailo.serve.job import Job, Outcome
from whisper_hailo.serve.request import Caller
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.running_text import Running
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowEngine,
    WindowRequest,
    WindowResult,
)

if TYPE_CHECKING:
    from whisper_hailo.serve.worker import Worker


class _Alone:
    """An engine whose windows share no batch with others: those with a draft are decoded alone.

    Args:
        engine: that decodes.
    """

    def __init__(self, engine: WindowEngine) -> None:
        self._engine = engine
        self.batch_key: Hashable = object()

    def context(self) -> Context:
        """See `WindowEngine`."""
        return self._engine.context()

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        """See `WindowEngine`."""
        return self._engine.transcribe(encoded, requests)


class Glance(Job):
    """A recording of one window, which is there already."""

    is_look: ClassVar[bool] = True

    _request: WindowRequest
    _result: WindowResult

    def look_at(self, request: WindowRequest) -> None:
        """This is its window."""
        self._request = request
        if self.engine is not None:
            self.engine = _Alone(self.engine)

    def open(self) -> Self:
        """Nothing has to be opened."""
        self.name = "running"
        return self

    @property
    def sequential(self) -> bool:
        """Nothing comes behind it."""
        return True

    def window(self) -> WindowRequest | None:
        """See `Job`."""
        if self._exhausted:
            return None
        self._exhausted, self._n_waiting = True, 1
        return self._request

    def note(self, result: WindowResult) -> None:
        """See `Job`."""
        self._n_waiting, self._result = 0, result

    def finish(self) -> None:
        """Nothing is left."""

    def outcome(self, run: TranscriptionRun) -> Outcome:
        """See `Job`."""
        return run.text(self._result)


class EngineCaptions:
    """The engine of a server for one stream of captions: a `CaptionEngine` of `live.engine`.

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
        self._look: Glance | None = None
        self._left = False

    @property
    def name(self) -> str:
        """The model's."""
        return self._worker.transcriber.settings(self._options).model

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
            TooLateError: it was not heard by its deadline.
            LeftError: nobody wants to know any more.
            WhisperHailoError: what kept it from being heard.
        """
        options = self._options
        if language is not None:
            options = options_in(options, language)
        heard: Future[BufferText] = Future()

        def tell(event: Segment | Outcome | Exception) -> None:
            if isinstance(event, Exception):
                heard.set_exception(event)
            elif isinstance(event, BufferText):
                heard.set_result(event)

        running = Running(audio, draft, word_times, hold_back_s)
        look = self._look = self._worker.look(running, options, self._caller, tell)
        try:
            if self._left:  # before there was a look to leave
                raise LeftError("the client left")
            return heard.result(self._deadline_s)
        except TimeoutError:
            raise TooLateError(f"it was not heard in {self._deadline_s:g} s; ask later") from None
        finally:
            self._worker.leave(look)

    def leave(self) -> None:
        """Nobody wants to know any more: a look under way frees its place. From any thread."""
        self._left = True
        if self._look is not None:
            self._look.leave()
