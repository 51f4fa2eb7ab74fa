"""What HTTP routes share: uploads, server-sent events, fields and their description."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from fastapi import Form, Request, Response, UploadFile
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.types import Receive, Scope, Send

from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.access import CLIENT, RESERVATION, SUBMITTED
from whisper_hailo.serve.audio import AudioDecoders, PcmFormat
from whisper_hailo.serve.concurrency import run_until_disconnect
from whisper_hailo.serve.request import Caller, Choices, Priority
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket

TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"

Task: TypeAlias = Literal["transcribe", "translate"]
ResponseFormat: TypeAlias = Literal["json", "text", "srt", "vtt", "verbose_json"]
FormText: TypeAlias = Annotated[str | None, Form()]
FormResponseFormat: TypeAlias = Annotated[ResponseFormat, Form()]
FormTemperature: TypeAlias = Annotated[float, Form(ge=0, le=1)]


def describe_answers(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Return the description of answers that may have other media types than JSON."""
    return {200: {"content": {media_type: {} for media_type in media_types}}}


T = TypeVar("T")


class UploadRoute(APIRoute):
    """A route whose forms are bounded: all but larger files is kept in memory."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await handler(_UploadRequest(request.scope, request.receive))

        return answer


class _UploadRequest(Request):
    async def _get_form(self, **_limits: object) -> FormData:
        """Return the form, of which Starlette would keep 1000 MiB in memory."""
        return await super()._get_form(max_files=4, max_fields=64, max_part_size=64 << 10)


class UploadHandler:
    """Handles uploads of one HTTP API."""

    def __init__(self, service: TranscriptionService, api: str) -> None:
        self._service = service
        self._api = api
        self._decoders = AudioDecoders(service.limits)

    async def submit(
        self,
        request: Request,
        file: UploadFile,
        choices: Choices,
        *,
        pcm: PcmFormat | None = None,
        priority: Priority = Priority.INTERACTIVE,
        max_s: float | None = None,
    ) -> Ticket:
        """Decode an upload and let it wait for its turn.

        Raw samples have a `pcm` format. Only the first `max_s` seconds are transcribed, unless it
        is `None`.
        """
        # A model that is not served is refused before the recording is decoded.
        self._service.find_model(choices.model)
        caller = Caller(request.scope[CLIENT], self._api, priority)
        decoding = self._decoders.decode(
            file.file, file.filename, request.scope[RESERVATION], pcm=pcm, max_s=max_s
        )
        audio = await _run_while_connected(request, decoding)
        ticket = self._service.submit(audio, choices, caller)
        request.scope[SUBMITTED] = True
        return ticket

    async def transcribe(
        self,
        request: Request,
        file: UploadFile,
        choices: Choices,
        *,
        pcm: PcmFormat | None = None,
        priority: Priority = Priority.INTERACTIVE,
        max_s: float | None = None,
    ) -> Transcript:
        """Return the transcript of an upload; see `submit`."""
        ticket = await self.submit(request, file, choices, pcm=pcm, priority=priority, max_s=max_s)
        with ticket:
            return await _run_while_connected(request, ticket.result())


async def _run_while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of some work, which is cancelled when the client disconnects."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return await run_until_disconnect(wait_for_disconnect(), work)


class EventStream(StreamingResponse):
    """Sends events of a request as they come until the client stops reading, then closes it."""

    def __init__(self, events: AsyncIterator[str], ticket: Ticket) -> None:
        # Proxies such as nginx would collect events, and browsers would keep them.
        unbuffered = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type=EVENTS, headers=unbuffered)
        self._ticket = ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._ticket:
            await super().__call__(scope, receive, send)


def format_event(content: Mapping[str, Any]) -> str:
    """Return a server-sent event; its name is its type."""
    data = json.dumps(content, ensure_ascii=False)
    return f"event: {content['type']}\ndata: {data}\n\n"
