"""OpenAI's API for recordings: transcriptions, translations and models."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ValidationError

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import parse_json
from whisper_hailo.core.types import Segment, Transcript, Word
from whisper_hailo.live.events import CaptionWord
from whisper_hailo.serve.access import body_of
from whisper_hailo.serve.models import ServedModel
from whisper_hailo.serve.request import Choices, SpeechChoices, only_language
from whisper_hailo.serve.service import Ticket, TranscriptionService
from whisper_hailo.serve.uploads import (
    EVENTS,
    TEXT,
    Events,
    UploadHandler,
    UploadRoute,
    answers,
    run_until_disconnect,
    sse,
)
from whisper_hailo.text.outputs import openai_json, render

Layout = Literal["json", "text", "srt", "vtt", "verbose_json"]
Granularity = Literal["word", "segment"]

_LEAST_PROBABILITY: Final = 1e-9
"""A probability has a logarithm."""


def router(service: TranscriptionService) -> APIRouter:
    """Return the routes of recordings and models."""
    routes = APIRouter(route_class=UploadRoute, prefix="/v1", tags=["OpenAI"])
    uploads = UploadHandler(service, "openai")

    @routes.post(
        "/audio/transcriptions", summary="Text of a recording", response_model=None,
        responses=answers(TEXT, EVENTS),
    )  # fmt: skip
    async def transcriptions(
        *,
        request: Request,
        file: UploadFile,
        model: Annotated[str | None, Form()] = None,
        language: Annotated[str | None, Form()] = None,
        prompt: Annotated[str | None, Form()] = None,
        response_format: Annotated[Layout, Form()] = "json",
        temperature: Annotated[float, Form(ge=0, le=1)] = 0.0,
        timestamp_granularities: Annotated[
            list[Granularity] | None, Form(alias="timestamp_granularities[]")
        ] = None,
        stream: Annotated[bool, Form()] = False,
        include: Annotated[list[Literal["logprobs"]] | None, Form(alias="include[]")] = None,
        hotwords: Annotated[str | None, Form()] = None,
    ) -> Response:
        """A recording in its own language."""
        form = _response_format(response_format, timestamp_granularities, include, stream=stream)
        choices = Choices(
            model=model,
            language=language or only_language(await _listed(request, "languages[]")),
            prompt=prompt,
            hotwords=hotwords or ", ".join(await _listed(request, "keywords[]")),
            temperature=temperature,
            words=form.words or form.logprobs,
            speech=_speech(dict(await request.form())),
        )
        return await _answer(uploads, request, file, choices, form)

    @routes.post(
        "/audio/translations", summary="The same in English", response_model=None,
        responses=answers(TEXT),
    )  # fmt: skip
    async def translations(
        *,
        request: Request,
        file: UploadFile,
        model: Annotated[str | None, Form()] = None,
        prompt: Annotated[str | None, Form()] = None,
        response_format: Annotated[Layout, Form()] = "json",
        temperature: Annotated[float, Form(ge=0, le=1)] = 0.0,
    ) -> Response:
        """A recording in English, whatever is spoken."""
        form = _response_format(response_format, None, None, stream=False)
        choices = Choices(model=model, task="translate", prompt=prompt, temperature=temperature)
        return await _answer(uploads, request, file, choices, form)

    @routes.get("/models", summary="What is served")
    async def models() -> dict[str, Any]:
        """All names of all models."""
        data = [_model(model, name) for name, model in service.models.listed.items()]
        return {"object": "list", "data": data}

    @routes.get("/models/{name:path}", summary="One of them")
    async def model(name: str) -> dict[str, Any]:
        """A model by one of its names."""
        return _model(service.models.find(name), name)

    return routes


def _model(model: ServedModel, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": model.created_s, "owned_by": "whisper-hailo"}


async def _listed(request: Request, name: str) -> list[str]:
    return [value for value in (await request.form()).getlist(name) if isinstance(value, str)]


class _ServerVad(BaseModel):
    """`chunking_strategy` as an object."""

    type: Literal["server_vad"]
    threshold: float | None = None
    silence_duration_ms: float | None = None
    prefix_padding_ms: float | None = None

    def choices(self) -> SpeechChoices:
        return SpeechChoices(
            self.threshold, _seconds(self.silence_duration_ms), _seconds(self.prefix_padding_ms)
        )


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _speech(form: Mapping[str, Any]) -> SpeechChoices | None:
    """Return how speech is detected: `chunking_strategy`, in either spelling."""
    given, prefix = form.get("chunking_strategy") or "", "chunking_strategy["
    fields: Any = {
        name[len(prefix) : -1]: value for name, value in form.items() if name.startswith(prefix)
    }
    try:
        if isinstance(given, str) and given.lstrip().startswith("{"):
            fields = parse_json(given.encode())
        elif given not in ("", "auto"):
            raise ValueError("unknown")
        if not fields:
            return SpeechChoices() if given else None
        return _ServerVad.model_validate(fields).choices()
    except ValueError as error:  # of pydantic, too
        why = f"wrong ({error.errors()[0]['msg']})" if isinstance(error, ValidationError) else error
        raise OptionError(f"chunking_strategy is {why}, expected auto or server_vad") from None


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What a request wants of its answer.

    Attributes:
        layout: `json`, `text`, `srt`, `vtt` or `verbose_json`.
        words: with times of words, in `verbose_json`.
        logprobs: with log-probabilities of words, in `json`.
    """

    layout: str
    words: bool
    segments: bool
    logprobs: bool
    stream: bool


def _response_format(
    layout: str, granularities: Sequence[str] | None, include: Sequence[str] | None, *, stream: bool
) -> ResponseFormat:
    verbose = layout == "verbose_json"
    if granularities and not verbose:
        raise OptionError("timestamp_granularities needs response_format verbose_json")
    asked = granularities or ("segment",)
    return ResponseFormat(
        layout,
        words=verbose and "word" in asked,
        segments="segment" in asked,
        logprobs="logprobs" in (include or ()),
        stream=stream,
    )


async def _answer(
    uploads: UploadHandler,
    request: Request,
    file: UploadFile,
    choices: Choices,
    form: ResponseFormat,
) -> Response:
    async with AsyncExitStack() as stack:
        ticket = await stack.enter_async_context(uploads.ticket(request, file, choices))
        if form.stream:
            return Events(_events(ticket, form), stack.pop_all())
        transcript = await run_until_disconnect(request, ticket.result())
    return _whole_answer(transcript, form)


def _whole_answer(transcript: Transcript, form: ResponseFormat) -> Response:
    if form.layout == "text":
        return PlainTextResponse(transcript.text + "\n")
    if form.layout in ("srt", "vtt"):
        return PlainTextResponse(render(transcript, form.layout))
    usage = {"type": "duration", "seconds": math.ceil(transcript.duration_s)}
    if form.layout == "verbose_json":
        return JSONResponse(_verbose(transcript, form) | {"usage": usage})
    body: dict[str, Any] = {"text": transcript.text, "usage": usage}
    if form.logprobs:
        body["logprobs"] = word_logprobs(_words(transcript.segments))
    return JSONResponse(body)


def _verbose(transcript: Transcript, form: ResponseFormat) -> dict[str, Any]:
    body = openai_json(transcript)
    if form.words:
        body["words"] = [
            {"word": word.text.strip(), "start": word.start_s, "end": word.end_s}
            for word in _words(transcript.segments)
        ]
    if not form.segments:
        del body["segments"]
    return body


async def _events(ticket: Ticket, form: ResponseFormat) -> AsyncIterator[str]:
    try:
        async for text, segment in ticket.deltas():
            yield sse(_event("delta", text, segment.words, form, key="delta"))
        transcript = ticket.transcript
        yield sse(_event("done", transcript.text, _words(transcript.segments), form, key="text"))
    except Exception as error:  # the status is sent already
        yield sse({"type": "error", **body_of(error)})


def _event(
    kind: str, text: str, words: Iterable[Word], form: ResponseFormat, *, key: str
) -> dict[str, Any]:
    event: dict[str, Any] = {"type": f"transcript.text.{kind}", key: text}
    if form.logprobs:
        event["logprobs"] = word_logprobs(words)
    return event


def _words(segments: Iterable[Segment]) -> list[Word]:
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
