"""What programs for films ask: `/asr` and `/detect-language`, as whisper-asr-webservice has them.

Bazarr's Whisper provider calls these, with bare samples and `encode=false`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response, UploadFile

from whisper_hailo.core.languages import language_name
from whisper_hailo.serve.audio import PcmForm
from whisper_hailo.serve.engine import Engine
from whisper_hailo.serve.http.asking import Asking, while_there
from whisper_hailo.serve.request import Choices, Priority, Speech
from whisper_hailo.text.outputs import render

_DOOR: Final = "media"
_TIMED: Final = frozenset({"srt", "vtt", "tsv"})
_HEARD_S: Final = 30.0
"""A language is found out by the beginning."""


def router(engine: Engine) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["media servers"])
    asking = Asking(engine, _DOOR)

    @routes.post("/asr", summary="Text or subtitles of a recording", response_class=Response)
    async def asr(
        *,
        request: Request,
        audio_file: UploadFile,
        encode: Annotated[bool, Query(description="false: bare 16-bit samples, 16 kHz")] = True,
        task: Annotated[Literal["transcribe", "translate"], Query()] = "transcribe",
        language: Annotated[str | None, Query()] = None,
        initial_prompt: Annotated[str | None, Query()] = None,
        vad_filter: Annotated[bool, Query()] = False,
        word_timestamps: Annotated[bool, Query()] = False,
        output: Annotated[Literal["txt", "vtt", "srt", "tsv", "json"], Query()] = "txt",
    ) -> Response:
        choices = Choices(
            language=language or None,
            task=task,
            prompt=initial_prompt,
            times=output in _TIMED,
            words=word_timestamps,
            speech=Speech() if vad_filter else None,
        )
        form, batch = _form(encode), Priority.BATCH
        async with asking.ticket(request, audio_file, choices, form, batch) as ticket:
            transcript = await while_there(request, ticket.result())
        name = quote(audio_file.filename or "audio_file", safe="")
        return Response(
            render(transcript, output),
            media_type="text/plain; charset=utf-8",
            headers={
                "Asr-Engine": "whisper-hailo",
                "Content-Disposition": f'attachment; filename="{name}.{output}"',
            },
        )

    @routes.post("/detect-language", summary="Which language is spoken")
    async def detect_language(
        *, request: Request, audio_file: UploadFile, encode: Annotated[bool, Query()] = True
    ) -> dict[str, Any]:
        choices = Choices(language="auto", max_new_tokens=1)
        form = _form(encode)
        async with asking.ticket(request, audio_file, choices, form, heard_s=_HEARD_S) as ticket:
            transcript = await while_there(request, ticket.result())
        code = transcript.language
        return {
            "detected_language": language_name(code),
            "language_code": code,
            "confidence": transcript.language_probs.get(code, 1.0),
        }

    return routes


def _form(encode: bool) -> PcmForm | None:
    return None if encode else PcmForm()
