"""The service behind all routes: its models, transcripts of recordings, live captions."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, Final, Self, TypeVar

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    UNSPACED_LANGUAGES,
    FloatArray,
    Segment,
    Transcript,
)
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.live.engine import TOKENS_PER_SECOND
from whisper_hailo.serve.errors import (
    BusyError,
    ClientDisconnectedError,
    DeadlineExceededError,
    UnknownModelError,
)
from whisper_hailo.serve.jobs import Job, Outcome
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.options import RELEASE_AFTER_S, LimitOptions, ListenOptions
from whisper_hailo.serve.quota import Quota, Reservation
from whisper_hailo.serve.request import (
    MAX_HOTWORDS_LETTERS,
    Caller,
    Choices,
    Priority,
    RequestDefaults,
    StreamItemResult,
)
from whisper_hailo.serve.worker import EngineCaptions, State, Worker
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber

WHISPER_1: Final = "whisper-1"
_OPENAI_MODEL: Final = re.compile(r"gpt-4o(-mini)?-transcribe(-\d{4}-\d\d-\d\d)?")

_MAX_HINTS: Final = 1000  # more do not fit in any model's prompt

_LOADED_PER_WEIGHT: Final = 1.3
"""Memory of a loaded model per byte of its weights: base takes 167 MiB, its weights 128."""

_BITS: Final = {"int8": 8, "int4": 4}


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """One of the models that requests can choose.

    Attributes:
        other_names: further names that clients may use.
        created_s: when it was added, in seconds since 1970.
    """

    worker: Worker
    languages: tuple[str, ...]
    other_names: tuple[str, ...] = ()
    created_s: int = field(default_factory=lambda: int(time.time()))

    @property
    def name(self) -> str:
        return self.worker.name

    def options(self, choices: Choices) -> tuple[DecodingOptions, LongOptions]:
        """Return the options of one request; hints are hotwords, if the decoder supports them."""
        names = [hint for hint in choices.hints if hint.isprintable() and "<|" not in hint]
        total = accumulate(len(name) + len(", ") for name in names[:_MAX_HINTS])
        names = names[: sum(letters <= MAX_HOTWORDS_LETTERS for letters in total)]
        defaults = self.worker.defaults
        if names and not choices.hotwords:
            hotwords = ", ".join(names)
            prompts = replace(defaults.options.prompts, hotwords=hotwords)
            try:
                self.worker.transcriber.check(replace(defaults.options, prompts=prompts))
            except OptionError:
                pass
            else:
                choices = replace(choices, hotwords=hotwords)
        return defaults.with_choices(choices)


class ModelRegistry(Closing):
    """The models of a server, by the names that requests give; the first is the default.

    Attributes:
        listed: models by the names that `/v1/models` lists.
    """

    def __init__(self, models: Sequence[ServedModel], aliases: Sequence[str] = ()) -> None:
        self.models = tuple(models)
        self.default = self.models[0]
        self.listed = {model.name: model for model in self.models}
        if len(self.listed) < len(self.models):
            names = ", ".join(model.name for model in self.models)
            raise OptionError(f"--model is given twice for one name ({names}); leave one out")
        for alias in (WHISPER_1, *aliases):
            self.listed.setdefault(alias, self.default)
        self._known = dict(self.listed)
        for model in self.models:
            for name in model.other_names:
                self._known.setdefault(name, model)

    def find(self, name: str | None) -> ServedModel:
        """Return the model that a request names; the default without a name.

        Names of OpenAI's newer models mean the default: clients such as Home Assistant's have no
        setting for them.
        """
        if not name or (name not in self._known and _OPENAI_MODEL.fullmatch(name)):
            return self.default
        if name not in self._known:
            known = ", ".join(self.listed)
            raise UnknownModelError(f"model {name[:80]!r} is not served, expected one of: {known}")
        return self._known[name]

    def open(self) -> Self:
        """Load the default model; the others are loaded when they are first asked for."""
        for model in self.models:
            model.worker.open()
        return self

    def close(self) -> None:
        """Give up what is not done, and free all models."""
        for model in self.models:
            model.worker.give_up()
        for model in self.models:
            model.worker.close()

    @property
    def is_alive(self) -> bool:
        return all(model.worker.is_alive for model in self.models)

    def wait_until_empty(self, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        return all(
            model.worker.queue.wait_until_empty(max(0.0, deadline_s - time.monotonic()))
            for model in self.models
        )

    @property
    def n_unfinished(self) -> int:
        return sum(model.worker.queue.n_unfinished for model in self.models)


class ModelMemory:
    """Keeps loaded models within a limit, and has idle ones released for others."""

    def __init__(self, max_mib: int | None = None) -> None:
        self._max_mib = max_mib
        self._changed = threading.Condition()
        self._loaded: dict[Worker, int] = {}

    def check(self, worker: Worker) -> None:
        """Refuse a model that does not fit even alone."""
        needed = estimate_loaded_mib(worker.spec)
        if self._max_mib is not None and needed > self._max_mib:
            raise OptionError(
                f"model {worker.name} takes about {needed} MiB, --max-memory is {self._max_mib}; "
                "raise it or choose a smaller model"
            )

    @contextmanager
    def hold(self, worker: Worker) -> Iterator[None]:
        """Hold the memory of a model, which is loaded within the block.

        Idle models are released first, the one that was used least recently before others.
        """
        needed = estimate_loaded_mib(worker.spec)
        with self._changed:
            while self._max_mib is not None and sum(self._loaded.values()) + needed > self._max_mib:
                idle = sorted(self._loaded, key=lambda other: other.queue.used_s)
                if not any(other.queue.release() for other in idle):
                    in_use = ", ".join(other.name for other in self._loaded)
                    raise BusyError(
                        f"model {worker.name} takes about {needed} MiB, --max-memory is "
                        f"{self._max_mib} and in use by {in_use}; try again soon"
                    )
                self._changed.wait()
            self._loaded[worker] = needed
        try:
            yield
        finally:
            with self._changed:
                del self._loaded[worker]
                self._changed.notify_all()


def estimate_loaded_mib(spec: ModelSpec) -> int:
    """Return about how many MiB a model takes when it is loaded, from its dimensions."""
    dims, d_model = spec.dims, spec.dims.d_model
    encoder = dims.n_encoder_layers * 12 * d_model**2
    encoder += 3 * dims.n_mels * d_model + 3 * d_model**2 + dims.n_audio_ctx * d_model
    decoder = dims.n_decoder_layers * 16 * d_model**2 + dims.n_vocab * d_model
    encoder_bits, decoder_bits = (
        _BITS.get(quantization, 32)
        for quantization in (spec.encoder_quantization, spec.quantization)
    )
    weights = (encoder * encoder_bits + decoder * decoder_bits) // 8
    return round(_LOADED_PER_WEIGHT * weights) >> 20


class Ticket:
    """A request that was taken up: its segments as they are final, then its transcript."""

    transcript: Transcript
    worker: Worker
    job: Job

    def __init__(self, duration_s: float, deadline_s: float) -> None:
        self.duration_s = duration_s
        self._loop = asyncio.get_running_loop()
        self._deadline_s = deadline_s
        self._deadline = self._loop.time() + deadline_s
        self._events: asyncio.Queue[Segment | Outcome | Exception] = asyncio.Queue()

    def emit(self, event: Segment | Outcome | Exception) -> None:
        """Queue an event; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def segments(self) -> AsyncIterator[Segment]:
        """Yield each segment when it is final; then there is the transcript."""
        while True:
            try:
                async with asyncio.timeout_at(self._deadline):
                    event = await self._events.get()
            except TimeoutError:
                raise DeadlineExceededError(
                    f"the request exceeded its {self._deadline_s:g} s deadline; send shorter audio "
                    "or retry when the server is less busy"
                ) from None
            if isinstance(event, Exception):
                raise event
            if isinstance(event, Segment):
                yield event
            elif isinstance(event, Transcript):
                self.transcript = event
                return

    async def deltas(self) -> AsyncIterator[tuple[str, Segment]]:
        """Yield what each segment adds to the text, with the blank before it, and the segment."""
        blank = ""
        async for segment in self.segments():
            if segment.text:
                yield blank + segment.text, segment
                blank = "" if segment.language in UNSPACED_LANGUAGES else " "

    async def result(self, priority: Priority | None = None) -> Transcript:
        """Return the transcript, which may be more urgent now."""
        if priority is not None:
            self.job.priority = priority
        async for _ in self.segments():
            pass
        return self.transcript

    def leave(self) -> None:
        """Cancel the job, unless it is done."""
        self.worker.leave(self.job)


class TranscriptionService:
    """The models of a server, for the routes of one event loop."""

    def __init__(self, models: ModelRegistry, metrics: Metrics, limits: LimitOptions) -> None:
        self.models = models
        self.metrics = metrics
        self.limits = limits
        self.quota = Quota(limits)
        self.ending = asyncio.Event()
        self._is_closed = False

    @property
    def state(self) -> State:
        """State of the default model, or that the server ends."""
        return State.ENDING if self._is_closed else self.models.default.worker.state

    def close(self) -> None:
        """Take no further request; those under way are finished."""
        self._is_closed = True
        for model in self.models.models:
            model.worker.queue.close()

    def admit(self, client: str) -> AbstractContextManager[Reservation]:
        """Hold a place for a request and what it stores; see `Quota.request`."""
        self._expect_open()
        return self.quota.request(client)

    def live(self, client: str) -> AbstractContextManager[None]:
        """Hold a place for a live stream; see `Quota.live`."""
        self._expect_open()
        return self.quota.live(client)

    def _expect_open(self) -> None:
        if self._is_closed:
            raise BusyError("the server is about to end; try again when it is back")

    def captions(self, choices: Choices, caller: Caller) -> EngineCaptions:
        """Return the engine of a live stream: greedy and bounded, as the command `caption`."""
        model = self.models.find(choices.model)
        options, _ = model.options(choices)
        limits = replace(options.limits, max_per_second=TOKENS_PER_SECOND)
        search = SearchOptions()
        options = replace(options, search=search, limits=limits, timestamps=False, words=None)
        return EngineCaptions(model.worker, options, caller, self.limits.deadline_s)

    def record_item(self, choices: Choices, item: StreamItemResult) -> None:
        """Count and log an item of a live stream that is over. From any thread."""
        self.metrics.heard(item)
        self.models.find(choices.model).worker.log.heard(item)

    def is_idle(self) -> bool:
        return not any(model.worker.queue.unfinished for model in self.models.models)

    def begin_early(self, audio: FloatArray, choices: Choices, caller: Caller) -> Ticket:
        """Begin with a command that may not be over yet; everything else goes first."""
        return self._begin(audio, choices, caller, is_early=True)

    @asynccontextmanager
    async def submit(
        self, audio: FloatArray, choices: Choices, caller: Caller
    ) -> AsyncIterator[Ticket]:
        """Transcribe `(n_samples,)` at 16 kHz; what is not done when the block ends is given up."""
        ticket = self._begin(audio, choices, caller)
        try:
            yield ticket
        finally:
            ticket.leave()

    def _begin(
        self, audio: FloatArray, choices: Choices, caller: Caller, *, is_early: bool = False
    ) -> Ticket:
        model = self.models.find(choices.model)
        ticket = Ticket(audio.size / SAMPLE_RATE_HZ, self.limits.deadline_s)
        ticket.worker, (options, long) = model.worker, model.options(choices)
        ticket.job = model.worker.submit(
            audio, options, long, caller, ticket.emit, is_early=is_early
        )
        return ticket


def make_service(
    models: Sequence[tuple[Transcriber, RequestDefaults]],
    listen: ListenOptions,
    limits: LimitOptions,
) -> TranscriptionService:
    """Return a service; neither it nor the transcribers are open."""
    metrics, memory = Metrics(), ModelMemory(limits.max_memory_mib)
    served: list[ServedModel] = []
    for typed, (transcriber, defaults) in zip(listen.model, models, strict=True):
        is_first = not served
        worker = Worker(
            transcriber,
            defaults,
            metrics,
            memory,
            batch_size=limits.batch_size,
            release_after_s=limits.release_after_s or (None if is_first else RELEASE_AFTER_S),
            log_text=listen.log_text,
            loads_at_once=is_first,
        )
        memory.check(worker)
        languages = tuple(transcriber.tokenizer.special.languages) or ("en",)
        served.append(ServedModel(worker, languages, (typed, worker.spec.source.name)))
    return TranscriptionService(ModelRegistry(served, listen.alias), metrics, limits)


T = TypeVar("T")

_END: Final = object()


async def run_until(left: Awaitable[None], work: Awaitable[T]) -> T:
    """Return the result of some work, which is cancelled when its client has left."""
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left)
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnectedError("the client left")
        return task.result()
    finally:
        for waiting in (task, leaving):
            waiting.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def on_thread(
    function: Callable[..., T],
    *arguments: Any,  # noqa: ANN401 - the function's own
    on_cancel: Callable[[], None] | None = None,
    threads: Executor | None = None,
) -> T:
    """Return the result of a function that runs on a thread, which has ended when this does.

    A thread cannot be interrupted. A caller that is cancelled waits for it, so that what it uses
    can be released; `on_cancel` may have it end sooner.
    """
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(loop.run_in_executor(threads, partial(function, *arguments)))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait({work})
        work.exception()  # taken, or asyncio would report it as lost
        raise


async def each_on_thread(
    items: Iterator[T], on_cancel: Callable[[], None], threads: Executor
) -> AsyncIterator[T]:
    """Yield what an iterator computes on a thread, as it comes; see `on_thread`."""
    while True:
        item: Any = await on_thread(next, items, _END, on_cancel=on_cancel, threads=threads)
        if item is _END:
            return
        yield item
