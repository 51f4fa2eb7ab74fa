"""The service behind all routes: its models, transcripts of recordings, live captions."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, TypeVar

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    UNSPACED_LANGUAGES,
    FloatArray,
    Segment,
    Transcript,
)
from whisper_hailo.decoding.options import SearchOptions
from whisper_hailo.live.engine import TOKENS_PER_SECOND
from whisper_hailo.serve.errors import (
    ClientDisconnectedError,
    DeadlineExceededError,
    UnknownModelError,
)
from whisper_hailo.serve.jobs import Job, Outcome
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.options import RELEASE_AFTER_S, LimitOptions, ListenOptions
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.request import Caller, Choices, Priority, RequestDefaults
from whisper_hailo.serve.worker import EngineCaptions, ModelMemory, State, Worker
from whisper_hailo.transcription.transcriber import Transcriber

WHISPER_1: Final = "whisper-1"
_OPENAI_MODEL: Final = re.compile(r"gpt-4o(-mini)?-transcribe(-\d{4}-\d\d-\d\d)?")


class Ticket(Closing):
    """A request that was taken up: its segments as they are final, then its transcript.

    What is not done when it is closed is given up.
    """

    transcript: Transcript
    job: Job

    def __init__(self, model: Worker, duration_s: float, deadline_s: float) -> None:
        self._model = model
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
            self.job.recording.priority = priority
        async for _ in self.segments():
            pass
        return self.transcript

    def close(self) -> None:
        self._model.leave(self.job)


class TranscriptionService(Closing):
    """The models of a server, for the routes of one event loop.

    Attributes:
        listed: models by the names that `/v1/models` lists; the first is the default.
    """

    def __init__(
        self,
        models: Sequence[Worker],
        metrics: Metrics,
        limits: LimitOptions,
        aliases: Sequence[str] = (),
    ) -> None:
        self.models = tuple(models)
        self.default = self.models[0]
        self.listed = {model.name: model for model in self.models}
        if len(self.listed) < len(self.models):
            names = ", ".join(model.name for model in self.models)
            raise OptionError(f"--model is given twice for one name ({names}); leave one out")
        for alias in (WHISPER_1, *aliases):
            self.listed.setdefault(alias, self.default)
        others = {name: model for model in reversed(self.models) for name in model.other_names}
        self._known = others | self.listed
        self.metrics = metrics
        self.limits = limits
        self.quota = Quota(limits)
        self.ending = asyncio.Event()

    def find(self, name: str | None) -> Worker:
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
            model.open()
        return self

    def stop(self) -> None:
        """Take no further request; those under way are finished."""
        self.quota.is_closed = True
        for model in self.models:
            model.queue.close()

    def wait_until_empty(self, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        return all(
            model.queue.wait_until_empty(max(0.0, deadline_s - time.monotonic()))
            for model in self.models
        )

    def close(self) -> None:
        """Give up what is not done, and free all models."""
        for model in self.models:
            model.give_up()
        for model in self.models:
            model.close()

    @property
    def state(self) -> State:
        """State of the default model, or that the server ends."""
        return State.ENDING if self.quota.is_closed else self.default.state

    def is_idle(self) -> bool:
        return not any(model.queue.unfinished for model in self.models)

    def captions(self, choices: Choices, caller: Caller) -> EngineCaptions:
        """Return the engine of a live stream: greedy and bounded, as the command `caption`."""
        model = self.find(choices.model)
        options, _ = model.defaults.with_choices(choices)
        limits = replace(options.limits, max_per_second=TOKENS_PER_SECOND)
        search = SearchOptions()
        options = replace(options, search=search, limits=limits, timestamps=False, words=False)
        return EngineCaptions(model, options, caller, self.limits.deadline_s)

    def begin(
        self, audio: FloatArray, choices: Choices, caller: Caller, *, is_early: bool = False
    ) -> Ticket:
        """Transcribe `(n_samples,)` at 16 kHz; behind all else if more may be said (`is_early`)."""
        model = self.find(choices.model)
        ticket = Ticket(model, audio.size / SAMPLE_RATE_HZ, self.limits.deadline_s)
        ticket.job = model.submit(audio, choices, caller, ticket.emit, is_early=is_early)
        return ticket


def make_service(
    models: Sequence[tuple[Transcriber, RequestDefaults]],
    listen: ListenOptions,
    limits: LimitOptions,
) -> TranscriptionService:
    """Return a service; neither it nor the transcribers are open."""
    metrics, memory = Metrics(), ModelMemory(limits.max_memory_mib)
    workers: list[Worker] = []
    for typed, (transcriber, defaults) in zip(listen.model, models, strict=True):
        is_first = not workers
        worker = Worker(
            transcriber,
            defaults,
            metrics,
            memory,
            other_names=(typed, transcriber.encoder.spec.source.name),
            batch_size=limits.batch_size,
            release_after_s=limits.release_after_s or (None if is_first else RELEASE_AFTER_S),
            log_text=listen.log_text,
            loads_at_once=is_first,
        )
        memory.check(worker)
        workers.append(worker)
    return TranscriptionService(workers, metrics, limits, listen.alias)


T = TypeVar("T")

_END: Final = object()


async def run_until(left: Awaitable[None], work: Awaitable[T]) -> T:
    """Return the result of some work, which is cancelled when its client has left."""
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left)
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnectedError
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
