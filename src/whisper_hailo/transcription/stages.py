"""The stages of a window before the decoder: log-mel and encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, TypeAlias

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.protocols import AsyncEncoder, Closing, Encoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.window import Encoded, WindowRequest

StartEncoding: TypeAlias = Callable[[Sequence[WindowRequest]], Callable[[], Encoded]]
"""Starts to encode windows, and returns a function that waits for the result."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages that batches of windows go through; the encoder is open."""

    encoder: Encoder
    engine: DecoderEngine
    plan: WindowPlan

    def encode(self, requests: Sequence[WindowRequest]) -> Encoded:
        """Encode at least one window; may run in a thread.

        Trimmed windows are encoded one by one: none depends on the longest of its batch.
        """
        clock = StageClock()
        sizes = {
            self.plan.samples_for(request.window.audio.size) for request in requests
        }
        if len(sizes) == 1:
            return Encoded(self._encode(requests, clock), clock)
        features = [self._encode([request], clock)[0] for request in requests]
        n_positions = np.array([len(rows) for rows in features], dtype=np.int64)
        d_model = features[0].shape[1]
        padded = np.zeros((len(features), n_positions.max(), d_model), dtype=np.float32)
        for index, rows in enumerate(features):
            padded[index, : len(rows)] = rows
        return Encoded(padded, clock, n_positions=n_positions)

    def _encode(
        self, requests: Sequence[WindowRequest], clock: StageClock
    ) -> FloatArray:
        """Return `(n_requests, n_audio_ctx, d_model)` audio features."""
        mel = self._mel(requests, clock)
        with clock.stage("encode"):
            return self.encoder.encode(mel)

    def _mel(self, requests: Sequence[WindowRequest], clock: StageClock) -> FloatArray:
        """Return `(n_requests, n_mels, n_frames)`, as long as the longest window needs."""
        with clock.stage("mel"):
            n_mels = self.encoder.spec.dims.n_mels
            longest = max(request.window.audio.size for request in requests)
            n_samples = self.plan.samples_for(longest)
            mels = [
                log_mel(pad_or_trim(request.window.audio, n_samples), n_mels)
                for request in requests
            ]
            return np.stack(mels)

    @property
    def start(self) -> StartEncoding | None:
        """Starts `encode`, for asynchronous encoders; `None` for others."""
        encoder = self.encoder
        if not isinstance(encoder, AsyncEncoder):
            return None

        def start(requests: Sequence[WindowRequest]) -> Callable[[], Encoded]:
            clock = StageClock()
            encoding = encoder.encode_async(self._mel(requests, clock))

            def wait() -> Encoded:
                features = encoding.result()
                clock.note("encode", encoding.took_ms)
                return Encoded(features, clock)

            return wait

        return start


class Prefetch(Closing):
    """Encodes windows before their features are needed.

    In a thread, a single call waits until its result is asked for or another call follows it: a
    recording of one window, or sequential windows, need no thread.

    Args:
        encode: called one at a time, except for calls that are `apart`.
        start: asynchronous version.
        enabled: otherwise each call runs when its result is asked for.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[WindowRequest]], Encoded],
        start: StartEncoding | None = None,
        *,
        enabled: bool = True,
    ) -> None:
        self._encode = encode
        self._start = start if enabled else None
        needs_thread = enabled and start is None
        self._thread = ThreadPoolExecutor(1, "encode") if needs_thread else None
        self._last: LazyFuture | None = None

    def begin(
        self,
        requests: Sequence[WindowRequest],
        *,
        now: bool = False,
        apart: bool = False,
    ) -> LazyFuture:
        """Start one call; in a thread, with `now`, without waiting for another call.

        With `apart` it runs when its result is asked for, whatever the thread does meanwhile.
        """
        if self._start is not None:
            try:
                return LazyFuture(self._start(requests))
            except Exception as error:  # raised where the result is asked for
                return LazyFuture(partial(_raise_error, error))
        call = LazyFuture(partial(self._encode, requests))
        if self._thread is None or apart:
            return call
        before = self._last
        self._last = call
        if before is not None and not before.asked:
            before.run_in(self._thread)
            now = True
        if now:
            call.run_in(self._thread)
        return call

    def close(self) -> None:
        """Cancel pending calls and wait for running ones."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


class LazyFuture:
    """A call that runs in a thread once started, else when its result is asked for.

    Attributes:
        coming: its future in a thread, once started.
        asked: its result was asked for.
    """

    def __init__(self, function: Callable[[], Encoded]) -> None:
        self._function = function
        self.coming: Future[Encoded] | None = None
        self.asked = False

    def run_in(self, thread: ThreadPoolExecutor) -> None:
        """Run the call in a thread, unless it does already."""
        if self.coming is None:
            self.coming = thread.submit(self._function)

    def result(self) -> Encoded:
        """Return the result; wait for it, or run the call here."""
        self.asked = True
        return self._function() if self.coming is None else self.coming.result()


def _raise_error(error: Exception) -> NoReturn:
    raise error
