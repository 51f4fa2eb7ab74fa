"""Results of a job: each item's transcript, as JSON lines or Parquet rows.

Only this file imports pyarrow.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from whisper_hailo.batch.manifest import Failure, Item, PieceResult
from whisper_hailo.core.strict_json import escape_surrogates
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript
from whisper_hailo.text.outputs import JSON_VERSION, render, verbose_json
from whisper_hailo.text.subtitles import Layout

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ItemResult:
    """An item with its transcript, or its failure."""

    item: Item
    transcript: Transcript | None
    failure: Failure | None = None

    @property
    def duration_s(self) -> float:
        return 0.0 if self.transcript is None else self.transcript.duration_s

    def record(self) -> dict[str, Any]:
        """Return the record for JSON and Parquet, which does not depend on time or machine."""
        record: dict[str, Any] = {"version": JSON_VERSION, "id": self.item.id}
        record["audio"] = self.item.audio
        if self.transcript is None:
            record["error"] = self._error()
        else:
            record |= verbose_json(self.transcript)
        return record | {"metadata": self.item.metadata}

    def failure_line(self) -> str:
        """Return a line of a manifest, with which the item can be retried."""
        record: dict[str, Any] = {"id": self.item.id, "audio": self.item.audio}
        if self.item.language is not None:
            record["language"] = self.item.language
        return _dumped(record | {"metadata": self.item.metadata, "error": self._error()})

    def _error(self) -> dict[str, str]:
        failure = self.failure or Failure("Internal", "nothing came of it")
        return {"kind": failure.kind, "message": failure.message}


def _dumped(record: dict[str, Any]) -> str:
    return escape_surrogates(json.dumps(record, ensure_ascii=False, allow_nan=False)) + "\n"


def render_part(results: Sequence[ItemResult], layout: str) -> bytes:
    """Return a result file, `jsonl` or `parquet`, of results in order."""
    records = [result.record() for result in results]
    if layout == "parquet":
        return to_parquet(records)
    return "".join(map(_dumped, records)).encode()


def join_pieces(pieces: Sequence[PieceResult]) -> PieceResult:
    """Join the pieces of one item, in order.

    If any of them failed the item has: part of a transcript would be taken for all of it.
    """
    failure = next((piece.failure for piece in pieces if piece.failure), None)
    if failure is not None or not pieces:
        return PieceResult(0, 0.0, failure=failure or Failure("Internal", "nothing came of it"))
    segments = [segment for piece in pieces for segment in piece.segments]
    spoken: Counter[str] = Counter()
    for piece in pieces:
        spoken[piece.language] += sum(len(segment.text) for segment in piece.segments)
    return PieceResult(0, pieces[-1].end_s, spoken.most_common(1)[0][0], tuple(segments))


def item_result(item: Item, result: PieceResult, settings: Settings, task: str) -> ItemResult:
    """Return the transcript of an item, or its failure."""
    if result.failure is not None:
        return ItemResult(item, None, result.failure)
    transcript = Transcript(
        item.id, result.end_s, result.language, task, result.segments, Timings(), settings
    )
    return ItemResult(item, transcript)


def shift_segments(segments: Sequence[Segment], start_s: float) -> tuple[Segment, ...]:
    """Shift segments of a piece to their times in the recording."""
    if not start_s:
        return tuple(segments)
    return tuple(
        replace(
            segment,
            start_s=round(segment.start_s + start_s, 3),
            end_s=round(segment.end_s + start_s, 3),
            window_start_s=round(segment.window_start_s + start_s, 3),
            words=tuple(
                replace(
                    word,
                    start_s=round(word.start_s + start_s, 3),
                    end_s=round(word.end_s + start_s, 3),
                )
                for word in segment.words
            ),
        )
        for segment in segments
    )


def item_files(
    result: ItemResult, formats: Sequence[str], layout: Layout
) -> list[tuple[str, bytes]]:
    """Return names and contents of an item's own files, such as `srt/a.flac.srt`."""
    if result.transcript is None:
        return []
    return [
        (f"{fmt}/{result.item.id}.{fmt}", render(result.transcript, fmt, layout).encode())
        for fmt in formats
    ]


def parquet_schema() -> pa.Schema:
    """Return the Parquet schema; `docs/archives.md` describes the columns.

    Only `metadata` is not as in the JSON lines: a text of JSON, since its shape is the manifest's.
    """
    import pyarrow as pa

    word = pa.struct({
        "word": pa.string(), "start": pa.float64(), "end": pa.float64(),
        "probability": pa.float64(),
    })  # fmt: skip
    segment = pa.struct({
        "id": pa.int32(), "seek": pa.int64(), "start": pa.float64(), "end": pa.float64(),
        "text": pa.string(), "tokens": pa.list_(pa.int32()), "temperature": pa.float64(),
        "avg_logprob": pa.float64(), "compression_ratio": pa.float64(),
        "no_speech_prob": pa.float64(), "language": pa.string(), "runaway": pa.bool_(),
        "words": pa.list_(word), "speaker": pa.int32(),
    })  # fmt: skip
    return pa.schema({
        "version": pa.int32(), "id": pa.string(), "audio": pa.string(), "task": pa.string(),
        "language": pa.string(), "duration": pa.float64(), "text": pa.string(),
        "segments": pa.list_(segment), "metadata": pa.string(),
        "error": pa.struct({"kind": pa.string(), "message": pa.string()}),
    })  # fmt: skip


def to_parquet(records: Sequence[dict[str, Any]]) -> bytes:
    """Return a Parquet file, deterministic for one version of pyarrow."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [record | _texts(record) for record in records]
    file = io.BytesIO()
    table = pa.Table.from_pylist(rows, parquet_schema())
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def _texts(record: dict[str, Any]) -> dict[str, str]:
    """Return the fields of a record that are other text in Parquet."""
    metadata = json.dumps(record["metadata"], ensure_ascii=False, sort_keys=True)
    texts = {"id": record["id"], "audio": record["audio"], "metadata": metadata}
    return {name: escape_surrogates(text) for name, text in texts.items()}
