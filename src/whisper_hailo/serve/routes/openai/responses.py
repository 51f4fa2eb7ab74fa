"""Transcripts in the layouts of OpenAI's API."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fastapi.responses import JSONResponse, PlainTextResponse, Response

from whisper_hailo.core.types import Segment, Transcript, Word
from whisper_hailo.live.events import CaptionWord
from whisper_hailo.text.outputs import openai_json, render

_LEAST: Final = 1e-9
"""A probability has a logarithm."""

SUBTITLES: Final = ("srt", "vtt")


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What a request wants of its answer.

    Attributes:
        layout: `json`, `text`, `srt`, `vtt` or `verbose_json`.
        words: with times of words, in `verbose_json`.
        segments: with those of segments, there.
        logprobs: with log-probabilities of words, in `json`.
        stream: as events.
    """

    layout: str
    words: bool
    segments: bool
    logprobs: bool
    stream: bool


def answer(transcript: Transcript, form: ResponseFormat) -> Response:
    """Return the answer to a request."""
    if form.layout == "text":
        return PlainTextResponse(transcript.text + "\n")
    if form.layout in SUBTITLES:
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


def _words(segments: tuple[Segment, ...]) -> list[Word]:
    return [word for segment in segments for word in segment.words]


def word_logprobs(words: Iterable[Word | CaptionWord]) -> list[dict[str, Any]]:
    """One entry per word: the logarithm of the mean probability of its tokens, if it is known."""
    return [
        {
            "token": word.text,
            "bytes": list(word.text.encode()),
            "logprob": math.log(max(word.probability, _LEAST)),
        }
        for word in words
        if word.probability is not None
    ]


def delta(text: str, segment: Segment, *, logprobs: bool) -> dict[str, Any]:
    """An event of a stream: what was added."""
    event: dict[str, Any] = {"type": "transcript.text.delta", "delta": text}
    if logprobs:
        event["logprobs"] = word_logprobs(segment.words)
    return event


def done(transcript: Transcript, *, logprobs: bool) -> dict[str, Any]:
    """The last event of a stream."""
    event: dict[str, Any] = {"type": "transcript.text.done", "text": transcript.text}
    if logprobs:
        event["logprobs"] = word_logprobs(_words(transcript.segments))
    return event
