"""One look at audio that goes on, among the windows of recordings."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Self

from whisper_hailo.serve.job import Job, Outcome
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowEngine,
    WindowRequest,
    WindowResult,
)


class _Alone:
    """An engine whose windows share no batch with others: those with a draft are decoded alone."""

    def __init__(self, engine: WindowEngine) -> None:
        self._engine = engine
        self.batch_key: Hashable = object()

    def context(self) -> Context:
        return self._engine.context()

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        return self._engine.transcribe(encoded, requests)


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
