"""The thread of one model: it loads the model and decodes the windows of all clients."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Final, Self

import numpy as np

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray, Segment, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.engine import TranscriberEngine
from whisper_hailo.serve.errors import (
    BusyError,
    ClientDisconnectedError,
    DeadlineExceededError,
    RejectedError,
)
from whisper_hailo.serve.jobs import (
    ClientRecording,
    EventCallback,
    Job,
    JobQueue,
    Outcome,
    PartialRecording,
)
from whisper_hailo.serve.logs import log_request
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.request import Caller, Choices, Priority, RequestDefaults
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.transcriber import Transcriber

logger = logging.getLogger(__name__)

_WARM_UPS: Final = 3
_CHIP: Final = "temperature_c"  # Attribute of an encoder on a chip
_CLOSED_S: Final = 60.0  # an engine that hangs does not keep the program for longer

_LOADED_PER_WEIGHT: Final = 1.3
"""Memory of a loaded model per byte of its weights: base takes 167 MiB, its weights 128."""

_BITS: Final = {"int8": 8, "int4": 4}


class State(Enum):
    """State of a model."""

    LOADING = "loading"
    READY = "ready"
    RELEASED = "released"
    ENDING = "ending"
    BROKEN = "broken"
    CLOSED = "closed"


class Worker(Closing):
    """One of the models that requests can choose.

    A thread of its own opens, warms and closes the transcriber, and decodes what is put into the
    queue.

    Args:
        other_names: further names that clients may use.
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
        other_names: tuple[str, ...] = (),
        batch_size: int = 8,
        release_after_s: float | None = None,
        log_text: bool = False,
        loads_at_once: bool = True,
    ) -> None:
        self.transcriber = transcriber
        self.defaults = defaults
        self.name = transcriber.settings(defaults.options).model
        self.other_names = other_names
        self.languages = tuple(transcriber.tokenizer.special.languages) or ("en",)
        self.created_s = int(time.time())  # since 1970
        self.needed_mib = estimate_loaded_mib(transcriber.encoder.spec)
        self._batch_size = batch_size
        self._log_text = log_text
        self._loads_at_once = loads_at_once
        self._memory = memory
        self._metrics = metrics
        self.queue = JobQueue(release_after_s)
        has_chip = hasattr(type(transcriber.encoder), _CHIP)
        metrics.watch(self.queue, self._celsius if has_chip else None)
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._settled = threading.Event()
        self._failure: Exception | None = None
        self._set(State.LOADING)

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
        choices: Choices,
        caller: Caller,
        emit: EventCallback,
        *,
        is_early: bool = False,
    ) -> Job:
        """Let a recording wait for its turn; an early one, which may go on, goes behind others."""
        options, long = self.defaults.with_choices(choices)
        run = TranscriptionRun(self.transcriber, options, long, self._batch_size)
        priority = caller.priority.of_length(audio.size / SAMPLE_RATE_HZ)
        recording = run.recording_of(
            partial(ClientRecording, on_segment=emit),
            audio,
            priority=Priority.BATCH if is_early else priority,
        )
        job = Job(recording, caller, emit, run, time.monotonic(), is_partial=is_early)
        self.queue.put(job)
        return job

    def transcribe_partial(
        self, running: PartialBuffer, options: DecodingOptions, caller: Caller, emit: EventCallback
    ) -> Job:
        """Transcribe live audio, before all other requests."""
        run = TranscriptionRun(self.transcriber, options, self.defaults.long, self._batch_size)
        recording = run.recording_of(
            partial(PartialRecording, on_segment=emit, request=run.request(running)),
            running.audio,
            priority=Priority.LIVE,
        )
        job = Job(recording, caller, emit, run, time.monotonic(), is_partial=True)
        self.queue.put(job)
        return job

    def leave(self, job: Job) -> None:
        """Cancel a job, and free its place. From any thread."""
        job.cancel()
        self.queue.free_place(job)

    def record_item(
        self,
        caller: Caller,
        seconds: float,
        language: str,
        text: str,
        failure: Exception | None = None,
    ) -> None:
        """Count and log an item of a live stream that is over. From any thread.

        `language` is a code, empty where it is unknown.
        """
        self._metrics.heard(caller.api, seconds, failure)
        fields = {"audio_s": round(seconds, 3), "language": language, "text": text}
        self._log(caller, failure, logging.INFO, fields)

    def give_up(self) -> None:
        """Give up what is not done; `close` waits for that."""
        self.queue.cancel_all(BusyError("the server ends; try again when it is back"))

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
        self._metrics.state(self.name, state.value)

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
        for recording in run.schedule(self.queue).run():
            job = self.queue.job_of(recording)
            if job is not None:
                self._end(job)

    def _end(self, job: Job) -> None:
        """Report a job that is over, and free its place."""
        outcome = job.make_outcome()
        now_s = time.monotonic()
        self.queue.remove(job)
        failure = job.recording.failure
        self._metrics.done(job, outcome, now_s)
        fields: dict[str, object] = {"took_s": round(now_s - job.asked_s, 3)}
        if isinstance(outcome, Transcript):
            fields |= {
                "audio_s": round(outcome.duration_s, 3),
                "language": outcome.language,
                "segments": len(outcome.segments),
                "text": outcome.text,
            }
        # Partials come several times a second.
        level = logging.DEBUG if job.is_partial else logging.INFO
        self._log(job.caller, failure, level, fields)
        job.recording.free_audio()
        if failure is not None:
            # Its frames hold the recording and its audio until the cyclic collector runs.
            failure.__traceback__ = None
        job.emit(outcome or failure)  # type: ignore[arg-type]  # it is one of these

    def _log(
        self, caller: Caller, failure: Exception | None, level: int, fields: dict[str, object]
    ) -> None:
        if not self._log_text:
            fields.pop("text", None)
        log_request(caller, failure, level=level, model=self.name, **fields)

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
        # What stays in the queue would have the model loaded again and again.
        for job in self.queue.take_back_all():
            recording = job.recording
            if recording.failure is None:
                recording.fail(recording.abandoned or error)
            self._end(job)


class ModelMemory:
    """Keeps loaded models within a limit, and has idle ones released for others."""

    def __init__(self, max_mib: int | None = None) -> None:
        self._max_mib = max_mib
        self._changed = threading.Condition()
        self._loaded: list[Worker] = []

    def check(self, worker: Worker) -> None:
        """Refuse a model that does not fit even alone."""
        if self._max_mib is not None and worker.needed_mib > self._max_mib:
            raise OptionError(
                f"model {worker.name} takes about {worker.needed_mib} MiB, --max-memory is "
                f"{self._max_mib}; raise it or choose a smaller model"
            )

    @contextmanager
    def hold(self, worker: Worker) -> Iterator[None]:
        """Hold the memory of a model, which is loaded within the block.

        Idle models are released first, the one that was used least recently before others.
        """
        most_mib = math.inf if self._max_mib is None else self._max_mib
        with self._changed:
            while sum(model.needed_mib for model in [*self._loaded, worker]) > most_mib:
                idle = sorted(self._loaded, key=lambda other: other.queue.used_s)
                if not any(other.queue.release_if_idle() for other in idle):
                    in_use = ", ".join(other.name for other in self._loaded)
                    raise BusyError(
                        f"model {worker.name} takes about {worker.needed_mib} MiB, --max-memory is "
                        f"{most_mib} and in use by {in_use}; try again soon"
                    )
                self._changed.wait()
            self._loaded.append(worker)
        try:
            yield
        finally:
            with self._changed:
                self._loaded.remove(worker)
                self._changed.notify_all()


def estimate_loaded_mib(spec: ModelSpec) -> int:
    """Return about how many MiB a model takes when it is loaded, from its dimensions."""
    dims, d_model = spec.dims, spec.dims.d_model
    encoder = dims.n_encoder_layers * 12 * d_model**2
    encoder += 3 * dims.n_mels * d_model + 3 * d_model**2 + dims.n_audio_ctx * d_model
    decoder = dims.n_decoder_layers * 16 * d_model**2 + dims.n_vocab * d_model
    encoder_bits = _BITS.get(spec.encoder_quantization, 32)
    decoder_bits = _BITS.get(spec.quantization, 32)
    weights = (encoder * encoder_bits + decoder * decoder_bits) // 8
    return round(_LOADED_PER_WEIGHT * weights) >> 20


class EngineCaptions(TranscriberEngine):
    """A `TranscriberEngine` whose buffers are decoded by a worker, together with other requests.

    `transcribe` blocks until the worker is done.
    """

    def __init__(
        self, worker: Worker, options: DecodingOptions, caller: Caller, deadline_s: float
    ) -> None:
        super().__init__(worker.transcriber, options)
        self.worker = worker
        self._caller = caller
        self._deadline_s = deadline_s
        self._job: Job | None = None
        self._left = False

    def _with(self, options: DecodingOptions) -> EngineCaptions:
        return EngineCaptions(self.worker, options, self._caller, self._deadline_s)

    def _run(self, buffer: PartialBuffer, options: DecodingOptions) -> BufferText:
        result: Future[BufferText] = Future()

        def emit(event: Segment | Outcome | Exception) -> None:
            if isinstance(event, Exception):
                result.set_exception(event)
            elif isinstance(event, BufferText):
                result.set_result(event)

        job = self._job = self.worker.transcribe_partial(buffer, options, self._caller, emit)
        try:
            if self._left:  # before there was a job to cancel
                raise ClientDisconnectedError
            return result.result(self._deadline_s)
        except TimeoutError:
            raise DeadlineExceededError(
                f"live audio exceeded its {self._deadline_s:g} s deadline; retry later"
            ) from None
        finally:
            self.worker.leave(job)

    def leave(self) -> None:
        """Cancel the running buffer. From any thread."""
        self._left = True
        if self._job is not None:
            self._job.cancel()
