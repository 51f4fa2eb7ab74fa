"""One pass of windows through the stages: log-mel, encoder, and the engine behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.protocols import AsyncEncoder, Encoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray
from whisper_hailo.transcription.window import WindowEngine, WindowRequest, WindowResult


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of windows behind the encoder.

    Attributes:
        features: `(batch, n_audio_ctx, d_model)` float32; `None` where none are wanted.
        clock: what that took.
    """

    features: FloatArray | None
    clock: StageClock


class Stages:
    """What batches of windows go through on their way to text.

    Args:
        encoder: log-mel to audio features, open; `None` where the engine takes audio itself.
        engine: audio features to segments.
        plan: sizes of the windows.

    Attributes:
        encoder: as given, like the others.
        engine: likewise.
        plan: likewise.
    """

    def __init__(self, encoder: Encoder | None, engine: WindowEngine, plan: WindowPlan) -> None:
        self.encoder = encoder
        self.engine = engine
        self.plan = plan

    def encode(self, requests: Sequence[WindowRequest]) -> Encoded:
        """Take at least one window from audio to audio features; it may run in a thread."""
        clock = StageClock()
        if self.encoder is None:
            return Encoded(None, clock)
        mel = self._mel(self.encoder, requests, clock)
        with clock.stage("encode"):
            return Encoded(self.encoder.encode(mel), clock)

    def decode(
        self,
        encoded: Encoded,
        requests: Sequence[WindowRequest],
        engine: WindowEngine | None = None,
    ) -> list[WindowResult]:
        """Take windows that were encoded together to segments, as one batch.

        Args:
            encoded: what `encode` made of them.
            requests: the windows.
            engine: of their recordings; `None` is the one that all have in common.
        """
        return (engine or self.engine).transcribe(encoded.features, requests, encoded.clock)

    @property
    def start(self) -> Callable[[Sequence[WindowRequest]], Callable[[], Encoded]] | None:
        """Begins `encode` and gives back what waits for it, where the encoder works by itself."""
        encoder = self.encoder
        return partial(self._start, encoder) if isinstance(encoder, AsyncEncoder) else None

    def _start(
        self, encoder: AsyncEncoder, requests: Sequence[WindowRequest]
    ) -> Callable[[], Encoded]:
        clock = StageClock()
        encoding = encoder.encode_async(self._mel(encoder, requests, clock))

        def wait() -> Encoded:
            features = encoding.result()
            clock.note("encode", encoding.took_ms)
            return Encoded(features, clock)

        return wait

    def _mel(
        self, encoder: Encoder, requests: Sequence[WindowRequest], clock: StageClock
    ) -> FloatArray:
        with clock.stage("mel"):
            audio = [request.window.audio for request in requests]
            # A batch has one shape: that of its longest audio.
            size = self.plan.samples_for(max(own.size for own in audio))
            n_mels = encoder.spec.dims.n_mels
            return np.stack([log_mel(pad_or_trim(own, size), n_mels) for own in audio])
