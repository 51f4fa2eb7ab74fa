"""OpenAI's API: `/v1/audio/transcriptions`, `/v1/audio/translations`, `/v1/models`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Request, Response, UploadFile
from pydantic import BaseModel, ValidationError

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import parse_json
from whisper_hailo.serve.http.errors import body_of
from whisper_hailo.serve.http.uploads import (
    EVENTS,
    TEXT,
    Events,
    UploadHandler,
    UploadRoute,
    answers,
    run_until_disconnect,
    sse,
)
from whisper_hailo.serve.models import ServedModel
from whisper_hailo.serve.request import Choices, SpeechChoices, only_language
from whisper_hailo.serve.routes.openai.responses import ResponseFormat, answer, delta, done
from whisper_hailo.serve.service import Ticket, TranscriptionService

Layout = Literal["json", "text", "srt", "vtt", "verbose_json"]
Granularity = Literal["word", "segment"]

_API: Final = "openai"
_VERBOSE: Final = "verbose_json"


def router(service: TranscriptionService) -> APIRouter:
    """`/v1/audio/transcriptions`, `/v1/audio/translations` and `/v1/models`, as OpenAI's."""
    routes, handlers = (
        APIRouter(route_class=UploadRoute, prefix="/v1", tags=["OpenAI"]),
        _Routes(service),
    )
    for path, answer_to, what, kinds in (
        ("transcriptions", handlers.transcriptions, "Text of a recording", (TEXT, EVENTS)),
        ("translations", handlers.translations, "The same in English", (TEXT,)),
    ):
        routes.add_api_route(
            f"/audio/{path}", answer_to, methods=["POST"], summary=what, response_model=None,
            responses=answers(*kinds),
        )  # fmt: skip
    routes.add_api_route("/models", handlers.models, summary="What is served")
    routes.add_api_route("/models/{name:path}", handlers.model, summary="One of them")
    return routes


class _Routes:
    """Answers requests."""

    def __init__(self, service: TranscriptionService) -> None:
        self._models = service.models
        self._uploads = UploadHandler(service, _API)

    async def transcriptions(
        self,
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
        return await _answer(self._uploads, request, file, choices, form)

    async def translations(
        self,
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
        return await _answer(self._uploads, request, file, choices, form)

    async def models(self) -> dict[str, Any]:
        """All names of all models."""
        data = [_model(model, name) for name, model in self._models.listed.items()]
        return {"object": "list", "data": data}

    async def model(self, name: str) -> dict[str, Any]:
        """A model by one of its names."""
        return _model(self._models.find(name), name)


def _response_format(
    layout: str,
    granularities: Sequence[str] | None,
    include: Sequence[str] | None,
    *,
    stream: bool,
) -> ResponseFormat:
    """What a request wants of its answer."""
    verbose = layout == _VERBOSE
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
    """Return how speech is detected: `chunking_strategy`, in either spelling.

    Raises:
        OptionError: it is none.
    """
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


async def _answer(
    asking: UploadHandler,
    request: Request,
    file: UploadFile,
    choices: Choices,
    form: ResponseFormat,
) -> Response:
    async with AsyncExitStack() as stack:
        ticket = await stack.enter_async_context(asking.ticket(request, file, choices))
        if form.stream:
            return Events(_events(ticket, form), stack.pop_all())
        transcript = await run_until_disconnect(request, ticket.result())
    return answer(transcript, form)


async def _events(ticket: Ticket, form: ResponseFormat) -> AsyncIterator[str]:
    try:
        async for text, segment in ticket.deltas():
            yield sse(delta(text, segment, logprobs=form.logprobs))
        yield sse(done(ticket.transcript, logprobs=form.logprobs))
    except Exception as error:  # the status is sent already
        yield sse({"type": "error", **body_of(error)})
