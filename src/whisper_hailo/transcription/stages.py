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
        clock, features = StageClock(), []
        sizes = {self.plan.samples_for(request.window.audio.size) for request in requests}
        batches = [requests] if len(sizes) == 1 else [[request] for request in requests]
        for batch in batches:
            mel = self._mel(batch, clock)
            with clock.stage("encode"):
                features.append(self.encoder.encode(mel))
        if len(sizes) == 1:
            return Encoded(features[0], clock)
        n_positions = np.array([rows.shape[1] for rows in features], dtype=np.int64)
        padded = np.zeros((len(batches), n_positions.max(), features[0].shape[2]), np.float32)
        for row, (own,) in zip(padded, features, strict=True):
            row[: len(own)] = own
        return Encoded(padded, clock, n_positions=n_positions)

    @property
    def start(self) -> Callable[[Sequence[WindowRequest]], Callable[[], Encoded]] | None:
        """Starts `encode` and returns a function that waits for it, for asynchronous encoders."""
        encoder = self.encoder
        if not isinstance(encoder, AsyncEncoder):
            return None

        def start(requests: Requests) -> Callable[[], Encoded]:
            clock = StageClock()
            encoding = encoder.encode_async(self._mel(requests, clock))

            def wait() -> Encoded:
                features = encoding.result()
                clock.note("encode", encoding.took_ms)
                return Encoded(features, clock)

            return wait

        return start

    def _mel(self, requests: Sequence[WindowRequest], clock: StageClock) -> FloatArray:
        with clock.stage("mel"):
            audio = [request.window.audio for request in requests]
            size = self.plan.samples_for(max(own.size for own in audio))
            n_mels = self.encoder.spec.dims.n_mels
            return np.stack([log_mel(pad_or_trim(own, size), n_mels) for own in audio])


Requests: TypeAlias = Sequence[WindowRequest]


class Prefetch(Closing):
    """Encodes windows before their features are needed.

    In a thread, a single call waits until its result is asked for or another call follows it: a
    recording of one window, or sequential windows, need no thread.

    Args:
        encode: called one at a time, except for calls that are `apart`.
        start: asynchronous version, which returns a function that waits.
        enabled: otherwise each call runs when its result is asked for.
    """

    def __init__(
        self,
        encode: Callable[[Requests], Encoded],
        start: Callable[[Requests], Callable[[], Encoded]] | None = None,
        *,
        enabled: bool = True,
    ) -> None:
        self._encode = encode
        self._start = start if enabled else None
        by_thread = enabled and start is None
        self._thread = ThreadPoolExecutor(1, "encode") if by_thread else None
        self._last: LazyFuture | None = None

    def begin(self, requests: Requests, *, now: bool = False, apart: bool = False) -> LazyFuture:
        """Start one call; in a thread, with `now`, without waiting for another call.

        With `apart` it runs when its result is asked for, whatever the thread does meanwhile.
        """
        if self._start is not None:
            try:
                return LazyFuture(self._start(requests))
            except Exception as error:
                return LazyFuture(partial(_raise_error, error))
        call = LazyFuture(partial(self._encode, requests))
        if self._thread is None or apart:
            return call
        before, self._last = self._last, call
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

    `coming` is its future in a thread, once started.
    """

    def __init__(self, function: Callable[[], Encoded]) -> None:
        self._function = function
        self.coming: Future[Encoded] | None = None
        self.asked = False

    def run_in(self, thread: ThreadPoolExecutor) -> None:
        if self.coming is None:
            self.coming = thread.submit(self._function)

    def result(self) -> Encoded:
        self.asked = True
        return self._function() if self.coming is None else self.coming.result()


def _raise_error(error: Exception) -> NoReturn:
    raise error
