"""Windows that were decoded before, in a run that did not come to its end.

A recording that is transcribed again goes through all of its windows again: its plan cuts them,
and what came of them leads on. Only what takes long, encoding and decoding, is not done a second
time. So nothing has to be known of the state in which a run was interrupted, and the text is that
of a run that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np

from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import Segment
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowEngine,
    WindowRequest,
    WindowResult,
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What came of a window.

    Attributes:
        key: tells the window from others, see `key_of`.
        decoded: its tokens.
        segments: timed in the recording.
        advance_s: as in `WindowResult`, like those that follow.
        ends_alone: likewise.
        silent: likewise.
        end_s: likewise.
        language: likewise.
        recording_language: of its recording; `auto` while that is not sure.
        language_probs: of its recording, where they were found out.
    """

    key: str
    decoded: Decoded
    segments: tuple[Segment, ...]
    advance_s: float
    ends_alone: bool
    silent: bool
    end_s: float | None
    language: str
    recording_language: str
    language_probs: dict[str, float]

    @classmethod
    def of(cls, request: WindowRequest, result: WindowResult) -> Remembered:
        """What is to be known of a window that was decoded."""
        return cls(
            key_of(request),
            result.decoded,
            result.segments,
            result.advance_s,
            result.ends_alone,
            result.silent,
            result.end_s,
            result.language,
            request.context.language,
            dict(request.context.language_probs),
        )

    def again(self, request: WindowRequest) -> WindowResult:
        """The result, and what its recording knows by it."""
        context = request.context
        context.n_windows += 1
        if context.language == AUTO_LANGUAGE:
            context.language = self.recording_language
            context.language_probs = dict(self.language_probs)
            context.n_detections += 1
        return WindowResult(
            request.window,
            self.decoded,
            self.segments,
            self.advance_s,
            ends_alone=self.ends_alone,
            silent=self.silent,
            end_s=self.end_s,
            language=self.language,
        )


class Memory(Protocol):
    """Keeps what came of windows."""

    def recall(self, key: str) -> Remembered | None:
        """What came of a window; `None` if that is not known."""
        ...

    def remember(self, batch: Sequence[Remembered]) -> None:
        """Keep what came of windows that were decoded together: all of them or none."""
        ...


def key_of(request: WindowRequest) -> str:
    """Tells a window from all others: its samples, its place, and the text that it is shown.

    What is the same for all windows of a run is not in it.
    """
    window, context = request.window, request.context
    shown = context.previous if context.sequential else ()
    digest = blake2b(window.audio.tobytes(), digest_size=16)
    digest.update(f"{window.start_s!r} {window.needs_words} {shown}".encode())
    return digest.hexdigest()


class RememberingStages(Stages):
    """Stages that windows do not go through twice.

    Windows that were decoded together are known together, for what they are encoded as depends on
    each other by a last bit.

    Args:
        stages: what they go through.
        memory: what is known of some.
    """

    def __init__(self, stages: Stages, memory: Memory) -> None:
        super().__init__(stages.encoder, stages.engine, stages.plan, stages.draft)
        self._memory = memory

    def encode(self, requests: Sequence[WindowRequest]) -> Encoded:
        """See `Stages`; known windows are not encoded."""
        return self._known(requests) or super().encode(requests)

    @property
    def start(self) -> Callable[[Sequence[WindowRequest]], Callable[[], Encoded]] | None:
        """See `Stages`; known windows are not encoded."""
        begin = super().start
        if begin is None:
            return None

        def begin_unknown(requests: Sequence[WindowRequest]) -> Callable[[], Encoded]:
            known = self._known(requests)
            return begin(requests) if known is None else lambda: known

        return begin_unknown

    def engine_of(self, own: WindowEngine | None) -> WindowEngine:
        """See `Stages`; known windows are not decoded, others are known from now on."""
        return _RememberingEngine(super().engine_of(own), self._memory)

    def _known(self, requests: Sequence[WindowRequest]) -> _Known | None:
        found = [self._memory.recall(key_of(request)) for request in requests]
        windows = tuple(one for one in found if one is not None)
        if len(windows) < len(requests):
            return None
        return _Known(np.zeros((0, 0, 0), np.float32), StageClock(), windows=windows)


class _RememberingEngine:
    def __init__(self, engine: WindowEngine, memory: Memory) -> None:
        self._engine = engine
        self._memory = memory
        self.batch_key: Hashable = engine.batch_key

    def context(self) -> Context:
        return self._engine.context()

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        if isinstance(encoded, _Known):
            pairs = zip(encoded.windows, requests, strict=True)
            return [window.again(request) for window, request in pairs]
        results = self._engine.transcribe(encoded, requests)
        self._memory.remember(
            [Remembered.of(*pair) for pair in zip(requests, results, strict=True)]
        )
        return results


@dataclass(frozen=True, slots=True)
class _Known(Encoded):
    """Windows that need no encoding.

    Attributes:
        windows: what came of them.
    """

    windows: tuple[Remembered, ...] = ()
