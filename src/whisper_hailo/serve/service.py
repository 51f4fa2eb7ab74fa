"""The service behind all routes: transcripts of recordings, live captions, work on threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    UNSPACED_LANGUAGES,
    FloatArray,
    Segment,
    Transcript,
)
from whisper_hailo.serve.errors import BusyError, ClientDisconnectedError, DeadlineExceededError
from whisper_hailo.serve.jobs import Job, Outcome
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.models import ModelMemory, ModelRegistry, ServedModel
from whisper_hailo.serve.options import RELEASE_AFTER_S, AudioLimits, LimitOptions, ListenOptions
from whisper_hailo.serve.quota import Quota, Reservation
from whisper_hailo.serve.request import (
    Caller,
    Choices,
    Priority,
    Request,
    RequestDefaults,
    StreamItemResult,
)
from whisper_hailo.serve.worker import EngineCaptions, State, Worker, WorkerOptions
from whisper_hailo.transcription.transcriber import Transcriber


class Ticket:
    """A request that was taken up: its segments as they are final, then its transcript."""

    transcript: Transcript

    def __init__(self, duration_s: float, deadline_s: float) -> None:
        self.duration_s = duration_s
        self._loop = asyncio.get_running_loop()
        self._deadline_s = deadline_s
        self._deadline = self._loop.time() + deadline_s
        self._events: asyncio.Queue[Segment | Outcome | Exception] = asyncio.Queue()

    def emit(self, event: Segment | Outcome | Exception) -> None:
        """Hand over what comes; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def segments(self) -> AsyncIterator[Segment]:
        """Yield each segment when it is final; then there is the transcript.

        Raises:
            DeadlineExceededError: it is not done by its deadline.
        """
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

    async def result(self) -> Transcript:
        """The transcript; see `segments` for what it raises."""
        async for _ in self.segments():
            pass
        return self.transcript


@dataclass(eq=False)
class TranscriptionService:
    """The models of a server, for the routes of one event loop."""

    models: ModelRegistry
    _: KW_ONLY
    quota: Quota
    metrics: Metrics
    limits: AudioLimits
    deadline_s: float

    def __post_init__(self) -> None:
        self._is_closed = False
        self.ending = asyncio.Event()

    @property
    def state(self) -> State:
        """State of the default model, or that the server ends."""
        return State.ENDING if self._is_closed else self.models.default.worker.state

    def close(self) -> None:
        """Take no further request; those under way are finished."""
        self._is_closed = True
        self.models.close_queues()

    def admit(self, client: str) -> AbstractContextManager[Reservation]:
        """Hold a place for a request and what it stores; see `Quota.request`."""
        self._expect_open()
        return self.quota.request(client)

    @contextmanager
    def live(self, client: str) -> Iterator[None]:
        """Hold a place for a live stream as long as the block lasts; see `Quota.live`."""
        self._expect_open()
        with self.quota.live(client):
            yield

    def _expect_open(self) -> None:
        if self._is_closed:
            raise BusyError("the server is about to end; try again when it is back")

    def request(self, audio: FloatArray, choices: Choices, caller: Caller) -> Request:
        model = self.models.find(choices.model)
        return Request(audio, *model.options(choices), caller, model.name)

    def captions(self, choices: Choices, caller: Caller) -> EngineCaptions:
        """Return the engine of a live stream; see `ServedModel.captions`."""
        return self.models.find(choices.model).captions(choices, caller, self.deadline_s)

    def record_item(self, choices: Choices, item: StreamItemResult) -> None:
        """Count and log an item of a live stream that is over. From any thread."""
        self.models.find(choices.model).worker.record_item(item)

    def is_idle(self) -> bool:
        """Return whether no model has anything to do."""
        return not any(model.worker.queue.unfinished for model in self.models.models)

    def begin_early(self, audio: FloatArray, choices: Choices, caller: Caller) -> EarlyTranscript:
        """Begin with a command that may not be over yet; everything else goes first."""
        behind = replace(caller, priority=Priority.BATCH)
        request = replace(self.request(audio, choices, behind), is_early=True)
        return EarlyTranscript(*self._begin(request), caller.priority)

    @asynccontextmanager
    async def submit(self, request: Request) -> AsyncIterator[Ticket]:
        worker, ticket, job = self._begin(request)
        try:
            yield ticket
        finally:
            worker.leave(job)

    def _begin(self, request: Request) -> tuple[Worker, Ticket, Job]:
        worker = self.models.find(request.model).worker
        deadline_s = self.deadline_s if request.deadline_s is None else request.deadline_s
        ticket = Ticket(request.audio.size / SAMPLE_RATE_HZ, deadline_s)
        return worker, ticket, worker.submit(request, ticket.emit)


@dataclass(frozen=True, slots=True)
class EarlyTranscript:
    """The text of a command that may not be over yet, under way or done; see `EarlyJob`."""

    worker: Worker
    ticket: Ticket
    job: Job
    priority: Priority

    async def result(self) -> Transcript:
        """Return the transcript, now as urgent as any command's."""
        self.job.priority = self.priority
        return await self.ticket.result()

    def leave(self) -> None:
        """Give it up: more was said, or the client has left."""
        self.worker.leave(self.job)


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
        options = WorkerOptions(
            batch_size=limits.batch_size,
            release_after_s=limits.release_after_s or (None if is_first else RELEASE_AFTER_S),
            log_text=listen.log_text,
            loads_at_once=is_first,
        )
        worker = Worker(transcriber, defaults, options, metrics, memory)
        memory.check(worker)
        languages = tuple(transcriber.tokenizer.special.languages) or ("en",)
        served.append(ServedModel(worker, languages, (typed, worker.spec.source.name)))
    return TranscriptionService(
        ModelRegistry(served, listen.alias),
        quota=Quota(limits),
        metrics=metrics,
        limits=AudioLimits(limits.max_upload_mib << 20, limits.max_audio_s),
        deadline_s=limits.deadline_s,
    )


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
