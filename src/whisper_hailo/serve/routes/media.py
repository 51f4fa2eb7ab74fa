"""Routes of other servers: whisper-asr-webservice's, and whisper.cpp's `/inference`.

Bazarr's Whisper provider calls `/asr` and `/detect-language`, with bare samples and `encode=false`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse

from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.audio import PcmForm
from whisper_hailo.serve.request import Choices, Priority, SpeechChoices
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.uploads import (
    TEXT,
    UploadHandler,
    UploadRoute,
    answers,
    run_until_disconnect,
)
from whisper_hailo.text.outputs import openai_json, render, verbose_json

Encode = Annotated[bool, Query(description="false: bare 16-bit samples, 16 kHz")]

_HEARD_S: Final = 30.0
"""A language is detected by the beginning."""


def router(service: TranscriptionService) -> APIRouter:
    """Return `/asr`, `/detect-language` and `/inference`."""
    routes = APIRouter(route_class=UploadRoute, tags=["media servers"])
    uploads, inferences = UploadHandler(service, "media"), UploadHandler(service, "inference")

    @routes.post(
        "/inference", summary="Text of a recording", response_model=None, responses=answers(TEXT)
    )
    async def inference(
        *,
        request: Request,
        file: UploadFile,
        response_format: Annotated[
            Literal["json", "text", "srt", "vtt", "verbose_json"], Form()
        ] = "json",
        temperature: Annotated[float, Form(ge=0, le=1)] = 0.0,
        language: Annotated[str | None, Form()] = None,
        prompt: Annotated[str | None, Form()] = None,
        translate: Annotated[bool, Form()] = False,
    ) -> Response:
        """A recording as whisper.cpp's server answers it."""
        choices = Choices(
            language=language or None,
            task="translate" if translate else None,
            prompt=prompt,
            temperature=temperature,
        )
        async with inferences.ticket(request, file, choices) as ticket:
            transcript = await run_until_disconnect(request, ticket.result())
        return _inferred(transcript, response_format)

    @routes.post(
        "/asr", summary="Text or subtitles of a recording", response_model=None,
        responses=answers(TEXT),
    )  # fmt: skip
    async def asr(
        *,
        request: Request,
        audio_file: UploadFile,
        encode: Encode = True,
        task: Annotated[Literal["transcribe", "translate"], Query()] = "transcribe",
        language: Annotated[str | None, Query()] = None,
        initial_prompt: Annotated[str | None, Query()] = None,
        vad_filter: Annotated[bool, Query()] = False,
        word_timestamps: Annotated[bool, Query()] = False,
        output: Annotated[Literal["txt", "vtt", "srt", "tsv", "json"], Query()] = "txt",
    ) -> Response:
        """A recording as a file of some format."""
        choices = Choices(
            language=language or None,
            task=task,
            prompt=initial_prompt,
            words=word_timestamps,
            speech=SpeechChoices() if vad_filter else None,
        )
        form = None if encode else PcmForm()
        async with uploads.ticket(request, audio_file, choices, form, Priority.BATCH) as ticket:
            transcript = await run_until_disconnect(request, ticket.result())
        return _file(_rendered(transcript, output), f"{audio_file.filename or 'audio'}.{output}")

    @routes.post("/detect-language", summary="Spoken language")
    async def detect_language(
        *, request: Request, audio_file: UploadFile, encode: Encode = True
    ) -> dict[str, Any]:
        """The language of a recording, by its beginning."""
        choices, form = Choices(language="auto", max_new_tokens=1), None if encode else PcmForm()
        async with uploads.ticket(request, audio_file, choices, form, heard_s=_HEARD_S) as ticket:
            transcript = await run_until_disconnect(request, ticket.result())
        code = transcript.language
        return {
            "detected_language": language_name(code).lower(),
            "language_code": code,
            "confidence": transcript.language_probs.get(code, 1.0),
        }

    return routes


def _rendered(transcript: Transcript, output: str) -> str:
    """Return what the command writes; of JSON only what OpenAI Whisper's own has, too."""
    if output == "json":
        return json.dumps(verbose_json(transcript), ensure_ascii=False)
    return render(transcript, output)


def _file(content: str, name: str) -> Response:
    disposition = f'attachment; filename="{quote(name, safe="")}"'
    headers = {"Asr-Engine": "whisper-hailo", "Content-Disposition": disposition}
    return Response(content, media_type="text/plain; charset=utf-8", headers=headers)


def _inferred(transcript: Transcript, layout: str) -> Response:
    if layout == "json":
        return JSONResponse({"text": transcript.text})
    if layout == "verbose_json":
        return JSONResponse(openai_json(transcript))
    return PlainTextResponse(render(transcript, "txt" if layout == "text" else layout))
