"""A small run of the speed comparison whose figures can be checked by hand."""

from __future__ import annotations

from typing import Any

from lab.tests.unit.small_run import HEADER
from whisper_hailo_lab.runs.records import (
    CaseMemory,
    CaseRecord,
    ComparisonRecord,
    FileResult,
    RunRecords,
)
from whisper_hailo_lab.speed import plan

GROUP = "tiny-1"


def case(label: str, peak: float = 100.0) -> CaseRecord:
    return CaseRecord(
        f"{GROUP}: {label}", "ours", "forced", "tiny", 1, group=GROUP, memory=CaseMemory(peak=peak)
    )


def rounds(label: str, *work_ms: float, mel_ms: float = 5.0) -> tuple[FileResult, ...]:
    """Rounds of so many milliseconds after the log-mel; half in the encoder."""
    return tuple(
        FileResult(
            f"{GROUP}: {label}", f"round-{i}", "en", 10.0, "", "text",
            {"mel": mel_ms, "encode": ms / 2, "cross_kv": ms / 8, "decode": 3 * ms / 8},
            ms + mel_ms, ms / 1000, 28,
        )
        for i, ms in enumerate(work_ms)
    )  # fmt: skip


def accuracy(label: str, errors: int, equal: int = 100) -> dict[str, Any]:
    return {
        "case": label, "settings": {}, "failed": 0, "wer": errors / 1000,
        "weights": {"model.safetensors": "cd34"},
        "interval": [0.0, 0.1], "words": 1000, "substitutions": errors, "deletions": 0,
        "insertions": 0, "tokens_equal": equal, "tokens_all": 100, "texts_equal": 9, "texts": 10,
    }  # fmt: skip


LABELS: dict[str, tuple[float, ...]] = {
    plan.INT8_INT8: (10.0, 20.0, 30.0),
    plan.FASTER_WHISPER: (80.0, 160.0, 210.0),
    plan.CTRANSLATE2: (30.0, 30.0, 30.0),
    plan.few(plan.INT8_INT8): (8.0, 16.0, 24.0),
    plan.few(plan.CTRANSLATE2): (10.0, 14.0, 18.0),
    f"{plan.INT8_INT8}, {plan.UNPADDED}": (10.0, 16.0, 30.0),
}
START = ComparisonRecord("speed-start", {}, (
    {"size": "micro", "label": "ours", "ms": 500.0, "least_ms": 490.0, "cpu_ms": 400.0,
     "times_ms": [500.0], "peak_mib": 90.0, "text": "a"},
    {"size": "tiny", "label": "ours", "ms": 700.0, "least_ms": 690.0, "cpu_ms": 600.0,
     "times_ms": [700.0], "peak_mib": 200.0, "text": "a"},
    {"size": "tiny", "label": "faster-whisper", "ms": 1400.0, "least_ms": 1300.0,
     "cpu_ms": 900.0, "times_ms": [1400.0], "peak_mib": 250.0, "text": "a"},
))  # fmt: skip
FLOOR = ComparisonRecord("speed-floor", {}, (
    {"decoder": "int4", "threads": 1, "bytes": {"weights": 9 << 20, "cross": 1 << 20},
     "step_ms": 2.0, "cpu_ms": 1.9, "floor_ms": 1.0, "gb_per_s": 10.5, "ratio": 2.0,
     "steps_ms": [2.0], "reads_ms": [1.0]},
))  # fmt: skip
BATCH = ComparisonRecord("speed-batch", {}, (
    {"model": "tiny", "decoder": "int8", "threads": 1, "audio_s": 80.0, "one_ms": 300.0,
     "batch_ms": 100.0, "ratio": 3.0, "whole_ratio": 1.4, "same_text": True},
))  # fmt: skip
ACCURACY = ComparisonRecord("speed-accuracy", {}, (
    accuracy(plan.FLOAT, 50), accuracy(plan.INT8_INT8, 54, 90), accuracy(plan.FLOAT_INT8, 52),
))  # fmt: skip
RUN = RunRecords(
    HEADER,
    tuple(case(label) for label in LABELS),
    tuple(record for label, ms in LABELS.items() for record in rounds(label, *ms)),
    (START, FLOOR, BATCH, ACCURACY),
)
