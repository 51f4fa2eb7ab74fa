"""What HTTP routes share: uploads, server-sent events, and their description."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import Request, Response, UploadFile
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.types import Receive, Scope, Send

from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.access import CLIENT, STORED, SUBMITTED
from whisper_hailo.serve.audio import Decoders, PcmForm
from whisper_hailo.serve.concurrency import run_until_disconnect
from whisper_hailo.serve.request import Caller, Choices, Priority
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket

TEXT, EVENTS = "text/plain", "text/event-stream"


def answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Describe what else than JSON an answer may be."""
    return {200: {"content": {kind: {} for kind in kinds}}}


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
        self._decoders = Decoders(service.limits)

    async def begin(
        self,
        request: Request,
        file: UploadFile,
        choices: Choices,
        form: PcmForm | None = None,
        priority: Priority = Priority.INTERACTIVE,
        *,
        heard_s: float | None = None,
    ) -> Ticket:
        """Transcribe an upload, or its first `heard_s`; bare samples have a `form`."""
        self._service.find_model(choices.model)  # refused before its recording is decoded
        caller = Caller(request.scope[CLIENT], self._api, priority)
        stored = request.scope[STORED]
        decoding = self._decoders.decode(file.file, file.filename, stored, form, heard_s)
        audio = await _run_while_connected(request, decoding)
        ticket = self._service.submit(audio, choices, caller)
        request.scope[SUBMITTED] = True
        return ticket

    async def transcript(
        self,
        request: Request,
        file: UploadFile,
        choices: Choices,
        **how: Any,  # noqa: ANN401 - see `begin`
    ) -> Transcript:
        with await self.begin(request, file, choices, **how) as ticket:
            return await _run_while_connected(request, ticket.result())


async def _run_while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of some work, which is cancelled when the client disconnects."""

    async def disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return await run_until_disconnect(disconnect(), work)


class EventStream(StreamingResponse):
    """Sends events of a request as they come until the client stops reading, then closes it."""

    def __init__(self, events: AsyncIterator[str], ticket: Ticket) -> None:
        unbuffered = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type=EVENTS, headers=unbuffered)
        self._ticket = ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._ticket:
            await super().__call__(scope, receive, send)


def sse(content: Mapping[str, Any]) -> str:
    """An event as text; its name is its type."""
    return f"event: {content['type']}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"
