"""Tables of what the study published, to stand behind what is measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from whisper_hailo_lab.report import study
from whisper_hailo_lab.report.study import PublishedRow
from whisper_hailo_lab.report.table import Table, table_of
from whisper_hailo_lab.report.text import number, percent


def published_tables() -> Iterator[tuple[str, Table]]:
    """Everything the study published: title and table."""
    yield "LibriSpeech dev-clean, 24 samples", _accuracy(study.LIBRISPEECH)
    yield "Eleven accented recordings", _accuracy(study.ACCENTED)
    yield 'One file, "Hello world", ten iterations', _times(study.HELLO_WORLD)
    yield 'One file, "ask not", ten iterations', _times(study.ASK_NOT)
    yield "Memory", _memory()
    yield "Headlines", _ratios(study.RATIOS)
    yield "Cost of real padding on a desktop", _ratios(study.PADDING)
    yield "Live captions", _captions()


_TIMES: Final[tuple[tuple[str, Callable[[PublishedRow], str]], ...]] = (
    ("published", lambda row: row.name),
    ("encoder ms", lambda row: number(row.encoder_ms)),
    ("decoder ms", lambda row: number(row.decoder_ms)),
    ("total ms", lambda row: number(row.total_ms)),
)


def _times(rows: Sequence[PublishedRow]) -> Table:
    return table_of(rows, *_TIMES)


def _accuracy(rows: Sequence[PublishedRow]) -> Table:
    """The study's rows, with speed-ups within the study."""
    base_ms = next(row.total_ms for row in rows if row.name == study.REFERENCE)
    return table_of(
        rows,
        *_TIMES,
        (f"times {study.REFERENCE}", lambda row: number(base_ms / row.total_ms, 2)),
        ("simple WER / CER, mean", lambda row: f"{percent(row.wer, 2)} / {percent(row.cer, 2)}"),
    )


def _memory() -> Table:
    return table_of(
        study.MEMORY_MB.items(),
        ("published", lambda item: item[0]),
        ("load MB", lambda item: number(item[1][0], 2)),
        ("after warm-up MB", lambda item: number(item[1][1], 2)),
    )


def _ratios(ratios: dict[str, float]) -> Table:
    return table_of(
        ratios.items(),
        ("published", lambda item: item[0]),
        ("times", lambda item: number(item[1], 2)),
    )


def _captions() -> Table:
    """Captioning sessions; the factor counts a second each time it was transcribed again."""
    return table_of(
        study.CAPTIONS,
        ("published", lambda row: row.engine),
        ("memory MB", lambda row: number(row.memory_mb, 2)),
        ("calls, partial + full", lambda row: f"{row.partial} + {row.full}"),
        ("speech s", lambda row: number(row.speech_s, 2)),
        ("compute s", lambda row: number(row.compute_s, 2)),
        ("rtfx, recounted", lambda row: number(row.speech_s / row.compute_s, 2)),
    )
