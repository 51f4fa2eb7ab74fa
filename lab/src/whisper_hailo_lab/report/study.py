"""Figures that the original study published.

Raspberry Pi 5 with a Hailo-8L, Whisper tiny: 24 samples of LibriSpeech dev-clean (which ones is
not known) and 11 accented recordings. WER and CER are means over files of lower-cased and stripped
text, which is `simple` here. Its Hailo rows heard the first 9 s of a file and 28 tokens, its
baselines the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from whisper_hailo_lab.tables import Column, Table, make_table

SOURCE: Final = "published by the study: Raspberry Pi 5 + Hailo-8L, Whisper tiny"


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One configuration on some recordings.

    Attributes:
        name: configuration.
        encoder_ms: mean, or `None` where only the total was published.
        decoder_ms: mean, as `encoder_ms`.
        total_ms: mean.
        wer: simple, mean over files, as a rate; NaN for single recordings.
        cer: as `wer`.
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
        engine: name of the engine.
        memory_mb: memory of the process.
        partial: calls on a running segment.
        full: calls on a finished segment.
        speech_s: seconds of audio, counted each time they were transcribed.
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
    PublishedRow(
        "30 s FP32 encoder + cached INT8", 584.5, 148.8, 733.2, 0.3277, 0.1245
    ),
    PublishedRow(
        "30 s INT8 encoder + cached INT8", 434.9, 149.9, 584.9, 0.4255, 0.1905
    ),
    PublishedRow("FasterWhisper INT8", None, None, 1076.6, 0.3068, 0.1088),
    PublishedRow("Moonshine", None, None, 279.1, 0.2929, 0.0997),
)
"""LibriSpeech dev-clean, 24 samples."""

ACCENTED: Final = (
    PublishedRow("HEF encoder + HEF decoder", 33.1, 651.2, 684.3, 0.5792, 0.3869),
    PublishedRow("HEF encoder + cached INT8", 31.6, 60.0, 91.6, 0.5433, 0.4094),
    PublishedRow("10 s encoder + cached INT8", 118.3, 63.9, 182.2, 0.4316, 0.2575),
    PublishedRow(
        "30 s FP32 encoder + cached FP32", 584.9, 168.4, 753.3, 0.3082, 0.1529
    ),
    PublishedRow("30 s FP32 encoder + cached INT8", 583.5, 91.3, 674.8, 0.2771, 0.1425),
    PublishedRow(
        "30 s INT8 encoder + cached FP32", 435.9, 164.3, 600.2, 0.5374, 0.3252
    ),
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
"""Memory of a component after loading, and after warm-up."""

REFERENCE: Final = "FasterWhisper INT8"
"""Row that the study's speed-ups are over."""

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
"""Cost of real padding on a desktop, as a ratio of times."""

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
"""Speed-ups that the study claims."""

CAPTIONS: Final = (
    PublishedCaptions("HEF encoder + cached INT8", 283.91, 38, 7, 63.12, 4.49),
    PublishedCaptions("Moonshine", 320.33, 68, 7, 67.15, 4.72),
)
"""Live captioning; the first engine's session was 1,009,856 frames."""


def published_tables() -> Iterator[tuple[str, Table]]:
    """Yield title and table of everything that the study published."""
    yield "LibriSpeech dev-clean, 24 samples", _accuracy_table(LIBRISPEECH)
    yield "Eleven accented recordings", _accuracy_table(ACCENTED)
    yield 'One file, "Hello world", ten iterations', make_table(HELLO_WORLD, _TIMES)
    yield 'One file, "ask not", ten iterations', make_table(ASK_NOT, _TIMES)
    yield "Memory", make_table(MEMORY_MB.items(), _MEMORY)
    yield "Headlines", make_table(RATIOS.items(), _RATIOS)
    yield "Cost of real padding on a desktop", make_table(PADDING.items(), _RATIOS)
    yield "Live captions", make_table(CAPTIONS, _CAPTIONS)


_TIMES: Final[tuple[Column, ...]] = (
    ("published", "{name}"),
    ("encoder ms", "{encoder_ms:.1f}"),
    ("decoder ms", "{decoder_ms:.1f}"),
    ("total ms", "{total_ms:.1f}"),
)

_MEMORY: Final[tuple[Column, ...]] = (
    ("published", "{0}"),
    ("load MB", "{1.0:.2f}"),
    ("after warm-up MB", "{1.1:.2f}"),
)

_RATIOS: Final[tuple[Column, ...]] = (("published", "{0}"), ("times", "{1:.2f}"))

_CAPTIONS: Final[tuple[Column, ...]] = (
    ("published", "{engine}"),
    ("memory MB", "{memory_mb:.2f}"),
    ("calls, partial + full", "{partial} + {full}"),
    ("speech s", "{speech_s:.2f}"),
    ("compute s", "{compute_s:.2f}"),
    # A second counts each time it was transcribed.
    ("rtfx, recounted", lambda row: f"{row.speech_s / row.compute_s:.2f}"),
)


def _accuracy_table(rows: Sequence[PublishedRow]) -> Table:
    """Return the study's rows, with speed-ups within the study."""
    base_ms = next(row.total_ms for row in rows if row.name == REFERENCE)
    return make_table(
        rows,
        (
            *_TIMES,
            (f"times {REFERENCE}", lambda row: f"{base_ms / row.total_ms:.2f}"),
            ("simple WER / CER, mean", "{wer:.2%} / {cer:.2%}"),
        ),
    )
