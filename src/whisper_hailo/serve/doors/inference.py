"""`/inference`, as whisper.cpp's server has it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse

from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.engine import Engine
from whisper_hailo.serve.http.asking import Asking, UploadRoute, while_there
from whisper_hailo.serve.http.failures import TEXT, answers
from whisper_hailo.serve.request import Choices
from whisper_hailo.text.outputs import openai_json, render

_DOOR: Final = "inference"


def router(engine: Engine) -> APIRouter:
    """`/inference`, as whisper.cpp's server has it."""
    routes = APIRouter(route_class=UploadRoute, tags=["whisper.cpp"])
    asking = Asking(engine, _DOOR)

    @routes.post(
        "/inference",
        summary="Text of a recording",
        response_model=None,
        responses=answers(TEXT),
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
        choices = Choices(
            language=language or None,
            task="translate" if translate else None,
            prompt=prompt,
            temperature=temperature,
        )
        async with asking.ticket(request, file, choices) as ticket:
            transcript = await while_there(request, ticket.result())
        return _answer(transcript, response_format)

    return routes


def _answer(transcript: Transcript, layout: str) -> Response:
    if layout == "json":
        return JSONResponse({"text": transcript.text})
    if layout == "verbose_json":
        body: dict[str, Any] = openai_json(transcript)
        return JSONResponse(body)
    return PlainTextResponse(render(transcript, "txt" if layout == "text" else layout))
