"""Routes of the page at `/`, on which people transcribe files and their microphone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from importlib import resources
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request, Response, UploadFile

from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Transcript
from whisper_hailo.serve.access import error_body
from whisper_hailo.serve.request import Choices
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket
from whisper_hailo.serve.uploads import (
    EventStream,
    SpeakerSearch,
    Task,
    UploadHandler,
    UploadRoute,
    format_event,
)
from whisper_hailo.speakers.options import (
    SpeakerOptions,
    check_speaker_count,
    parse_names,
)
from whisper_hailo.text.formats import FORMATS, JSON, render
from whisper_hailo.text.subtitles import speaker_name
from whisper_hailo.text.transcript_json import drop_words

_FOLDER: Final = resources.files("whisper_hailo.serve").joinpath("page")
_MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
}
_FILES: Final = {f"/page/{file.name}": file.name for file in _FOLDER.iterdir()} | {
    "/": "index.html"
}
_ABOUT: Final = "/page/about.json"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; worker-src 'self'; img-src data:; media-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_NOT_SAVED_AS: Final = ("tsv",)  # a format for programs, which use another route
_BYTES_PER_SECOND: Final = 2 * SAMPLE_RATE_HZ  # of the page's recordings

PUBLIC_PATHS: Final = frozenset({*_FILES, _ABOUT})
"""The page itself, where a user types an API key."""


def page_router(service: TranscriptionService, *, needs_key: bool) -> APIRouter:
    """Return the page at `/` and what it asks for; they are not in the API's description."""
    router = APIRouter(route_class=UploadRoute, include_in_schema=False)
    uploads = UploadHandler(service, "page")

    async def file(request: Request) -> Response:
        name = _FILES[request.scope["path"]]
        content = _FOLDER.joinpath(name).read_bytes()
        media_type = _MEDIA_TYPES[PurePosixPath(name).suffix]
        return Response(content, media_type=media_type, headers=_HEADERS)

    for path in _FILES:
        router.add_api_route(path, file)

    @router.get(_ABOUT)
    async def about() -> dict[str, Any]:
        has_speakers = uploads.has_speakers()
        return _describe_service(
            service, needs_key=needs_key, has_speakers=has_speakers
        )

    @router.post("/page/transcripts", response_model=None)
    async def transcripts(
        *,
        request: Request,
        file: UploadFile,
        model: Annotated[str, Form()] = "",
        language: Annotated[str, Form()] = "",
        task: Annotated[Task, Form()] = "transcribe",
        speakers: Annotated[str, Form()] = "",
        speaker_names: Annotated[str, Form()] = "",
    ) -> Response:
        choices = Choices(
            model=model, language=language or None, task=task, subtitles=True
        )
        if not speakers:
            ticket = await uploads.submit(request, file, choices)
            return EventStream(_stream_events(ticket), ticket)
        options = SpeakerOptions(
            check_speaker_count(speakers), parse_names(speaker_names)
        )
        ticket, search = await uploads.submit_for_speakers(
            request, file, choices, options
        )
        return EventStream(_stream_events(ticket, search), ticket)

    return router


def _describe_service(
    service: TranscriptionService, *, needs_key: bool, has_speakers: bool
) -> dict[str, Any]:
    """Return what the page needs to know before a file is sent."""
    limits = service.limits
    codes = {code for model in service.models for code in model.languages}
    languages = sorted((language_name(code), code) for code in codes)
    # A second less than fits into an upload: the form around the samples takes some bytes.
    upload_s = limits.max_upload_bytes / _BYTES_PER_SECOND - 1
    return {
        "models": [model.name for model in service.models],
        "languages": [(code, name) for name, code in languages],
        "key": needs_key,
        "speakers": has_speakers,
        "seconds": min(limits.max_audio_s, upload_s),
    }


def _render_files(transcript: Transcript) -> list[dict[str, str]]:
    """Return the files that the page offers, with the names of their formats."""
    # Words serve the subtitles; the JSON of other routes has them only if asked.
    contents = dict.fromkeys(FORMATS, transcript)
    contents[JSON] = drop_words(transcript)
    return [
        {
            "suffix": name,
            "label": entry.label,
            "media_type": entry.media_type,
            "text": render(contents[name], name, paragraphs=True),
        }
        for name, entry in FORMATS.items()
        if name not in _NOT_SAVED_AS
    ]


async def _stream_events(
    ticket: Ticket, search: SpeakerSearch | None = None
) -> AsyncIterator[str]:
    """Yield each segment when it is final, then the files that can be saved."""
    yield format_event(
        {
            "type": "begin",
            "duration": ticket.duration_s,
            "speakers": search is not None,
        }
    )
    try:
        speakers = None if search is None else await search()
        segments: list[Segment] = []
        async for whole in ticket.segments():
            parts = [whole] if speakers is None else speakers.attribute(whole)
            segments += parts
            for segment in parts:
                yield format_event(_segment_event(segment))
        transcript = ticket.transcript
        if speakers is not None:
            transcript = replace(transcript, segments=tuple(segments))
        yield format_event(_done_event(transcript))
    except Exception as error:  # too late for an HTTP status: it is sent already
        yield format_event({"type": "error", **error_body(error)})


def _segment_event(segment: Segment) -> dict[str, Any]:
    speaker = segment.speaker
    return {
        "type": "segment",
        "text": segment.text,
        "start": segment.start_s,
        "end": segment.end_s,
        "words": [(word.start_s, word.text) for word in segment.words],
        "speaker": None if speaker is None else speaker_name(speaker),
    }


def _done_event(transcript: Transcript) -> dict[str, Any]:
    return {
        "type": "done",
        "language": language_name(transcript.language),
        "probability": transcript.language_probs.get(transcript.language),
        "duration": transcript.duration_s,
        "files": _render_files(transcript),
    }
