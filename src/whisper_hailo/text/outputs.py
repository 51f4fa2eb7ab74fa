"""Transcripts as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import language_name
from whisper_hailo.core.strict_json import escape_surrogates
from whisper_hailo.core.types import FRAMES_PER_SECOND, Segment, Transcript
from whisper_hailo.text.subtitles import (
    Cue,
    CueWriter,
    Layout,
    cue_time,
    format_cue,
    speaker_label,
)

JSON_VERSION: Final = 1
"""Raised when a reader of the previous JSON could go wrong."""

JSON: Final = "json"
FORMATS: Final = ("txt", "srt", "vtt", "tsv", JSON)
ALL_FORMATS: Final = "all"

_HEADINGS: Final = {"vtt": "WEBVTT\n\n", "tsv": "start\tend\ttext\n"}


def render(transcript: Transcript, fmt: str, layout: Layout | None = None) -> str:
    """Return a transcript in one of `FORMATS`, subtitles in a layout.

    `json` is the verbose layout of OpenAI's transcription API, `txt` has a line per segment.
    """
    if fmt == JSON:
        text = json.dumps(as_json(transcript), ensure_ascii=False, indent=2)
        return escape_surrogates(text) + "\n"
    writer = TextWriter(fmt, layout or Layout())
    parts = [part for segment in transcript.segments for part in writer.write(segment)]
    return "".join([*parts, *writer.finish()])


class TextWriter:
    """Renders the segments of one input as text: each part as soon as nothing can be added to it.

    The format is not `json`, which cannot be read before its last bracket. Where `timed`, lines of
    `txt` begin with their times, as on OpenAI Whisper's terminal.
    """

    def __init__(self, fmt: str, layout: Layout, *, timed: bool = False) -> None:
        if fmt not in FORMATS or fmt == JSON:
            known = ", ".join((*FORMATS, ALL_FORMATS))
            raise OptionError(f"--format is {fmt!r}, expected one of: {known}")
        self._format = fmt
        self._timed = timed
        self._cues = CueWriter(layout)
        self._n_cues = 0
        self._heading = _HEADINGS.get(fmt, "")
        self._is_empty = True

    def write(self, segment: Segment) -> Iterator[str]:
        """Yield the parts that are complete with this segment."""
        if self._format == "tsv":  # as OpenAI Whisper writes it
            start_ms, end_ms = round(segment.start_s * 1000), round(segment.end_s * 1000)
            text = f"{speaker_label(segment.speaker)}{' '.join(segment.text.split())}"
            yield self._headed(f"{start_ms}\t{end_ms}\t{text}\n")
        elif self._format != "txt":
            yield from map(self._cue, self._cues.write(segment))
        elif segment.text:
            start, end = (cue_time(t, ".") for t in (segment.start_s, segment.end_s))
            times = f"[{start.removeprefix('00:')} --> {end.removeprefix('00:')}]  " * self._timed
            yield self._headed(f"{times}{speaker_label(segment.speaker)}{segment.text}\n")

    def finish(self) -> Iterator[str]:
        """Yield what waits for more; the heading, or an empty line, where nothing was said."""
        yield from map(self._cue, self._cues.finish())
        if self._is_empty and (rest := self._heading or "\n" * (self._format == "txt")):
            yield rest

    def _cue(self, cue: Cue) -> str:
        self._n_cues += 1
        return self._headed(format_cue(cue, self._format, self._n_cues))

    def _headed(self, part: str) -> str:
        """Return the heading with the first part: what fails at once has written nothing."""
        heading = self._heading if self._is_empty else ""
        self._is_empty = False
        return heading + part


def verbose_json(transcript: Transcript) -> dict[str, Any]:
    """Return the `verbose_json` layout of OpenAI's transcription API, words in their segments.

    As in OpenAI Whisper's own file, a segment's text starts with its separator, so that programs
    can join segments.
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


def timings_json(transcript: Transcript) -> dict[str, Any]:
    """Return the milliseconds by stage, which differ in every run."""
    timings = asdict(transcript.timings)
    return {"timings_ms": {key.removesuffix("_ms"): round(ms, 3) for key, ms in timings.items()}}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of `as_json` and `failure_json`."""
    file = Path(__file__).with_name("transcript.schema.json")
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def failure_json(audio: str, error: str, exit_code: int) -> dict[str, Any]:
    """Return the JSON of an input that failed."""
    return {"version": JSON_VERSION, "audio": audio, "error": error, "exit_code": exit_code}


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
        entry["words"] = [
            {"word": w.text, "start": w.start_s, "end": w.end_s, "probability": w.probability}
            for w in segment.words
        ]
    if segment.speaker is not None:
        entry["speaker"] = segment.speaker
    return entry
