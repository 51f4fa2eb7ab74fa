"""Tables of what the study published, to stand behind what is measured here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from whisper_hailo_lab.report import study
from whisper_hailo_lab.report.study import (
    PublishedCaptions,
    PublishedMemory,
    PublishedRatio,
    PublishedRow,
    PublishedTiming,
)
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.report.text import number, percent


def published_tables() -> Iterator[tuple[str, Table]]:
    """Everything the study published: title and table."""
    yield "LibriSpeech dev-clean, 24 samples", accuracy_table(study.LIBRISPEECH)
    yield "Eleven accented recordings", accuracy_table(study.ACCENTED)
    yield 'One file, "Hello world", ten iterations', timing_table(study.HELLO_WORLD)
    yield 'One file, "ask not", ten iterations', timing_table(study.ASK_NOT)
    yield "Memory", memory_table(study.MEMORY)
    yield "Headlines", ratio_table(study.RATIOS)
    yield "Cost of real padding on a desktop", ratio_table(study.PADDING)
    yield "Live captions", captions_table(study.CAPTIONS)


def accuracy_table(rows: Iterable[PublishedRow]) -> Table:
    """The study's rows, with speed-ups within the study."""
    listed = list(rows)
    base = next(row.total_ms for row in listed if row.name == study.REFERENCE)
    columns = (
        "published",
        "encoder ms",
        "decoder ms",
        "total ms",
        f"times {study.REFERENCE}",
        "simple WER / CER, mean",
    )
    return Table(
        columns,
        tuple(
            (
                row.name,
                number(row.encoder_ms),
                number(row.decoder_ms),
                number(row.total_ms),
                number(base / row.total_ms, 2),
                f"{percent(row.wer, 2)} / {percent(row.cer, 2)}",
            )
            for row in listed
        ),
    )


def memory_table(rows: Iterable[PublishedMemory]) -> Table:
    """The study's memory figures."""
    cells = tuple((row.name, number(row.load_mb, 2), number(row.warm_mb, 2)) for row in rows)
    return Table(("published", "load MB", "after warm-up MB"), cells)


def timing_table(rows: Iterable[PublishedTiming]) -> Table:
    """Times of one file."""
    cells = tuple(
        (row.name, number(row.encoder_ms), number(row.decoder_ms), number(row.total_ms))
        for row in rows
    )
    return Table(("published", "encoder ms", "decoder ms", "total ms"), cells)


def ratio_table(rows: Iterable[PublishedRatio]) -> Table:
    """How many times as fast, or as slow."""
    return Table(("published", "times"), tuple((row.claim, number(row.ratio, 2)) for row in rows))


def captions_table(rows: Iterable[PublishedCaptions]) -> Table:
    """Captioning sessions; the factor counts a second each time it was transcribed again."""
    cells = tuple(
        (
            row.engine,
            number(row.memory_mb, 2),
            f"{row.partial} + {row.full}",
            number(row.speech_s, 2),
            number(row.compute_s, 2),
            number(row.speech_s / row.compute_s, 2),
        )
        for row in rows
    )
    columns = (
        "published",
        "memory MB",
        "calls, partial + full",
        "speech s",
        "compute s",
        "rtfx, recounted",
    )
    return Table(columns, cells)
