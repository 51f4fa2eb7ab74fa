"""The stages of a window before the decoder: log-mel and encoder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, TypeAlias

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.protocols import AsyncEncoder, Closing, Encoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.search.loop import Steps, run_steps
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.window import Encoded, WindowRequest

EncodeWindows: TypeAlias = Callable[[Sequence[WindowRequest]], Steps[Encoded]]
"""Encodes windows; yields between them, when others may go first."""

StartEncoding: TypeAlias = Callable[[Sequence[WindowRequest]], Callable[[], Encoded]]
"""Starts to encode windows, and returns a function that waits for the result."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages that batches of windows go through; the encoder is open."""

    encoder: Encoder
    engine: DecoderEngine
    plan: WindowPlan

    def encode(self, requests: Sequence[WindowRequest]) -> Encoded:
        """Encode at least one window, without interruptions; may run in a thread."""
        return run_steps(self.encode_windows(requests))

    def encode_windows(self, requests: Sequence[WindowRequest]) -> Steps[Encoded]:
        """Encode at least one window; yield between windows, when others may go first.

        They are encoded one by one: no trimmed window depends on the longest of its batch, and
        none has to wait for all of them.
        """
        clock = StageClock()
        features = [self._encode(requests[0], clock)]
        for request in requests[1:]:
            yield
            features.append(self._encode(request, clock))
        n_positions = np.array([len(rows) for rows in features], dtype=np.int64)
        if np.all(n_positions == n_positions[0]):
            return Encoded(np.stack(features), clock)
        d_model = features[0].shape[1]
        padded = np.zeros((len(features), n_positions.max(), d_model), dtype=np.float32)
        for index, rows in enumerate(features):
            padded[index, : len(rows)] = rows
        return Encoded(padded, clock, n_positions=n_positions)

    def _encode(self, request: WindowRequest, clock: StageClock) -> FloatArray:
        """Return `(n_audio_ctx, d_model)` audio features."""
        mel = self._mel([request], clock)
        with clock.stage("encode"):
            features: FloatArray = self.encoder.encode(mel)[0]
        return features

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
        encode: EncodeWindows,
        start: StartEncoding | None = None,
        *,
        enabled: bool = True,
    ) -> None:
        self._encode = encode
        self._start = start if enabled else None
        needs_thread = enabled and start is None
        self._thread = ThreadPoolExecutor(1, "encode") if needs_thread else None
        self._may_run = threading.Event()
        self._may_run.set()
        self._is_closed = threading.Event()
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
                return LazyFuture(partial(_finish, self._start(requests)))
            except Exception as error:  # raised where the result is asked for
                return LazyFuture(partial(_finish, partial(_raise_error, error)))
        call = LazyFuture(partial(self._encode, requests))
        if self._thread is None or apart:
            return call
        before = self._last
        self._last = call
        if before is not None and not before.asked:
            self._run(before)
            now = True
        if now:
            self._run(call)
        return call

    def _run(self, call: LazyFuture) -> None:
        """Run a call in the thread."""
        if self._thread is not None:
            call.run_in(self._thread, self._may_run, self._is_closed)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the thread begin no window in the block; what goes first has the processor."""
        was_running = self._may_run.is_set()
        self._may_run.clear()
        try:
            yield
        finally:
            # A block within another one leaves the thread paused.
            if was_running:
                self._may_run.set()

    def close(self) -> None:
        """Cancel pending calls, and wait for the window that is being encoded."""
        self._is_closed.set()
        self._may_run.set()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


class LazyFuture:
    """A call that runs in a thread once started, else when its result is asked for.

    Attributes:
        coming: its future in a thread, once started.
        asked: its result was asked for.
    """

    def __init__(self, function: Callable[[], Steps[Encoded]]) -> None:
        self._function = function
        self.coming: Future[Encoded] | None = None
        self.asked = False

    def run_in(
        self,
        thread: ThreadPoolExecutor,
        may_run: threading.Event,
        is_closed: threading.Event,
    ) -> None:
        """Run the call in a thread, unless it does already.

        Between windows it waits for `may_run`, and ends if `is_closed`.
        """
        if self.coming is None:
            self.coming = thread.submit(
                _run_in_turn, self._function, may_run, is_closed
            )

    def steps(self, wait: Callable[[Future[Encoded]], bool]) -> Steps[Encoded]:
        """Return the result; yield where others may go first.

        `wait` waits for the thread or for something else, and returns whether it is the latter.
        """
        self.asked = True
        if self.coming is None:
            return (yield from self._function())
        while not self.coming.done() and wait(self.coming):
            yield
        return self.coming.result()

    def result(self) -> Encoded:
        """Return the result; wait for it, or run the call here."""
        return run_steps(self.steps(lambda _: False))


def _run_in_turn(
    function: Callable[[], Steps[Encoded]],
    may_run: threading.Event,
    is_closed: threading.Event,
) -> Encoded:
    """Return the result of steps that only go on while they may.

    Raises:
        CancelledError: the result is not needed any more.
    """
    steps = function()
    while True:
        may_run.wait()
        if is_closed.is_set():
            raise CancelledError
        try:
            next(steps)
        except StopIteration as end:
            encoded: Encoded = end.value
            return encoded


def _finish(wait: Callable[[], Encoded]) -> Steps[Encoded]:
    """Return the result of a call that needs no steps."""
    yield from ()
    return wait()


def _raise_error(error: Exception) -> NoReturn:
    raise error
