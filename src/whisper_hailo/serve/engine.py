"""The engine of the server: what routes ask of it, and how it is made."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Protocol

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    UNSPACED_LANGUAGES,
    FloatArray,
    Segment,
    Transcript,
)
from whisper_hailo.decoding.option_groups import SearchOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.captioning.engine import TOKENS_PER_SECOND, CaptionEngine
from whisper_hailo.serve.audio import AudioLimits
from whisper_hailo.serve.captions import EngineCaptions
from whisper_hailo.serve.errors import DeadlineExceededError, UnknownModelError
from whisper_hailo.serve.job import Outcome
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.options import LimitOptions, ListenOptions
from whisper_hailo.serve.quota import Quota, Reservation
from whisper_hailo.serve.request import (
    MAX_HOTWORDS_LETTERS,
    Caller,
    Choices,
    Defaults,
    Request,
    StreamItemResult,
)
from whisper_hailo.serve.threads import on_thread
from whisper_hailo.serve.worker import State, Worker, WorkerOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber

_MAX_HINTS: Final = 1000
"""More do not fit in any model's prompt."""

WHISPER_1: Final = "whisper-1"
_OPENAI_MODEL: Final = re.compile(r"gpt-4o(-mini)?-transcribe(-\d{4}-\d\d-\d\d)?")


@dataclass(frozen=True, slots=True)
class Served:
    """The model behind the doors.

    Attributes:
        name: of the model.
        aliases: further names that clients may use, beside `whisper-1`.
        languages: codes of those it knows.
        created_s: when it was loaded, in seconds since 1970.
    """

    name: str
    aliases: tuple[str, ...]
    languages: tuple[str, ...]
    created_s: int

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that `/v1/models` lists."""
        return tuple(dict.fromkeys((self.name, WHISPER_1, *self.aliases)))

    def expect(self, name: str | None) -> None:
        """Check the model that a request names; `None` stands for the one that is served.

        Names of OpenAI's newer models are accepted too: clients such as Home Assistant's have no
        setting for them.

        Raises:
            UnknownModelError: another model.
        """
        if name and name not in self.names and not _OPENAI_MODEL.fullmatch(name):
            known = ", ".join(self.names)
            raise UnknownModelError(f"model {name[:80]!r} is not served, expected one of: {known}")


class Ticket:
    """A request that was taken up: its segments as they are final, then its transcript.

    Args:
        duration_s: of the recording.
        deadline_s: most seconds to the transcript.
    """

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
        """Each segment when it is final; then there is the transcript.

        Raises:
            DeadlineExceededError: it is not done by its deadline.
            WhisperHailoError: what kept it from being transcribed.
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


class Captions(CaptionEngine, Protocol):
    """Hears one live stream, whose client may leave at any time."""

    def leave(self) -> None:
        """Give up the running work: the client has gone. From any thread."""
        ...


class Engine:
    """The engine of a worker, for the doors of one event loop.

    Args:
        worker: open.
        served: the model.
        defaults: options of requests that choose nothing.
        limits: of a request's audio.
        deadline_s: most seconds of a request that brings none of its own.
    """

    def __init__(
        self,
        worker: Worker,
        served: Served,
        defaults: Defaults,
        *,
        limits: AudioLimits,
        deadline_s: float,
    ) -> None:
        self._worker = worker
        self._defaults = defaults
        self._deadline_s = deadline_s
        self.ending = asyncio.Event()
        self.served = served
        self.limits = limits
        self.quota = worker.quota
        self.metrics = worker.metrics

    @property
    def state(self) -> State:
        return State.ENDING if self._worker.queue.is_closed else self._worker.state

    def admit(self, client: str) -> AbstractContextManager[Reservation]:
        return self._worker.queue.request(client)

    def request(self, audio: FloatArray, choices: Choices, caller: Caller) -> Request:
        return Request(audio, *self._defaults.with_choices(self._hinted(choices)), caller)

    def _hinted(self, choices: Choices) -> Choices:
        """Return the same with hints as hotwords, where the engine takes any."""
        names = [hint for hint in choices.hints if hint.isprintable() and "<|" not in hint]
        total = accumulate(len(name) + len(", ") for name in names[:_MAX_HINTS])
        names = names[: sum(letters <= MAX_HOTWORDS_LETTERS for letters in total)]
        if choices.hotwords or not names:
            return choices
        expected = ", ".join(names)
        default = self._worker.default
        prompts = replace(default.prompts, hotwords=expected)
        try:
            self._worker.transcriber.check(replace(default, prompts=prompts))
        except OptionError:
            return choices
        return replace(choices, hotwords=expected)

    def live(self, client: str) -> AbstractContextManager[None]:
        return self._worker.queue.live(client)

    def captions(self, choices: Choices, caller: Caller) -> Captions:
        """See `Engine`; each look is greedy and bounded, as in the command `caption`."""
        options, _ = self._defaults.with_choices(self._hinted(choices))
        limits = replace(options.limits, max_per_second=TOKENS_PER_SECOND)
        search = SearchOptions()
        options = replace(options, search=search, limits=limits, timestamps=False, words=None)
        self._worker.transcriber.check(options)
        return EngineCaptions(self._worker, options, caller, self._deadline_s)

    def record_item(self, item: StreamItemResult) -> None:
        self._worker.record_item(item)

    @asynccontextmanager
    async def submit(self, request: Request) -> AsyncIterator[Ticket]:
        deadline_s = self._deadline_s if request.deadline_s is None else request.deadline_s
        ticket = Ticket(request.audio.size / SAMPLE_RATE_HZ, deadline_s)
        job = await on_thread(self._worker.submit, request, ticket.emit, undo=self._worker.leave)
        try:
            yield ticket
        finally:
            self._worker.leave(job)


def make_worker(
    transcriber: Transcriber,
    default: DecodingOptions,
    long: LongOptions,
    doors: ListenOptions,
    limits: LimitOptions,
) -> Worker:
    """The thread that decodes, not begun.

    Args:
        transcriber: not open.
        default: options of requests that choose nothing.
        long: how recordings are cut into windows.
        doors: whether texts are logged.
        limits: how much is taken on.
    """
    options = WorkerOptions(
        batch_size=limits.batch_size,
        release_after_s=limits.release_after_s,
        log_text=doors.log_text,
    )
    return Worker(transcriber, default, options, Metrics(), long, quota=Quota(limits))


def make_engine(
    worker: Worker, fallback: float, doors: ListenOptions, limits: LimitOptions
) -> Engine:
    """What the doors know of it.

    Args:
        worker: that decodes.
        fallback: by how much each try of doubtful text is hotter; 0 is off.
        doors: other names of the model.
        limits: of a request.
    """
    transcriber, default = worker.transcriber, worker.default
    languages = tuple(transcriber.tokenizer.special.languages) or ("en",)
    name = transcriber.settings(default).model
    return Engine(
        worker,
        Served(name, doors.alias, languages, int(time.time())),
        Defaults(default, worker.long, fallback),
        limits=AudioLimits(limits.max_upload_mib << 20, limits.max_audio_s),
        deadline_s=limits.deadline_s,
    )
