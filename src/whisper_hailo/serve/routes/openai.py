"""Routes of OpenAI's API: transcriptions, translations and models."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self, cast

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ValidationError

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import UNSPACED_LANGUAGES, Segment, Transcript, Word
from whisper_hailo.live.events import CaptionWord
from whisper_hailo.serve.access import error_body
from whisper_hailo.serve.request import Choices, join_languages
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.speakers import KnownSpeakers, parse_known_speakers
from whisper_hailo.serve.ticket import Ticket
from whisper_hailo.serve.uploads import (
    EVENTS,
    TEXT,
    DiarizedFormat,
    EventStream,
    FormResponseFormat,
    FormTemperature,
    FormText,
    ResponseFormat,
    UploadHandler,
    UploadRoute,
    describe_answers,
    format_event,
)
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.text.formats import SUBTITLES, render
from whisper_hailo.text.transcript_json import openai_json

Granularity = Literal["word", "segment"]

_DIARIZED: Final = "diarized_json"
_MIN_PROBABILITY: Final = 1e-9  # 0 has no logarithm


def openai_router(service: TranscriptionService) -> APIRouter:
    """Return the routes of OpenAI's API."""
    router = APIRouter(route_class=UploadRoute, prefix="/v1", tags=["OpenAI"])
    uploads = UploadHandler(service, "openai")
    _add_transcriptions(router, uploads)
    _add_translations(router, uploads)
    _add_models(router, service)
    return router


def _add_transcriptions(router: APIRouter, uploads: UploadHandler) -> None:
    @router.post(
        "/audio/transcriptions",
        response_model=None,
        responses=describe_answers(TEXT, EVENTS),
    )
    async def transcriptions(
        *,
        request: Request,
        file: UploadFile,
        model: FormText = None,
        language: FormText = None,
        prompt: FormText = None,
        response_format: Annotated[DiarizedFormat, Form()] = "json",
        temperature: FormTemperature = 0.0,
        timestamp_granularities: Annotated[
            list[Granularity] | None, Form(alias="timestamp_granularities[]")
        ] = None,
        stream: Annotated[bool, Form()] = False,
        include: Annotated[
            list[Literal["logprobs"]] | None, Form(alias="include[]")
        ] = None,
        hotwords: FormText = None,
        languages: Annotated[list[str] | None, Form(alias="languages[]")] = None,
        keywords: Annotated[list[str] | None, Form(alias="keywords[]")] = None,
        chunking_strategy: FormText = None,
        known_speaker_names: Annotated[
            list[str] | None, Form(alias="known_speaker_names[]")
        ] = None,
        known_speaker_references: Annotated[
            list[str] | None, Form(alias="known_speaker_references[]")
        ] = None,
    ) -> Response:
        """Transcribe a recording in its own language."""
        answer = _AnswerForm(
            response_format,
            tuple(timestamp_granularities or ()),
            is_streamed=stream,
            has_logprobs=bool(include),
        )
        known = parse_known_speakers(
            known_speaker_names or (), known_speaker_references or ()
        )
        answer.check(known)
        choices = Choices(
            model=model,
            language=language or join_languages(languages or ()),
            prompt=prompt,
            hotwords=hotwords or ", ".join(keywords or ()),
            temperature=temperature,
            word_timestamps=answer.needs_words,
            subtitles=response_format in SUBTITLES,
            speech=_parse_chunking_strategy(chunking_strategy, await request.form()),
        )
        if response_format == _DIARIZED:
            return await _answer_with_speakers(
                uploads, request, file, choices, known, is_streamed=stream
            )
        return await _answer(uploads, request, file, choices, answer)


@dataclass(frozen=True, slots=True)
class _AnswerForm:
    """What the answer to a transcription has."""

    response_format: DiarizedFormat
    granularities: tuple[Granularity, ...]
    is_streamed: bool
    has_logprobs: bool

    @property
    def needs_words(self) -> bool:
        """Whether words are timed."""
        return self.has_logprobs or "word" in self.granularities

    def check(self, known: KnownSpeakers) -> None:
        """Refuse what does not go together.

        Raises:
            OptionError: two fields do not.
        """
        is_diarized = self.response_format == _DIARIZED
        if self.granularities and self.response_format != "verbose_json":
            raise OptionError(
                "timestamp_granularities needs response_format verbose_json"
            )
        if is_diarized and self.has_logprobs:
            raise OptionError(
                "include[] logprobs needs response_format json; leave it out"
            )
        if known.names and not is_diarized:
            raise OptionError("known_speaker_names needs response_format diarized_json")


async def _answer_with_speakers(
    uploads: UploadHandler,
    request: Request,
    file: UploadFile,
    choices: Choices,
    known: KnownSpeakers,
    *,
    is_streamed: bool,
) -> Response:
    """Transcribe a recording and tell its speakers apart."""
    if is_streamed:
        ticket, speakers = await uploads.submit_with_speakers(
            request, file, choices, known
        )
        return EventStream(_stream_speakers(ticket, speakers), ticket)
    transcript = await uploads.transcribe_with_speakers(request, file, choices, known)
    return JSONResponse(_diarized_json(transcript))


async def _answer(
    uploads: UploadHandler,
    request: Request,
    file: UploadFile,
    choices: Choices,
    answer: _AnswerForm,
) -> Response:
    """Transcribe a recording; answer at its end, or piece by piece."""
    if answer.is_streamed:
        ticket = await uploads.submit(request, file, choices)
        events = _stream_events(ticket, has_logprobs=answer.has_logprobs)
        return EventStream(events, ticket)
    transcript = await uploads.transcribe(request, file, choices)
    return _render_answer(
        transcript,
        cast(ResponseFormat, answer.response_format),
        answer.granularities or ("segment",),
        has_logprobs=answer.has_logprobs,
    )


def _add_translations(router: APIRouter, uploads: UploadHandler) -> None:
    @router.post(
        "/audio/translations", response_model=None, responses=describe_answers(TEXT)
    )
    async def translations(
        *,
        request: Request,
        file: UploadFile,
        model: FormText = None,
        prompt: FormText = None,
        response_format: FormResponseFormat = "json",
        temperature: FormTemperature = 0.0,
    ) -> Response:
        """Transcribe a recording into English, whatever is spoken."""
        choices = Choices(
            model=model,
            task="translate",
            prompt=prompt,
            temperature=temperature,
            subtitles=response_format in SUBTITLES,
        )
        transcript = await uploads.transcribe(request, file, choices)
        return _render_answer(transcript, response_format)


def _add_models(router: APIRouter, service: TranscriptionService) -> None:
    @router.get("/models")
    async def models() -> dict[str, Any]:
        """List all names of all models."""
        data = [_describe_model(model, name) for name, model in service.listed.items()]
        return {"object": "list", "data": data}

    @router.get("/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        """Describe a model by one of its names."""
        return _describe_model(service.find_model(name), name)


def _describe_model(model: ServedModel, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": model.created_s,
        "owned_by": "whisper-hailo",
    }


class _ServerVad(BaseModel):
    type: Literal["server_vad"]
    threshold: float | None = None
    silence_duration_ms: float | None = None
    prefix_padding_ms: float | None = None

    @classmethod
    def parse(cls, json: str | None, fields: Mapping[str, Any]) -> Self:
        """Return the settings in a JSON object, or without one in the fields of a form."""
        if json:
            return cls.model_validate_json(json)
        return cls.model_validate(fields)


def _parse_chunking_strategy(
    value: str | None, form: Mapping[str, Any]
) -> dict[str, float] | None:
    """Return settings of the speech detector; `None` if it is not asked for.

    Some clients send the strategy as JSON, others as fields such as `chunking_strategy[type]`.

    Raises:
        OptionError: it is neither `auto` nor `server_vad`.
    """
    if value == "auto":
        return {}
    prefix = "chunking_strategy["
    fields = {
        name[len(prefix) : -1]: field
        for name, field in form.items()
        if name.startswith(prefix)
    }
    if not value and not fields:
        return None
    try:
        vad = _ServerVad.parse(value, fields)
    except ValidationError as error:
        raise OptionError(
            f"chunking_strategy is wrong ({error.errors()[0]['msg']}), expected auto or server_vad"
        ) from None
    settings: dict[str, float] = {}
    if vad.threshold is not None:
        settings["vad_threshold"] = vad.threshold
    if vad.silence_duration_ms is not None:
        settings["min_silence_s"] = vad.silence_duration_ms / 1000
    if vad.prefix_padding_ms is not None:
        settings["speech_pad_s"] = vad.prefix_padding_ms / 1000
    return settings


def _render_answer(
    transcript: Transcript,
    response_format: ResponseFormat,
    granularities: Sequence[Granularity] = ("segment",),
    *,
    has_logprobs: bool = False,
) -> Response:
    """Return a transcript in the format that the client chose."""
    match response_format:
        case "text":
            return PlainTextResponse(transcript.text + "\n")
        case "srt" | "vtt":
            return PlainTextResponse(render(transcript, response_format))
        case "json":
            return JSONResponse(_short_json(transcript, has_logprobs=has_logprobs))
        case "verbose_json":
            return JSONResponse(_verbose_json(transcript, granularities))


def _short_json(transcript: Transcript, *, has_logprobs: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"text": transcript.text}
    if transcript.task == "transcribe":
        body["languages"] = _languages_of(transcript)
    body["usage"] = _describe_usage(transcript)
    if has_logprobs:
        body["logprobs"] = word_logprobs(_words_of(transcript.segments))
    return body


def _verbose_json(
    transcript: Transcript, granularities: Sequence[Granularity]
) -> dict[str, Any]:
    body = openai_json(transcript)
    if "word" in granularities:
        body["words"] = [
            {"word": word.text.strip(), "start": word.start_s, "end": word.end_s}
            for word in _words_of(transcript.segments)
        ]
    if "segment" not in granularities:
        del body["segments"]
    body["usage"] = _describe_usage(transcript)
    return body


def _diarized_json(transcript: Transcript) -> dict[str, Any]:
    """Return the layout of OpenAI's `TranscriptionDiarized`."""
    return {
        "task": "transcribe",
        "duration": round(transcript.duration_s, 4),
        "text": transcript.text,
        "segments": [
            _speaker_segment(index, segment)
            for index, segment in enumerate(transcript.segments)
        ],
        "usage": _describe_usage(transcript),
    }


def _speaker_segment(index: int, segment: Segment) -> dict[str, Any]:
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{index}",
        "start": segment.start_s,
        "end": segment.end_s,
        "text": segment.text,
        # Without any turn, as in noise that became a word, it is the first speaker's.
        "speaker": "A" if segment.speaker is None else str(segment.speaker),
    }


def _describe_usage(transcript: Transcript) -> dict[str, Any]:
    """Return what OpenAI would bill: started seconds."""
    return {"type": "duration", "seconds": math.ceil(transcript.duration_s)}


async def _stream_events(ticket: Ticket, *, has_logprobs: bool) -> AsyncIterator[str]:
    """Yield what each segment adds to the text, then the whole text, as server-sent events."""
    try:
        async for text, segment in ticket.deltas():
            delta: dict[str, Any] = {"type": "transcript.text.delta", "delta": text}
            if has_logprobs:
                delta["logprobs"] = word_logprobs(segment.words)
            yield format_event(delta)
        transcript = ticket.transcript
        done: dict[str, Any] = {
            "type": "transcript.text.done",
            "text": transcript.text,
            "languages": _languages_of(transcript),
        }
        if has_logprobs:
            done["logprobs"] = word_logprobs(_words_of(transcript.segments))
        yield format_event(done)
    except Exception as error:  # too late for an HTTP status: it is sent already
        yield format_event({"type": "error", **error_body(error)})


async def _stream_speakers(
    ticket: Ticket, speakers: SpeakerAttribution
) -> AsyncIterator[str]:
    """Yield each segment with its speaker, then the whole text, as server-sent events."""
    try:
        space = ""
        n_segments = 0
        async for whole in ticket.segments():
            for segment in speakers.attribute(whole):
                event = _speaker_segment(n_segments, segment)
                n_segments += 1
                delta = {
                    "type": "transcript.text.delta",
                    "delta": space + segment.text,
                    "segment_id": event["id"],
                }
                yield format_event(delta)
                yield format_event(event)
                space = "" if segment.language in UNSPACED_LANGUAGES else " "
        done = {"type": "transcript.text.done", "text": ticket.transcript.text}
        yield format_event(done)
    except Exception as error:  # too late for an HTTP status: it is sent already
        yield format_event({"type": "error", **error_body(error)})


def _languages_of(transcript: Transcript) -> list[dict[str, str]]:
    """Return the languages of a transcript; none where no word is known."""
    return list_languages(transcript.languages) if transcript.text else []


def list_languages(codes: Iterable[str]) -> list[dict[str, str]]:
    """Return languages as answers of OpenAI's API name them."""
    return [{"code": code} for code in codes]


def _words_of(segments: Iterable[Segment]) -> list[Word]:
    return [word for segment in segments for word in segment.words]


def word_logprobs(words: Iterable[Word | CaptionWord]) -> list[dict[str, Any]]:
    """Return the log of the mean token probability of each word, if it is known."""
    return [
        {
            "token": word.text,
            "bytes": list(word.text.encode()),
            "logprob": math.log(max(word.probability, _MIN_PROBABILITY)),
        }
        for word in words
        if word.probability is not None
    ]
