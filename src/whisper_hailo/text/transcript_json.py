"""Transcripts as JSON: OpenAI's layouts and our own, with its JSON Schema."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import (
    FRAMES_PER_SECOND,
    Segment,
    Transcript,
    UntranscribedSpeech,
    Word,
)

JSON_VERSION: Final = 1
"""Raised when a reader of the previous JSON could go wrong."""


def verbose_json(transcript: Transcript) -> dict[str, Any]:
    """Return the `verbose_json` layout of OpenAI's transcription API, words in their segments.

    As in OpenAI Whisper's own file, a segment's text starts with its separator, so that programs
    can join segments. `languages` and `untranscribed` are extensions of ours.
    """
    return {
        "task": transcript.task,
        "language": transcript.language,
        "duration": round(transcript.duration_s, 4),
        "text": transcript.text,
        "segments": [
            _segment_json(index, segment, transcript.blank)
            for index, segment in enumerate(transcript.segments)
        ],
        "languages": list(transcript.languages),
        "untranscribed": [
            _untranscribed_json(speech) for speech in transcript.untranscribed
        ],
    }


def openai_json(transcript: Transcript) -> dict[str, Any]:
    """Return `verbose_json` with the language as OpenAI's and whisper.cpp's servers name it.

    They say "english" where files say "en"; a translation is English, whatever was spoken.
    """
    code = "en" if transcript.task == "translate" else transcript.language
    return verbose_json(transcript) | {"language": language_name(code).lower()}


def as_json(transcript: Transcript) -> dict[str, Any]:
    """Return the result of one input by `transcript.schema.json`: `verbose_json` and our fields."""
    return verbose_json(transcript) | {
        "version": JSON_VERSION,
        "audio": transcript.audio,
        "language_probs": transcript.language_probs,
        "settings": asdict(transcript.settings),
    }


def drop_words(transcript: Transcript) -> Transcript:
    """Return a transcript without words, for JSON that was not asked for their times."""
    segments = tuple(replace(segment, words=()) for segment in transcript.segments)
    return replace(transcript, segments=segments)


def timings_json(transcript: Transcript) -> dict[str, Any]:
    """Return the milliseconds by stage, which differ in every run."""
    timings = asdict(transcript.timings)
    rounded = {name.removesuffix("_ms"): round(ms, 3) for name, ms in timings.items()}
    return {"timings_ms": rounded}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of `as_json` and `failure_json`."""
    path = Path(__file__).with_name("transcript.schema.json")
    text = path.read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def failure_json(audio: str, error: str, exit_code: int) -> dict[str, Any]:
    """Return the JSON of an input that failed."""
    return {
        "version": JSON_VERSION,
        "audio": audio,
        "error": error,
        "exit_code": exit_code,
    }


def _untranscribed_json(speech: UntranscribedSpeech) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "start_s": speech.start_s,
        "end_s": speech.end_s,
        "reason": speech.reason,
    }
    if speech.language:
        entry["language"] = speech.language
    return entry


def _segment_json(index: int, segment: Segment, blank: str) -> dict[str, Any]:
    entry = {
        "id": index,
        "seek": round(segment.window_start_s * FRAMES_PER_SECOND),
        "start": segment.start_s,
        "end": segment.end_s,
        "text": blank + segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
        "language": segment.language,
        "runaway": segment.runaway,
    }
    if segment.words:
        entry["words"] = [_word_json(word) for word in segment.words]
    if segment.speaker is not None:
        entry["speaker"] = segment.speaker
    return entry


def _word_json(word: Word) -> dict[str, Any]:
    entry = {
        "word": word.text,
        "start": word.start_s,
        "end": word.end_s,
        "probability": word.probability,
    }
    if word.speaker is not None:
        entry["speaker"] = word.speaker
    return entry
