"""What the original study published, to stand beside what is measured here.

Raspberry Pi 5 with a Hailo-8L, Whisper tiny: 24 samples of LibriSpeech dev-clean (which ones is
not known) and 11 accented recordings. WER and CER are means over files of lower-cased and stripped
text, which is `simple` here. Its Hailo rows heard the first 9 s of a file and 28 tokens, its
baselines the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo_lab.report.table import Table, number, percent, table_of

SOURCE: Final = "published by the study: Raspberry Pi 5 + Hailo-8L, Whisper tiny"


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One configuration on some recordings.

    Attributes:
        name: configuration.
        encoder_ms: mean, or `None` where it was not told apart.
        decoder_ms: likewise.
        total_ms: mean.
        wer: simple, mean over files, as a rate; not told of single recordings.
        cer: likewise.
    """

    name: str
    encoder_ms: float | None
    decoder_ms: float | None
    total_ms: float
    wer: float = math.nan
    cer: float = math.nan


@dataclass(frozen=True, slots=True)
class PublishedCaptions:
    """The captioning session of one engine; every call counts its whole buffer.

    Attributes:
        engine: what transcribed.
        memory_mb: of the process.
        partial: calls on a running segment.
        full: calls on a finished one.
        speech_s: seconds heard, again each time they were transcribed.
        compute_s: seconds of computing.
    """

    engine: str
    memory_mb: float
    partial: int
    full: int
    speech_s: float
    compute_s: float


LIBRISPEECH: Final = (
    PublishedRow("HEF encoder + HEF decoder", 33.3, 1257.4, 1290.7, 0.3453, 0.1502),
    PublishedRow("HEF encoder + cached INT8", 31.4, 101.1, 132.5, 0.3471, 0.1402),
    PublishedRow("10 s encoder + cached INT8", 117.3, 108.5, 225.8, 0.3365, 0.1362),
    PublishedRow("30 s FP32 encoder + cached INT8", 584.5, 148.8, 733.2, 0.3277, 0.1245),
    PublishedRow("30 s INT8 encoder + cached INT8", 434.9, 149.9, 584.9, 0.4255, 0.1905),
    PublishedRow("FasterWhisper INT8", None, None, 1076.6, 0.3068, 0.1088),
    PublishedRow("Moonshine", None, None, 279.1, 0.2929, 0.0997),
)
"""LibriSpeech dev-clean, 24 samples."""

ACCENTED: Final = (
    PublishedRow("HEF encoder + HEF decoder", 33.1, 651.2, 684.3, 0.5792, 0.3869),
    PublishedRow("HEF encoder + cached INT8", 31.6, 60.0, 91.6, 0.5433, 0.4094),
    PublishedRow("10 s encoder + cached INT8", 118.3, 63.9, 182.2, 0.4316, 0.2575),
    PublishedRow("30 s FP32 encoder + cached FP32", 584.9, 168.4, 753.3, 0.3082, 0.1529),
    PublishedRow("30 s FP32 encoder + cached INT8", 583.5, 91.3, 674.8, 0.2771, 0.1425),
    PublishedRow("30 s INT8 encoder + cached FP32", 435.9, 164.3, 600.2, 0.5374, 0.3252),
    PublishedRow("30 s INT8 encoder + cached INT8", 435.0, 90.7, 525.7, 0.5859, 0.3392),
    PublishedRow("FasterWhisper INT8", None, None, 1016.1, 0.2771, 0.1369),
)
"""Eleven accented recordings; totals are the sums of the published parts."""

MEMORY_MB: Final = {
    "HEF encoder": (24.89, 25.39),
    "HEF decoder": (204.44, 213.16),
    "cached INT8 decoder": (239.67, 241.19),
    "10 s ONNX encoder": (42.81, 79.31),
    "30 s INT8 encoder": (16.23, 95.27),
    "30 s FP32 encoder": (39.73, 275.73),
    "cached FP32 decoder": (387.91, 396.41),
}
"""A component after loading, and after warm-up."""

REFERENCE: Final = "FasterWhisper INT8"
"""What the study's speed-ups are over."""

HELLO_WORLD: Final = (
    PublishedRow("HEF encoder + HEF decoder", 33.0, 296.8, 329.8),
    PublishedRow("HEF encoder + cached INT8", 31.5, 32.4, 64.0),
    PublishedRow("10 s encoder + cached INT8", 125.3, 45.4, 170.7),
    PublishedRow("30 s INT8 encoder + cached INT8", 438.7, 64.9, 503.6),
    PublishedRow("FasterWhisper INT8", None, None, 814.2),
)
"""The words "Hello world"; FasterWhisper's standard deviation is 48.8 ms."""

ASK_NOT: Final = (
    PublishedRow("HEF encoder + HEF decoder", 33.2, 1327.9, 1361.0),
    PublishedRow("HEF encoder + cached INT8", 31.7, 105.4, 137.1),
    PublishedRow("10 s encoder + cached INT8", 126.1, 114.2, 240.4),
    PublishedRow("30 s INT8 encoder + cached INT8", 439.1, 226.6, 665.6),
)
"""The recording of Kennedy's "ask not"."""

PADDING: Final = {
    "cross-attention with 600 to 650 positions over 500 (said as 1.2 to 1.3)": 1.25,
    "cross-attention with 700 positions over 500": 1.4,
    "cross-attention with 1500 positions over 500": 3.0,
    "decoder with 1500 positions over 500": 1.9,
}
"""Cost of real padding on a desktop: how many times as slow."""

RATIOS: Final = {
    "hybrid over FasterWhisper": 8.1,
    "hybrid over FasterWhisper, accented recordings": 11.1,
    "hybrid over HEF encoder + HEF decoder": 9.7,
    "cached over no-cache decoder": 12.4,
    "HEF encoder over 30 s FP32 encoder": 18.9,
    "HEF encoder over 10 s ONNX encoder": 3.8,
    "hybrid over 30 s FP32 encoder + cached INT8": 5.5,
    "hybrid over 10 s encoder + cached INT8": 1.7,
}
"""The study's headlines: what is said to be how many times as fast as what."""

CAPTIONS: Final = (
    PublishedCaptions("HEF encoder + cached INT8", 283.91, 38, 7, 63.12, 4.49),
    PublishedCaptions("Moonshine", 320.33, 68, 7, 67.15, 4.72),
)
"""Live captioning; the first engine's session was 1,009,856 frames."""


def published_tables() -> Iterator[tuple[str, Table]]:
    """Everything the study published: title and table."""
    yield "LibriSpeech dev-clean, 24 samples", _accuracy(LIBRISPEECH)
    yield "Eleven accented recordings", _accuracy(ACCENTED)
    yield 'One file, "Hello world", ten iterations', _times(HELLO_WORLD)
    yield 'One file, "ask not", ten iterations', _times(ASK_NOT)
    yield "Memory", _memory()
    yield "Headlines", _ratios(RATIOS)
    yield "Cost of real padding on a desktop", _ratios(PADDING)
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
    base_ms = next(row.total_ms for row in rows if row.name == REFERENCE)
    return table_of(
        rows,
        *_TIMES,
        (f"times {REFERENCE}", lambda row: number(base_ms / row.total_ms, 2)),
        ("simple WER / CER, mean", lambda row: f"{percent(row.wer, 2)} / {percent(row.cer, 2)}"),
    )


def _memory() -> Table:
    return table_of(
        MEMORY_MB.items(),
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
        CAPTIONS,
        ("published", lambda row: row.engine),
        ("memory MB", lambda row: number(row.memory_mb, 2)),
        ("calls, partial + full", lambda row: f"{row.partial} + {row.full}"),
        ("speech s", lambda row: number(row.speech_s, 2)),
        ("compute s", lambda row: number(row.compute_s, 2)),
        ("rtfx, recounted", lambda row: number(row.speech_s / row.compute_s, 2)),
    )
