"""What HTTP routes share: uploads, server-sent events, fields and their description."""

from __future__ import annotations

import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
)
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from fastapi import Form, Request, Response, UploadFile
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from whisper_hailo.core.types import FloatArray, Transcript
from whisper_hailo.serve.access import CLIENT, RESERVATION, SUBMITTED
from whisper_hailo.serve.audio import PcmFormat
from whisper_hailo.serve.concurrency import run_until_disconnect
from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.forms import UploadRequest
from whisper_hailo.serve.request import Caller, Choices, Priority
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.speakers import KnownSpeakers, UploadSpeakers
from whisper_hailo.serve.ticket import Ticket
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio

TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"

Task: TypeAlias = Literal["transcribe", "translate"]
ResponseFormat: TypeAlias = Literal["json", "text", "srt", "vtt", "verbose_json"]
DiarizedFormat: TypeAlias = ResponseFormat | Literal["diarized_json"]
FormText: TypeAlias = Annotated[str | None, Form()]
FormResponseFormat: TypeAlias = Annotated[ResponseFormat, Form()]
FormTemperature: TypeAlias = Annotated[float, Form(ge=0, le=1)]


def describe_answers(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Return the description of answers that may have other media types than JSON."""
    return {200: {"content": {media_type: {} for media_type in media_types}}}


SpeakerSearch: TypeAlias = Callable[[], Awaitable[SpeakerAttribution]]
"""Finds the speakers of a recording when it is called, once."""

T = TypeVar("T")


class UploadRoute(APIRoute):
    """A route whose forms are bounded."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await handler(UploadRequest(request.scope, request.receive))

        return answer


class UploadHandler:
    """Handles uploads of one HTTP API."""

    def __init__(self, service: TranscriptionService, api: str) -> None:
        self._service = service
        self._api = api
        self._decoders = service.decoders
        self._speakers = UploadSpeakers(
            service.speaker_finder, self._decoders, service.memory
        )

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
        model = self._service.find_model(choices.model)
        if choices.subtitles and model.transcriber.decoder.limits.aligns:
            choices = replace(choices, word_timestamps=True)
        opening = self._decoders.open_recording(
            file.file, file.filename, request.scope[RESERVATION], pcm=pcm, max_s=max_s
        )
        audio = await _run_while_connected(request, opening)
        return self._submit_audio(request, audio, choices, priority)

    def _submit_audio(
        self,
        request: Request,
        audio: FloatArray | OpenedAudio,
        choices: Choices,
        priority: Priority,
    ) -> Ticket:
        caller = Caller(request.scope[CLIENT], self._api, priority)
        ticket = self._service.submit(audio, choices, caller)
        request.scope[SUBMITTED] = True
        return ticket

    def has_speakers(self) -> bool:
        """Return whether recordings can have speakers without the model hub."""
        return self._speakers.is_available()

    async def submit_with_speakers(
        self, request: Request, file: UploadFile, choices: Choices, known: KnownSpeakers
    ) -> tuple[Ticket, SpeakerAttribution]:
        """Decode an upload, let it wait for its turn, and find its speakers meanwhile."""
        samples = await _run_while_connected(
            request,
            self._speakers.decode_samples(known, request.scope[RESERVATION]),
        )
        ticket, audio = await self._submit_decoded(request, file, choices)
        try:
            finding = self._speakers.find(audio, known.names, samples)
            return ticket, await _run_while_connected(request, finding)
        except BaseException:
            ticket.close()
            raise

    async def submit_for_speakers(
        self,
        request: Request,
        file: UploadFile,
        choices: Choices,
        options: SpeakerOptions,
    ) -> tuple[Ticket, SpeakerSearch]:
        """Decode an upload, let it wait for its turn, and return what finds its speakers."""
        ticket, audio = await self._submit_decoded(request, file, choices)
        return ticket, partial(self._speakers.find_numbered, audio, options)

    async def _submit_decoded(
        self, request: Request, file: UploadFile, choices: Choices
    ) -> tuple[Ticket, FloatArray]:
        """Decode a whole upload, whose words get times if possible, and let it wait.

        Without word times whole segments are given to speakers.
        """
        model = self._service.find_model(choices.model)
        has_words = model.transcriber.decoder.limits.aligns
        choices = replace(choices, word_timestamps=has_words)
        decoding = self._decoders.decode(
            file.file, file.filename, request.scope[RESERVATION]
        )
        audio = await _run_while_connected(request, decoding)
        ticket = self._submit_audio(request, audio, choices, Priority.INTERACTIVE)
        return ticket, audio

    async def transcribe_with_speakers(
        self, request: Request, file: UploadFile, choices: Choices, known: KnownSpeakers
    ) -> Transcript:
        """Return the transcript of an upload, with the speaker of each segment."""
        ticket, speakers = await self.submit_with_speakers(
            request, file, choices, known
        )
        with ticket:
            transcript = await _run_while_connected(request, ticket.result())
        parts = [
            part
            for segment in transcript.segments
            for part in speakers.attribute(segment)
        ]
        return replace(transcript, segments=tuple(parts))

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
        ticket = await self.submit(
            request, file, choices, pcm=pcm, priority=priority, max_s=max_s
        )
        with ticket:
            return await _run_while_connected(request, ticket.result())


async def _run_while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of some work, which is cancelled when the client disconnects."""
    return await run_until_disconnect(_wait_for_disconnect(request.receive), work)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """Sends events of a request as they come until the client stops reading, then closes it."""

    def __init__(self, events: AsyncIterator[str], ticket: Ticket) -> None:
        # Proxies such as nginx would collect events, and browsers would keep them.
        unbuffered = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type=EVENTS, headers=unbuffered)
        self._ticket = ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; Starlette's own way leaves cycles that hold the ticket."""
        del scope
        with self._ticket, suppress(ClientDisconnectedError, OSError):
            await run_until_disconnect(
                _wait_for_disconnect(receive), self.stream_response(send)
            )


def format_event(content: Mapping[str, Any]) -> str:
    """Return a server-sent event; its name is its type."""
    data = json.dumps(content, ensure_ascii=False)
    return f"event: {content['type']}\ndata: {data}\n\n"
