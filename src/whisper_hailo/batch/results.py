"""What a job writes: each item's transcript as a line of JSON, in files of a fixed size."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from whisper_hailo.batch.parquet import as_parquet
from whisper_hailo.batch.records import Failure, Group, Item, Outcome, PieceResult
from whisper_hailo.core.strict_json import without_halves
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript
from whisper_hailo.text.outputs import JSON_VERSION, render, verbose_json
from whisper_hailo.text.subtitles import Layout

SHARD_GROUPS: Final = 16
"""Groups of one file: 256 items."""


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What a job has of an item.

    Attributes:
        item: of the manifest.
        transcript: `None` if it failed.
        failure: why there is none.
    """

    item: Item
    transcript: Transcript | None
    failure: Failure | None = None

    @property
    def duration_s(self) -> float:
        return 0.0 if self.transcript is None else self.transcript.duration_s

    def record(self) -> dict[str, Any]:
        """For JSON and Parquet: nothing in it tells when, where or how quickly it was made."""
        record: dict[str, Any] = {"version": JSON_VERSION, "id": self.item.id}
        record["audio"] = self.item.audio
        if self.transcript is None:
            record["error"] = self._error()
        else:
            record |= verbose_json(self.transcript)
        return record | {"metadata": self.item.metadata}

    def failure_line(self) -> str:
        """As a line of a manifest, with which the item can be tried again."""
        record: dict[str, Any] = {"id": self.item.id, "audio": self.item.audio}
        if self.item.language is not None:
            record["language"] = self.item.language
        return _dumped(record | {"metadata": self.item.metadata, "error": self._error()})

    def _error(self) -> dict[str, str]:
        failure = self.failure or Failure("Internal", "nothing came of it")
        return {"kind": failure.kind, "message": failure.message}


def _dumped(record: dict[str, Any]) -> str:
    return without_halves(json.dumps(record, ensure_ascii=False, allow_nan=False)) + "\n"


def shard(results: Sequence[ItemResult], layout: str) -> bytes:
    """A whole file of results.

    Args:
        results: in the order of the manifest.
        layout: `jsonl` or `parquet`.
    """
    records = [result.record() for result in results]
    if layout == "parquet":
        return as_parquet(records)
    return "".join(map(_dumped, records)).encode()


def item_results(
    group: Group, outcomes: Sequence[Outcome], settings: Settings, task: str
) -> list[ItemResult]:
    """The items of a group all of whose tasks are done.

    Args:
        group: with its items.
        outcomes: of all its tasks, in order.
        settings: of the job.
        task: `transcribe` or `translate`.
    """
    pieces: list[list[PieceResult]] = [[] for _ in group.items]
    for outcome in outcomes:
        for result in outcome.results:
            pieces[result.item].append(result)
    return [
        _joined(item, own, settings, task) for item, own in zip(group.items, pieces, strict=True)
    ]


def _joined(item: Item, pieces: Sequence[PieceResult], settings: Settings, task: str) -> ItemResult:
    failure = next((piece.failure for piece in pieces if piece.failure), None)
    if failure is not None or not pieces:
        return ItemResult(item, None, failure)
    segments = [segment for piece in pieces for segment in piece.segments]
    spoken: Counter[str] = Counter()
    for piece in pieces:
        spoken[piece.language] += sum(len(segment.text) for segment in piece.segments)
    transcript = Transcript(
        item.id, pieces[-1].end_s, spoken.most_common(1)[0][0], task, tuple(segments), Timings(),
        settings,
    )  # fmt: skip
    return ItemResult(item, transcript)


def later(segments: Sequence[Segment], start_s: float) -> tuple[Segment, ...]:
    """Segments of a piece with their times in the recording.

    Args:
        segments: timed in the piece.
        start_s: where the piece begins.
    """
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


def files_of(result: ItemResult, formats: Sequence[str], layout: Layout) -> list[tuple[str, bytes]]:
    """Names and contents of an item's own files, such as `srt/a.flac.srt`."""
    if result.transcript is None:
        return []
    return [
        (f"{fmt}/{result.item.id}.{fmt}", render(result.transcript, fmt, layout).encode())
        for fmt in formats
    ]


def first_group(shard: int) -> int:
    """Of a file of results."""
    return shard * SHARD_GROUPS
