"""A model that requests can choose, and the thread that decodes the windows of all clients."""

from __future__ import annotations

import logging
import math
import threading
import time
from copy import copy
from enum import Enum
from functools import partial
from typing import Final, Self

import numpy as np

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    Segment,
    Transcript,
)
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.serve.errors import BusyError, RejectedError
from whisper_hailo.serve.jobs import (
    ClientRecording,
    EventCallback,
    Job,
    JobQueue,
    PartialRecording,
)
from whisper_hailo.serve.logs import log_request
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.model_memory import ModelMemory, estimate_loaded_mib
from whisper_hailo.serve.request import Caller, Choices, Priority, RequestDefaults
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.transcriber import Transcriber

logger = logging.getLogger(__name__)

_WARM_UPS: Final = 3
"""Later runs take no longer than those behind these."""

_TEMPERATURE: Final = "temperature_c"  # attribute of an encoder on a chip
_CLOSE_TIMEOUT_S: Final = (
    60.0  # a decoder that hangs does not keep the program for longer
)


def length_s(audio: FloatArray | OpenedAudio) -> float | None:
    """Return the length of a recording; by its header, or `None`, if it is still decoded."""
    if isinstance(audio, OpenedAudio):
        return audio.stream.duration_s
    return audio.size / SAMPLE_RATE_HZ


class ModelState(Enum):
    """State of a model."""

    LOADING = "loading"
    READY = "ready"
    RELEASED = "released"
    ENDING = "ending"
    BROKEN = "broken"
    CLOSED = "closed"


class ServedModel(Closing):
    """One of the models that requests can choose.

    A thread of its own opens, warms up and closes the transcriber, and decodes what is put into
    the queue.

    Args:
        other_names: further names that clients may use.
        release_after_s: idle time after which the model is released; `None` never releases it.
        loads_at_once: load the model when it is opened, not with its first request.

    Attributes:
        created_s: when it was made, in seconds since 1970.
        needed_mib: about how many MiB it takes when it is loaded.
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
        self.created_s = int(time.time())
        self.needed_mib = estimate_loaded_mib(transcriber.encoder.spec)
        self._batch_size = batch_size
        self._log_text = log_text
        self._loads_at_once = loads_at_once
        self._memory = memory
        self._metrics = metrics
        self.queue = JobQueue(release_after_s)
        metrics.watch_queue(self.queue)
        # Looked up in the class: a chip that is not open has no temperature yet.
        if hasattr(type(transcriber.encoder), _TEMPERATURE):
            metrics.watch_chip(self._chip_celsius)
        self._thread = threading.Thread(
            target=self._load_and_decode, name=f"model {self.name}", daemon=True
        )
        self._is_settled = threading.Event()  # loaded once, or not to be loaded yet
        self._load_failure: Exception | None = None
        self._set_state(ModelState.LOADING)

    def open(self) -> Self:
        """Start the thread; where the model is loaded at once, wait until it is warm."""
        if not self._loads_at_once:
            self._set_state(ModelState.RELEASED)
            self._is_settled.set()
        self._thread.start()
        self._is_settled.wait()
        if self._load_failure is not None:
            raise self._load_failure
        return self

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def submit(
        self,
        audio: FloatArray | OpenedAudio,
        choices: Choices,
        caller: Caller,
        emit: EventCallback,
        *,
        is_early: bool = False,
    ) -> Job:
        """Let `(n_samples,)` float32 at 16 kHz wait for its turn, or audio that is still decoded.

        An early recording, after which more may be said, goes after all others.

        Raises:
            OptionError: the model does not support what the client chose.
            BusyError: the server ends.
        """
        options, long = self.defaults.with_choices(choices)
        run = self._make_run(options, long)
        if is_early:
            priority = Priority.BATCH
        else:
            priority = caller.priority.for_length(length_s(audio) or math.inf)
        make_recording = partial(
            ClientRecording, on_segment=emit, on_window=self._metrics.count_window
        )
        if isinstance(audio, OpenedAudio):
            audio.on_change = self.queue.wake
            audio.wait_for_others = self.queue.wait_for_commands
        recording = run.recording_of(make_recording, audio, priority=priority)
        job = Job(recording, caller, emit, run, time.monotonic(), is_partial=is_early)
        self.queue.put(job)
        return job

    def transcribe_item(
        self, audio: FloatArray, choices: Choices, caller: Caller, emit: EventCallback
    ) -> Job:
        """Transcribe `(n_samples,)` of live audio that is over as a whole, like an upload.

        Its client has watched partial texts of it, so it goes before all other requests, too.

        Raises:
            BusyError: the server ends.
        """
        options, long = self.defaults.with_choices(choices)
        run = self._make_run(options, long)
        make_recording = partial(
            ClientRecording, on_segment=_ignore, on_window=self._metrics.count_window
        )
        recording = run.recording_of(make_recording, audio, priority=Priority.LIVE)
        job = Job(recording, caller, emit, run, time.monotonic(), is_partial=True)
        self.queue.put(job)
        return job

    def transcribe_partial(
        self,
        buffer: PartialBuffer,
        options: DecodingOptions,
        caller: Caller,
        emit: EventCallback,
    ) -> Job:
        """Transcribe live audio, before all other requests.

        Raises:
            BusyError: the server ends.
        """
        run = self._make_run(options, self.defaults.long)
        make_recording = partial(
            PartialRecording,
            on_segment=emit,
            on_window=self._metrics.count_window,
            request=run.request(buffer),
        )
        recording = run.recording_of(
            make_recording, buffer.audio, priority=Priority.LIVE
        )
        job = Job(recording, caller, emit, run, time.monotonic(), is_partial=True)
        self.queue.put(job)
        return job

    def _make_run(
        self, options: DecodingOptions, long: LongOptions
    ) -> TranscriptionRun:
        return TranscriptionRun(self.transcriber, options, long, self._batch_size)

    def cancel(self, job: Job) -> None:
        """Cancel a job whose client left, and free its place. From any thread."""
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
        self._metrics.record_item(caller.api, seconds, failure)
        fields = {"audio_s": round(seconds, 3), "language": language, "text": text}
        self._log_end(caller, failure, logging.INFO, fields)

    def cancel_all(self) -> None:
        """Cancel all jobs, and take no more; `close` waits until they have stopped."""
        self.queue.cancel_all(
            BusyError("the server is shutting down; try again when it is back")
        )

    def close(self) -> None:
        """Cancel all jobs, and release the model."""
        self.cancel_all()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT_S)
        self.state = ModelState.CLOSED

    def _load_and_decode(self) -> None:
        """Load, decode until the queue is idle for long, release; again with the next job."""
        is_needed = self._loads_at_once or self.queue.wait_for_more()
        while is_needed:
            try:
                with self._memory.hold_memory(self):
                    self._set_state(ModelState.LOADING)
                    with self.transcriber:
                        self._warm_up()
                        self._set_state(ModelState.READY)
                        self._is_settled.set()
                        self._decode_jobs()
                self._set_state(ModelState.RELEASED)
            except RejectedError as error:  # no memory is free for the model
                self._fail_all(error)
            except Exception as error:
                self._report_break(error)
            is_needed = self.queue.wait_for_more()

    def _chip_celsius(self) -> float | None:
        """Return the temperature of the encoder's chip; `None` while it is not open."""
        if self.state is not ModelState.READY:
            return None
        celsius: float | None = getattr(self.transcriber.encoder, _TEMPERATURE)
        return celsius

    def _set_state(self, state: ModelState) -> None:
        self.state = state
        self._metrics.set_state(self.name, state.value)

    def _warm_up(self) -> None:
        """Transcribe quiet noise, so that the first request does not wait for memory."""
        noise = (
            np.random.default_rng(0).normal(0, 1e-3, SAMPLE_RATE_HZ).astype(np.float32)
        )
        begin_s = time.monotonic()
        for _ in range(_WARM_UPS):
            self.transcriber.transcribe(
                noise, self.defaults.options, long=self.defaults.long
            )
        logger.info("%s is warm after %.2f s", self.name, time.monotonic() - begin_s)

    def _decode_jobs(self) -> None:
        run = self._make_run(self.defaults.options, self.defaults.long)
        for recording in run.schedule(self.queue).run():
            job = self.queue.job_of(recording)
            if job is not None:
                self._report_end(job)

    def _report_end(self, job: Job) -> None:
        """Report a job that is over, and free its place."""
        outcome = job.make_outcome()
        now_s = time.monotonic()
        failure = job.recording.failure
        self.queue.remove(job)
        self._metrics.record_job(job, outcome, now_s)
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
        self._log_end(job.caller, failure, level, fields)
        job.recording.free_audio()
        if failure is not None:
            # Its frames hold the recording and its audio until the cyclic collector runs.
            failure.__traceback__ = None
            failure = _detach_error(failure)
        # The client is told last: it may ask for its next recording at once, and has a place then.
        job.emit(outcome or failure)  # type: ignore[arg-type]  # it is one of these

    def _log_end(
        self,
        caller: Caller,
        failure: Exception | None,
        level: int,
        fields: dict[str, object],
    ) -> None:
        if not self._log_text:
            fields.pop("text", None)
        log_request(caller, failure, level=level, model=self.name, **fields)

    def _report_break(self, error: Exception) -> None:
        """Report that the model cannot be loaded, or that the schedule broke, to all clients."""
        if not self._is_settled.is_set():
            self._load_failure = error  # `open` raises it
            self.queue.close()
        elif isinstance(error, WhisperHailoError):
            logger.error("%s", error)
        else:
            logger.error("model %s stopped decoding", self.name, exc_info=error)
        self._set_state(ModelState.BROKEN)
        self._is_settled.set()
        self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        # What stays in the queue would have the model loaded again and again.
        for job in self.queue.take_back_all():
            recording = job.recording
            if recording.failure is None:
                recording.fail(recording.abandoned or error)
            self._report_end(job)


def _ignore(_segment: Segment) -> None:
    """Take a segment of a recording whose client wants the whole text only."""


def _detach_error(error: Exception) -> Exception:
    """Return a copy of an error for the client to raise.

    The schedule holds a recording, and so its error, until the next batch: raised by the client,
    that one would hold the client's frames, and what was sent, for as long.
    """
    try:
        detached = copy(error)
    except Exception:  # its class takes other arguments than it keeps
        return error
    detached.__cause__ = error.__cause__
    detached.__context__ = error.__context__
    return detached
