"""Figures that the original study published, from `study.json`.

Raspberry Pi 5 with a Hailo-8L, Whisper tiny: 24 samples of LibriSpeech dev-clean (which ones is
not known) and 11 accented recordings. WER and CER are means over files of lower-cased and stripped
text, which is `simple` here. Its Hailo rows heard the first 9 s of a file and 28 tokens, its
baselines the whole file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

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


_PUBLISHED: Final[dict[str, Any]] = json.loads(
    (resources.files(__package__) / "study.json").read_text(encoding="utf-8")
)


def _read_rows(name: str) -> tuple[PublishedRow, ...]:
    return tuple(PublishedRow(*row) for row in _PUBLISHED[name])


LIBRISPEECH: Final = _read_rows("librispeech")
"""LibriSpeech dev-clean, 24 samples."""

ACCENTED: Final = _read_rows("accented")
"""Eleven accented recordings; totals are the sums of the published parts."""

MEMORY_MB: Final[dict[str, tuple[float, float]]] = _PUBLISHED["memory_mb"]
"""Memory of a component after loading, and after warm-up."""

REFERENCE: Final = "FasterWhisper INT8"
"""Row that the study's speed-ups are over."""

HELLO_WORLD: Final = _read_rows("hello_world")
"""The words "Hello world"; FasterWhisper's standard deviation is 48.8 ms."""

ASK_NOT: Final = _read_rows("ask_not")
"""The recording of Kennedy's "ask not"."""

PADDING: Final[dict[str, float]] = _PUBLISHED["padding"]
"""Cost of real padding on a desktop, as a ratio of times."""

RATIOS: Final[dict[str, float]] = _PUBLISHED["ratios"]
"""Speed-ups that the study claims."""

CAPTIONS: Final = tuple(PublishedCaptions(*row) for row in _PUBLISHED["captions"])
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
