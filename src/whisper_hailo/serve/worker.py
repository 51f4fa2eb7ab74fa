"""The thread of one model: it loads the model and decodes the windows of all clients."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

import numpy as np

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray, Segment
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.engine import TranscriberEngine
from whisper_hailo.serve.errors import (
    BusyError,
    ClientDisconnectedError,
    DeadlineExceededError,
    RejectedError,
)
from whisper_hailo.serve.jobs import EventCallback, Job, JobQueue, Outcome, PartialJob
from whisper_hailo.serve.logs import RequestLog
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.request import Caller, Priority, RequestDefaults
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.transcriber import Transcriber

if TYPE_CHECKING:
    from whisper_hailo.serve.service import ModelMemory

logger = logging.getLogger(__name__)

_WARM_UPS: Final = 3
_CHIP: Final = "temperature_c"
"""Attribute of an encoder on a chip."""

_CLOSED_S: Final = 60.0  # an engine that hangs does not keep the program for longer


class State(Enum):
    """State of a model."""

    LOADING = "loading"
    READY = "ready"
    RELEASED = "released"
    ENDING = "ending"
    BROKEN = "broken"
    CLOSED = "closed"


JobT = TypeVar("JobT", bound=Job)


class Worker(Closing):
    """Loads and warms a model, and decodes what is put into its queue, on a thread of its own.

    The thread opens and closes the transcriber.

    Args:
        release_after_s: idle time after which the model is released; `None` never does.
        loads_at_once: load the model when the worker opens, not with its first request.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        defaults: RequestDefaults,
        metrics: Metrics,
        memory: ModelMemory,
        *,
        batch_size: int = 8,
        release_after_s: float | None = None,
        log_text: bool = False,
        loads_at_once: bool = True,
    ) -> None:
        self.transcriber = transcriber
        self.defaults = defaults
        self.name = transcriber.settings(defaults.options).model
        self._batch_size = batch_size
        self._loads_at_once = loads_at_once
        self._memory = memory
        self.metrics = metrics
        self.log = RequestLog(self.name, log_text=log_text)
        self.queue = JobQueue(release_after_s)
        metrics.watch(
            self.queue, self._celsius if hasattr(type(transcriber.encoder), _CHIP) else None
        )
        self._runs: dict[Job, TranscriptionRun] = {}
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._settled = threading.Event()
        self._failure: Exception | None = None
        self._set(State.LOADING)

    @property
    def spec(self) -> ModelSpec:
        return self.transcriber.encoder.spec

    def open(self) -> Self:
        """Start the thread; where the model is loaded at once, wait until it is warm."""
        if not self._loads_at_once:
            self._set(State.RELEASED)
            self._settled.set()
        self._thread.start()
        self._settled.wait()
        if self._failure is not None:
            raise self._failure
        return self

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def submit(
        self,
        audio: FloatArray,
        options: DecodingOptions,
        long: LongOptions,
        caller: Caller,
        emit: EventCallback,
        *,
        is_early: bool = False,
    ) -> Job:
        """Let a recording wait for its turn; an early one, which may go on, goes behind others."""
        run = TranscriptionRun(self.transcriber, options, long, self._batch_size)
        priority = caller.priority.of_length(audio.size / SAMPLE_RATE_HZ)
        job = run.recording_of(Job, audio, priority=Priority.BATCH if is_early else priority)
        job.is_partial = is_early
        return self._put(job, run, caller, emit)

    def transcribe_partial(
        self, running: PartialBuffer, options: DecodingOptions, caller: Caller, emit: EventCallback
    ) -> PartialJob:
        """Transcribe live audio, before all other requests."""
        run = TranscriptionRun(self.transcriber, options, self.defaults.long, self._batch_size)
        job = run.recording_of(PartialJob, running.audio, priority=Priority.LIVE)
        job.request = run.request(running)
        return self._put(job, run, caller, emit)

    def _put(self, job: JobT, run: TranscriptionRun, caller: Caller, emit: EventCallback) -> JobT:
        job.caller, job.emit, job.asked_s = caller, emit, time.monotonic()
        self._runs[job] = run
        try:
            self.queue.put(job)
        except WhisperHailoError:
            del self._runs[job]
            raise
        return job

    def leave(self, job: Job) -> None:
        """Cancel a job, and free its place. From any thread."""
        job.leave()
        self.queue.done(job)

    def give_up(self) -> None:
        """Give up what is not done; `close` waits for that."""
        self.queue.leave_all(BusyError("the server ends; try again when it is back"))

    def close(self) -> None:
        """Give up what is not done, and release the model."""
        self.give_up()
        if self._thread.is_alive():
            self._thread.join(_CLOSED_S)
        self.state = State.CLOSED

    def _work(self) -> None:
        """Load, decode until there is nothing for a while, release; again when there is more."""
        wanted = self._loads_at_once or self.queue.wait_for_more()
        while wanted:
            try:
                with self._memory.hold(self):
                    self._set(State.LOADING)
                    with self.transcriber:
                        self._warm_up()
                        self._set(State.READY)
                        self._settled.set()
                        self._decode()
                self._set(State.RELEASED)
            except RejectedError as error:  # there is no memory for it
                self._fail_all(error)
            except Exception as error:
                self._break(error)
            wanted = self.queue.wait_for_more()

    def _celsius(self) -> float | None:
        """Return the temperature of the encoder's chip; `None` while it is not open."""
        is_ready = self.state is State.READY
        return getattr(self.transcriber.encoder, _CHIP) if is_ready else None

    def _set(self, state: State) -> None:
        self.state = state
        self.metrics.state(self.name, state.value)

    def _warm_up(self) -> None:
        """Transcribe quiet noise, so that the first request does not wait for memory."""
        noise = np.random.default_rng(0).normal(0, 1e-3, SAMPLE_RATE_HZ).astype(np.float32)
        begin_s = time.monotonic()
        for _ in range(_WARM_UPS):
            self.transcriber.transcribe(noise, self.defaults.options, long=self.defaults.long)
        logger.info("%s is warm after %.2f s", self.name, time.monotonic() - begin_s)

    def _decode(self) -> None:
        run = TranscriptionRun(
            self.transcriber, self.defaults.options, self.defaults.long, self._batch_size
        )
        for job in run.schedule(self.queue).run():
            self._end(cast(Job, job))  # the queue holds no others

    def _end(self, job: Job) -> None:
        """Report a job that is over, and free its place."""
        run = self._runs.pop(job, None)
        if run is None:  # reported when the schedule broke
            return
        outcome, now_s = None if job.failure else job.outcome(run), time.monotonic()
        self.queue.done(job)
        self.metrics.done(job, outcome, now_s)
        self.log.done(job, outcome, now_s)
        job.free_audio()
        if job.failure is not None:
            # Its frames hold the job, which holds the audio, until the cyclic collector runs.
            job.failure.__traceback__ = None
        job.emit(outcome or job.failure)  # type: ignore[arg-type]  # it is one of these

    def _break(self, error: Exception) -> None:
        """Report that the model cannot be loaded, or that the schedule broke, to all clients."""
        if not self._settled.is_set():
            self._failure = error  # `open` raises it
            self.queue.close()
        elif isinstance(error, WhisperHailoError):
            logger.error("%s", error)
        else:
            logger.error("the engine stopped", exc_info=error)
        self._set(State.BROKEN)
        self._settled.set()
        self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        for job in list(self._runs):
            self.queue.withdraw(job)  # or the model would be loaded for it, again and again
            if job.failure is None:
                job.fail(error)
            self._end(job)


class EngineCaptions(TranscriberEngine):
    """A `TranscriberEngine` whose buffers are decoded by a worker, together with other requests.

    `transcribe` blocks until the worker is done.
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
        result: Future[BufferText] = Future()

        def emit(event: Segment | Outcome | Exception) -> None:
            if isinstance(event, Exception):
                result.set_exception(event)
            elif isinstance(event, BufferText):
                result.set_result(event)

        job = self._job = self._worker.transcribe_partial(buffer, options, self._caller, emit)
        try:
            if self._left:  # before there was a job to cancel
                raise ClientDisconnectedError("the client left")
            return result.result(self._deadline_s)
        except TimeoutError:
            raise DeadlineExceededError(
                f"live audio exceeded its {self._deadline_s:g} s deadline; retry later"
            ) from None
        finally:
            self._worker.leave(job)

    def leave(self) -> None:
        """Cancel the running buffer. From any thread."""
        self._left = True
        if self._job is not None:
            self._job.leave()
