"""Routes of media servers: whisper-asr-webservice's, and whisper.cpp's `/inference`.

Bazarr's Whisper provider calls `/asr` and `/detect-language`, with raw samples and `encode=false`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse

from whisper_hailo.core.languages import language_name
from whisper_hailo.serve.audio import PcmFormat
from whisper_hailo.serve.request import Choices, Priority
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.uploads import (
    TEXT,
    FormResponseFormat,
    FormTemperature,
    FormText,
    Task,
    UploadHandler,
    UploadRoute,
    describe_answers,
)
from whisper_hailo.text.formats import SUBTITLES, render
from whisper_hailo.text.transcript_json import openai_json, verbose_json

Encode = Annotated[bool, Query(description="false: raw 16-bit samples, 16 kHz")]

_DETECTION_S: Final = 30.0
"""The language of a recording is detected at its beginning."""


def media_router(service: TranscriptionService) -> APIRouter:
    """Return `/asr`, `/detect-language` and `/inference`."""
    router = APIRouter(route_class=UploadRoute, tags=["media servers"])
    uploads = UploadHandler(service, "media")
    _add_inference(router, UploadHandler(service, "inference"))
    _add_asr(router, uploads)
    _add_detect_language(router, uploads)
    return router


def _add_inference(router: APIRouter, uploads: UploadHandler) -> None:
    @router.post("/inference", response_model=None, responses=describe_answers(TEXT))
    async def inference(
        *,
        request: Request,
        file: UploadFile,
        response_format: FormResponseFormat = "json",
        temperature: FormTemperature = 0.0,
        language: FormText = None,
        prompt: FormText = None,
        translate: Annotated[bool, Form()] = False,
    ) -> Response:
        """Transcribe a recording and answer as whisper.cpp's server."""
        choices = Choices(
            language=language or None,
            task="translate" if translate else None,
            prompt=prompt,
            temperature=temperature,
            subtitles=response_format in SUBTITLES,
        )
        transcript = await uploads.transcribe(request, file, choices)
        match response_format:
            case "json":
                return JSONResponse({"text": transcript.text})
            case "verbose_json":
                return JSONResponse(openai_json(transcript))
            case "text":
                return PlainTextResponse(render(transcript, "txt"))
            case "srt" | "vtt":
                return PlainTextResponse(render(transcript, response_format))


def _add_asr(router: APIRouter, uploads: UploadHandler) -> None:
    @router.post("/asr", response_model=None, responses=describe_answers(TEXT))
    async def asr(
        *,
        request: Request,
        audio_file: UploadFile,
        encode: Encode = True,
        task: Task = "transcribe",
        language: str | None = None,
        initial_prompt: str | None = None,
        vad_filter: bool = False,
        word_timestamps: bool = False,
        output: Literal["txt", "vtt", "srt", "tsv", "json"] = "txt",
    ) -> Response:
        """Return the text or the subtitles of a recording as a file."""
        choices = Choices(
            language=language or None,
            task=task,
            prompt=initial_prompt,
            word_timestamps=word_timestamps,
            subtitles=output in SUBTITLES,
            speech={} if vad_filter else None,
        )
        transcript = await uploads.transcribe(
            request,
            audio_file,
            choices,
            pcm=_pcm_format(encode),
            priority=Priority.BATCH,
        )
        if output == "json":
            # As OpenAI Whisper writes it: clients of this route may not know our own fields.
            content = json.dumps(verbose_json(transcript), ensure_ascii=False)
        else:
            content = render(transcript, output)
        # Quoted: the name is the client's, and must not end the header.
        name = quote(f"{audio_file.filename or 'audio'}.{output}", safe="")
        headers = {
            "Asr-Engine": "whisper-hailo",
            "Content-Disposition": f'attachment; filename="{name}"',
        }
        return Response(
            content, media_type="text/plain; charset=utf-8", headers=headers
        )


def _add_detect_language(router: APIRouter, uploads: UploadHandler) -> None:
    @router.post("/detect-language")
    async def detect_language(
        request: Request, audio_file: UploadFile, encode: Encode = True
    ) -> dict[str, Any]:
        """Detect the language of a recording in its beginning."""
        choices = Choices(language="auto", max_new_tokens=1)
        transcript = await uploads.transcribe(
            request, audio_file, choices, pcm=_pcm_format(encode), max_s=_DETECTION_S
        )
        code = transcript.language
        return {
            "detected_language": language_name(code).lower(),
            "language_code": code,
            "confidence": transcript.language_probs.get(code, 1.0),
        }


def _pcm_format(encode: bool) -> PcmFormat | None:
    """Return the format of an upload's samples; `None` where it is to be decoded as a file."""
    return None if encode else PcmFormat()
