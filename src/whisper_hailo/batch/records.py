"""The record of a recording: a line of a shard's results, and files such as subtitles."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.storage import redact
from whisper_hailo.batch.tasks import Failure, PieceResult
from whisper_hailo.core.strict_json import escape_surrogates
from whisper_hailo.core.types import (
    FRAMES_PER_SECOND,
    Segment,
    Settings,
    Timings,
    Transcript,
    UntranscribedSpeech,
    Word,
)
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.text.formats import JSON, render
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.text.transcript_json import JSON_VERSION, drop_words, verbose_json

TRUNCATED: Final = "truncated"
"""Kind of the warning that a recording breaks off."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What shapes the results of a job.

    Attributes:
        identity: hash of program, model and options.
        has_words: results have the words that segments have; otherwise only subtitles use them.
        n_items: recordings of a shard, where durations are unknown.
    """

    identity: str
    settings: Settings
    task: str = "transcribe"
    formats: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    has_words: bool = True
    speakers: SpeakerOptions | None = None
    n_items: int = 32


@dataclass(frozen=True, slots=True)
class TranscriptWarning:
    """What is wrong with a transcript: its recording breaks off, or speech has no text."""

    kind: str
    message: str


def join_pieces(pieces: Sequence[PieceResult]) -> PieceResult:
    """Join the pieces of one item, in order.

    If any of them failed the item has: part of a transcript would be taken for all of it.
    """
    failed = next((piece for piece in pieces if piece.failure), None)
    if failed is not None:
        return failed
    letters: Counter[str] = Counter()
    for piece in pieces:
        letters[piece.language] += sum(len(segment.text) for segment in piece.segments)
    ((language, _),) = letters.most_common(1)
    segments = tuple(segment for piece in pieces for segment in piece.segments)
    untranscribed = tuple(speech for piece in pieces for speech in piece.untranscribed)
    return replace(
        pieces[-1],
        start_s=0.0,
        language=language,
        segments=segments,
        untranscribed=untranscribed,
    )


def find_warnings(result: PieceResult) -> list[TranscriptWarning]:
    """Return what is wrong with the result of a recording."""
    warnings = [TranscriptWarning(TRUNCATED, message) for message in result.warnings]
    if result.untranscribed:
        lost_s = sum(speech.end_s - speech.start_s for speech in result.untranscribed)
        message = f"{lost_s:.1f} s of speech without text"
        warnings.append(TranscriptWarning("untranscribed", message))
    return warnings


def make_record(item: Item, result: PieceResult, settings: JobSettings) -> str:
    """Return the line of a recording."""
    record: dict[str, Any] = {
        "version": JSON_VERSION,
        "id": item.id,
        "audio": redact(item.audio),
    }
    if result.failure is not None:
        record["error"] = asdict(result.failure)
    else:
        record |= verbose_json(_written_transcript(item, result, settings))
        record["warnings"] = [asdict(warning) for warning in find_warnings(result)]
    return to_json_line(record | {"metadata": item.metadata})


def render_files(
    item: Item, result: PieceResult, settings: JobSettings
) -> Iterator[tuple[str, str]]:
    """Yield name and content of the files of a recording that has a transcript."""
    for fmt in settings.formats:
        transcript = _make_transcript(item, result, settings)
        if fmt == JSON:
            transcript = _written_transcript(item, result, settings)
        yield f"{fmt}/{item.id}.{fmt}", render(transcript, fmt, settings.layout)


def read_record(record: dict[str, Any]) -> tuple[Item, PieceResult]:
    """Return the recording and the result of a record that has a transcript."""
    result = PieceResult(
        item=0,
        start_s=0.0,
        n_pieces=1,
        end_s=record["duration"],
        language=record["language"],
        segments=tuple(_read_segment(entry) for entry in record["segments"]),
        untranscribed=tuple(
            UntranscribedSpeech(**entry) for entry in record["untranscribed"]
        ),
        warnings=tuple(
            warning["message"]
            for warning in record["warnings"]
            if warning["kind"] == TRUNCATED
        ),
    )
    return Item(record["id"], record["audio"]), result


def _read_segment(entry: dict[str, Any]) -> Segment:
    words = [
        Word(
            start_s=word["start"],
            end_s=word["end"],
            text=word["word"],
            probability=word["probability"],
            tokens=(),
            speaker=word.get("speaker"),
        )
        for word in entry.get("words", ())
    ]
    return Segment(
        start_s=entry["start"],
        end_s=entry["end"],
        text=entry["text"].removeprefix(" "),
        tokens=tuple(entry["tokens"]),
        avg_logprob=entry["avg_logprob"],
        no_speech_prob=entry["no_speech_prob"],
        runaway=entry["runaway"],
        temperature=entry["temperature"],
        compression_ratio=entry["compression_ratio"],
        words=tuple(words),
        language=entry["language"],
        speaker=entry.get("speaker"),
        window_start_s=entry["seek"] / FRAMES_PER_SECOND,
    )


def make_failure_line(item: Item, failure: Failure) -> str:
    """Return the line of a manifest with which a recording that failed can be tried again."""
    record: dict[str, Any] = {"id": item.id, "audio": item.audio}
    if item.language is not None:
        record["language"] = item.language
    record["metadata"] = item.metadata
    record["error"] = asdict(failure)
    return to_json_line(record)


def _written_transcript(
    item: Item, result: PieceResult, settings: JobSettings
) -> Transcript:
    """Return the transcript as JSON has it."""
    transcript = _make_transcript(item, result, settings)
    return transcript if settings.has_words else drop_words(transcript)


def _make_transcript(
    item: Item, result: PieceResult, settings: JobSettings
) -> Transcript:
    return Transcript(
        audio=item.id,
        duration_s=result.end_s,
        language=result.language,
        task=settings.task,
        segments=result.segments,
        timings=Timings(),  # left out: results must not depend on the machine
        settings=settings.settings,
        untranscribed=result.untranscribed,
    )


def to_json_line(record: dict[str, Any]) -> str:
    """Return an object as a line of JSON."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return escape_surrogates(text) + "\n"
