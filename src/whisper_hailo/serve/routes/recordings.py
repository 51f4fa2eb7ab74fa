"""Routes of recordings: OpenAI's API, whisper-asr-webservice's, and whisper.cpp's `/inference`.

Bazarr's Whisper provider calls `/asr` and `/detect-language`, with bare samples and `encode=false`.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ValidationError

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import Segment, Transcript, Word
from whisper_hailo.live.events import CaptionWord
from whisper_hailo.serve.access import body_of
from whisper_hailo.serve.audio import PcmForm
from whisper_hailo.serve.request import Choices, Priority, only_language
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.ticket import Ticket
from whisper_hailo.serve.uploads import (
    EVENTS,
    TEXT,
    EventStream,
    UploadHandler,
    UploadRoute,
    answers,
    sse,
)
from whisper_hailo.text.formats import render
from whisper_hailo.text.transcript_json import openai_json, verbose_json

Layout = Literal["json", "text", "srt", "vtt", "verbose_json"]
Granularity = Literal["word", "segment"]
Task = Literal["transcribe", "translate"]
FormText = Annotated[str | None, Form()]
FormLayout = Annotated[Layout, Form()]
FormTemperature = Annotated[float, Form(ge=0, le=1)]
Encode = Annotated[bool, Query(description="false: bare 16-bit samples, 16 kHz")]

_LEAST_PROBABILITY: Final = 1e-9  # A probability has a logarithm
_HEARD_S: Final = 30.0  # A language is detected by the beginning


def openai_router(service: TranscriptionService) -> APIRouter:
    """Return the routes of recordings and models."""
    routes = APIRouter(route_class=UploadRoute, prefix="/v1", tags=["OpenAI"])
    uploads = UploadHandler(service, "openai")

    @routes.post("/audio/transcriptions", response_model=None, responses=answers(TEXT, EVENTS))
    async def transcriptions(
        *,
        request: Request,
        file: UploadFile,
        model: FormText = None,
        language: FormText = None,
        prompt: FormText = None,
        response_format: FormLayout = "json",
        temperature: FormTemperature = 0.0,
        timestamp_granularities: Annotated[
            list[Granularity] | None, Form(alias="timestamp_granularities[]")
        ] = None,
        stream: Annotated[bool, Form()] = False,
        include: Annotated[list[Literal["logprobs"]] | None, Form(alias="include[]")] = None,
        hotwords: FormText = None,
        languages: Annotated[list[str] | None, Form(alias="languages[]")] = None,
        keywords: Annotated[list[str] | None, Form(alias="keywords[]")] = None,
        chunking_strategy: FormText = None,
    ) -> Response:
        """Text of a recording in its own language."""
        granularities, logprobs = timestamp_granularities or ["segment"], bool(include)
        if timestamp_granularities and response_format != "verbose_json":
            raise OptionError("timestamp_granularities needs response_format verbose_json")
        choices = Choices(
            model=model,
            language=language or only_language(languages or ()),
            prompt=prompt,
            hotwords=hotwords or ", ".join(keywords or ()),
            temperature=temperature,
            word_timestamps=logprobs or "word" in granularities,
            speech=_parse_speech(chunking_strategy, await request.form()),
        )
        if stream:
            ticket = await uploads.begin(request, file, choices)
            return EventStream(_events(ticket, logprobs=logprobs), ticket)
        transcript = await uploads.transcript(request, file, choices)
        return _render_answer(transcript, response_format, granularities, logprobs=logprobs)

    @routes.post("/audio/translations", response_model=None, responses=answers(TEXT))
    async def translations(
        *,
        request: Request,
        file: UploadFile,
        model: FormText = None,
        prompt: FormText = None,
        response_format: FormLayout = "json",
        temperature: FormTemperature = 0.0,
    ) -> Response:
        """Text of a recording in English, whatever is spoken."""
        choices = Choices(model=model, task="translate", prompt=prompt, temperature=temperature)
        return _render_answer(await uploads.transcript(request, file, choices), response_format)

    def described(model: ServedModel, name: str) -> dict[str, Any]:
        about = {"object": "model", "created": model.created_s, "owned_by": "whisper-hailo"}
        return {"id": name, **about}

    @routes.get("/models")
    async def models() -> dict[str, Any]:
        """All names of all models."""
        data = [described(model, name) for name, model in service.listed.items()]
        return {"object": "list", "data": data}

    @routes.get("/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        """A model by one of its names."""
        return described(service.find_model(name), name)

    return routes


class _ServerVad(BaseModel):
    type: Literal["server_vad"]
    threshold: float | None = None
    silence_duration_ms: float | None = None
    prefix_padding_ms: float | None = None


def _parse_speech(given: str | None, form: Mapping[str, Any]) -> dict[str, float] | None:
    """Return settings of the speech detector: `chunking_strategy`, as JSON or in several fields."""
    prefix = "chunking_strategy["
    fields = {
        name[len(prefix) : -1]: value for name, value in form.items() if name.startswith(prefix)
    }
    if given == "auto":
        return {}
    if not (given or fields):
        return None
    try:
        read = _ServerVad.model_validate_json
        vad = read(given) if given else _ServerVad.model_validate(fields)
    except ValidationError as error:
        raise OptionError(
            f"chunking_strategy is wrong ({error.errors()[0]['msg']}), expected auto or server_vad"
        ) from None
    settings = {
        "vad_threshold": (vad.threshold, 1),
        "min_silence_s": (vad.silence_duration_ms, 1000),
        "speech_pad_s": (vad.prefix_padding_ms, 1000),
    }
    return {name: value / unit for name, (value, unit) in settings.items() if value is not None}


def _render_answer(
    transcript: Transcript,
    layout: Layout,
    granularities: Sequence[Granularity] = ("segment",),
    *,
    logprobs: bool = False,
) -> Response:
    if layout == "text":
        return PlainTextResponse(transcript.text + "\n")
    if layout in ("srt", "vtt"):
        return PlainTextResponse(render(transcript, layout))
    usage = {"type": "duration", "seconds": math.ceil(transcript.duration_s)}
    if layout == "json":
        body: dict[str, Any] = {"text": transcript.text, "usage": usage}
        if logprobs:
            body["logprobs"] = word_logprobs(_all_words(transcript.segments))
        return JSONResponse(body)
    body = openai_json(transcript)
    if "word" in granularities:
        body["words"] = [
            {"word": word.text.strip(), "start": word.start_s, "end": word.end_s}
            for word in _all_words(transcript.segments)
        ]
    if "segment" not in granularities:
        del body["segments"]
    return JSONResponse(body | {"usage": usage})


async def _events(ticket: Ticket, *, logprobs: bool) -> AsyncIterator[str]:
    def event(kind: str, key: str, text: str, words: Iterable[Word]) -> str:
        content = {"type": f"transcript.text.{kind}", key: text}
        return sse(content | {"logprobs": word_logprobs(words)} if logprobs else content)

    try:
        async for text, segment in ticket.deltas():
            yield event("delta", "delta", text, segment.words)
        transcript = ticket.transcript
        yield event("done", "text", transcript.text, _all_words(transcript.segments))
    except Exception as error:  # the status is sent already
        yield sse({"type": "error", **body_of(error)})


def _all_words(segments: Iterable[Segment]) -> list[Word]:
    return [word for segment in segments for word in segment.words]


def word_logprobs(words: Iterable[Word | CaptionWord]) -> list[dict[str, Any]]:
    """Return the log of the mean token probability of each word, if it is known."""
    return [
        {
            "token": word.text,
            "bytes": list(word.text.encode()),
            "logprob": math.log(max(word.probability, _LEAST_PROBABILITY)),
        }
        for word in words
        if word.probability is not None
    ]


def media_router(service: TranscriptionService) -> APIRouter:
    """Return `/asr`, `/detect-language` and `/inference`."""
    routes = APIRouter(route_class=UploadRoute, tags=["media servers"])
    uploads, inferences = UploadHandler(service, "media"), UploadHandler(service, "inference")

    @routes.post("/inference", response_model=None, responses=answers(TEXT))
    async def inference(
        *,
        request: Request,
        file: UploadFile,
        response_format: FormLayout = "json",
        temperature: FormTemperature = 0.0,
        language: FormText = None,
        prompt: FormText = None,
        translate: Annotated[bool, Form()] = False,
    ) -> Response:
        """Text of a recording as whisper.cpp's server answers it."""
        choices = Choices(
            language=language or None,
            task="translate" if translate else None,
            prompt=prompt,
            temperature=temperature,
        )
        transcript = await inferences.transcript(request, file, choices)
        if response_format == "json":
            return JSONResponse({"text": transcript.text})
        if response_format == "verbose_json":
            return JSONResponse(openai_json(transcript))
        layout = "txt" if response_format == "text" else response_format
        return PlainTextResponse(render(transcript, layout))

    @routes.post("/asr", response_model=None, responses=answers(TEXT))
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
        """Text or subtitles of a recording as a file."""
        choices = Choices(
            language=language or None,
            task=task,
            prompt=initial_prompt,
            word_timestamps=word_timestamps,
            speech={} if vad_filter else None,
        )
        form = None if encode else PcmForm()
        transcript = await uploads.transcript(
            request, audio_file, choices, form=form, priority=Priority.BATCH
        )
        if output == "json":  # without what OpenAI Whisper's own file does not have
            content = json.dumps(verbose_json(transcript), ensure_ascii=False)
        else:
            content = render(transcript, output)
        name = quote(f"{audio_file.filename or 'audio'}.{output}", safe="")
        headers = {
            "Asr-Engine": "whisper-hailo",
            "Content-Disposition": f'attachment; filename="{name}"',
        }
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)

    @routes.post("/detect-language")
    async def detect_language(
        request: Request, audio_file: UploadFile, encode: Encode = True
    ) -> dict[str, Any]:
        """The language of a recording, by its beginning."""
        choices, form = Choices(language="auto", max_new_tokens=1), None if encode else PcmForm()
        transcript = await uploads.transcript(
            request, audio_file, choices, form=form, heard_s=_HEARD_S
        )
        code = transcript.language
        return {
            "detected_language": language_name(code).lower(),
            "language_code": code,
            "confidence": transcript.language_probs.get(code, 1.0),
        }

    return routes
