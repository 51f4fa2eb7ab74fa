"""Transcripts as text and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FRAMES_PER_SECOND, Segment, Transcript, Word
from whisper_hailo.text.subtitles import Layout, srt, tsv, vtt

FORMATS: Final = ("txt", "srt", "vtt", "tsv", "json")

ALL_FORMATS: Final = "all"
"""Stands for every one of `FORMATS`."""


def render(transcript: Transcript, fmt: str, layout: Layout | None = None) -> str:
    """The content of an output file.

    Args:
        transcript: the result of one input.
        fmt: one of `FORMATS`; `json` is the verbose layout of OpenAI's transcription API, `txt` one
            line, or one per segment where the model wrote their times or there are speakers.
        layout: of subtitles.

    Raises:
        OptionError: no such format.
    """
    layout = layout or Layout()
    if fmt == "txt":
        return _plain(transcript)
    if fmt == "srt":
        return srt(transcript, layout)
    if fmt == "vtt":
        return vtt(transcript, layout)
    if fmt == "tsv":
        return tsv(transcript)
    if fmt == "json":
        return json.dumps(verbose_json(transcript), ensure_ascii=False, indent=2) + "\n"
    raise OptionError(f"--format is {fmt!r}, expected one of: {', '.join((*FORMATS, ALL_FORMATS))}")


def _plain(transcript: Transcript) -> str:
    segments = transcript.segments
    if any(segment.speaker is not None for segment in segments):
        return "".join(f"Speaker {(s.speaker or 0) + 1}: {s.text}\n" for s in segments)
    if transcript.settings.timestamps:
        return "".join(f"{segment.text}\n" for segment in segments)
    return transcript.text + "\n"


def machine_json(transcript: Transcript) -> dict[str, Any]:
    """The object that `transcribe --json` prints per input."""
    timings = asdict(transcript.timings)
    return {
        "audio": transcript.audio,
        "duration_s": round(transcript.duration_s, 4),
        "text": transcript.text,
        "language": transcript.language,
        "segments": [_machine_segment(segment) for segment in transcript.segments],
        "timings_ms": {key.removesuffix("_ms"): round(ms, 3) for key, ms in timings.items()},
        "settings": asdict(transcript.settings),
        "language_probs": transcript.language_probs,
        "near_ties": transcript.near_ties,
    }


def _machine_segment(segment: Segment) -> dict[str, Any]:
    return {**asdict(segment), "words": [_verbose_word(word) for word in segment.words]}


def verbose_json(transcript: Transcript) -> dict[str, Any]:
    """The `verbose_json` layout of OpenAI's transcription API, words in their segments.

    As there, and in OpenAI Whisper's own file, a segment's text begins with the blank that parts
    it from the one before, and the whole text does not: programs put segments together by it.
    """
    return {
        "task": transcript.task,
        "language": transcript.language,
        "duration": round(transcript.duration_s, 4),
        "text": transcript.text,
        "segments": [
            _verbose(index, segment, transcript.blank)
            for index, segment in enumerate(transcript.segments)
        ],
    }


def _verbose(index: int, segment: Segment, blank: str) -> dict[str, Any]:
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
    }
    if segment.words:
        entry["words"] = [_verbose_word(word) for word in segment.words]
    if segment.speaker is not None:
        entry["speaker"] = segment.speaker
    return entry


def _verbose_word(word: Word) -> dict[str, Any]:
    return {
        "word": word.text,
        "start": word.start_s,
        "end": word.end_s,
        "probability": word.probability,
    }
