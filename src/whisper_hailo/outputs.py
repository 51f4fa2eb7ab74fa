"""Transcripts as text and JSON, and files that are either complete or not there."""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo.core.files import ordinary_mode
from whisper_hailo.core.types import Segment, Transcript

FORMATS: Final = ("txt", "json")


def render(transcript: Transcript, fmt: str) -> str:
    """The content of an output file.

    Args:
        transcript: the result of one input.
        fmt: one of `FORMATS`; `json` is the verbose layout of OpenAI's transcription API.

    Raises:
        OptionError: no such format.
    """
    if fmt == "txt":
        return transcript.text + "\n"
    if fmt == "json":
        return json.dumps(verbose_json(transcript), ensure_ascii=False, indent=2) + "\n"
    raise OptionError(f"--format is {fmt!r}, expected one of: {', '.join(FORMATS)}")


def machine_json(transcript: Transcript) -> dict[str, Any]:
    """The object that `transcribe --json` prints per input."""
    timings = asdict(transcript.timings)
    return {
        "audio": transcript.audio,
        "duration_s": round(transcript.duration_s, 4),
        "text": transcript.text,
        "language": transcript.language,
        "segments": [asdict(segment) for segment in transcript.segments],
        "timings_ms": {key.removesuffix("_ms"): round(ms, 3) for key, ms in timings.items()},
        "settings": asdict(transcript.settings),
    }


def verbose_json(transcript: Transcript) -> dict[str, Any]:
    """The `verbose_json` layout of OpenAI's transcription API."""
    return {
        "task": transcript.task,
        "language": transcript.language,
        "duration": round(transcript.duration_s, 4),
        "text": transcript.text,
        "segments": [_verbose(index, s) for index, s in enumerate(transcript.segments)],
    }


def _verbose(index: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": index,
        "seek": round(segment.start_s * 100),
        "start": segment.start_s,
        "end": segment.end_s,
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": 0.0,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": compression_ratio(segment.text),
        "no_speech_prob": segment.no_speech_prob,
    }


def compression_ratio(text: str) -> float:
    """UTF-8 bytes by zlib bytes: text that repeats itself compresses well.

    Source: OpenAI Whisper, where a ratio above 2.4 marks a repetition.
    """
    raw = text.encode("utf-8")
    return len(raw) / len(zlib.compress(raw))


def write_atomic(path: Path, text: str) -> None:
    """Write a file so that it is either complete or as it was before.

    Args:
        path: target; its folder is made when missing.
        text: content, written as UTF-8.

    Raises:
        OutputError: unwritable place or full disk; nothing half-written is left.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".whisper-hailo.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(ordinary_mode(0o666))
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise OutputError(
            f"cannot write {path} ({error.strerror}); free some space or give another --output-dir"
        ) from error
    finally:  # also when the user interrupts
        if temporary is not None:
            temporary.unlink(missing_ok=True)
