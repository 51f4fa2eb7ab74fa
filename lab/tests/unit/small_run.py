"""A small constructed run, whose figures can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

from whisper_hailo_lab.runs.machine import Machine
from whisper_hailo_lab.runs.records import (
    CaseMemory,
    CaseRecord,
    ComparisonRecord,
    FileResult,
    RunHeader,
    RunRecords,
)

MACHINE = Machine("Test CPU", 2, 8, "x86_64", system="Linux 6.1")
HEADER = RunHeader(
    "2026-01-02T03:04:05+00:00", MACHINE, {"python": "3.11.7"}, "clips", "ab12", 3
)
OURS = CaseRecord(
    "whisper-hailo, matched", "ours", "matched", "micro", 1,
    settings={"quantize": "int8"},
    versions={"onnxruntime": "1.31.1"},
    model_sha256={"model.safetensors": "cd34"},
    heard_as={"encoder": "onnx-fp32", "decoder": "cached-int8", "window_s": 10.0, "pad_to": 1500},
    load_ms=120.0,
    warm_up_ms=(30.0, 21.0, 20.0),
    memory=CaseMemory(
        90.0, {"encoder": 20.0, "decoder": 40.0}, {"encoder": 5.0, "decoder": 1.0}, 170.0
    ),
)  # fmt: skip
RIVAL = CaseRecord(
    "faster-whisper, matched", "faster-whisper", "matched", "micro", 1,
    versions={"ctranslate2": "4.8.5"},
    heard_as={"compute_type": "int8"},
    memory=CaseMemory(30.0, {"model": 60.0}, {"model": 50.0}, 190.0),
)  # fmt: skip


def make_file_result(
    case: str, key: str, reference: str, hypothesis: str, total_ms: float
) -> FileResult:
    """Return the result of two seconds of audio, with given shares of the time a stage."""
    return FileResult(
        case, key, "en", 2.0, reference, hypothesis,
        {"mel": 0.1 * total_ms, "encode": 0.3 * total_ms, "cross_kv": 0.1 * total_ms,
         "decode": 0.5 * total_ms},
        total_ms, total_ms / 500, 5, runaway=False,
    )  # fmt: skip


OURS_FILES = (
    make_file_result(
        OURS.name, "a", "One two three four.", "One two three four.", 10.0
    ),
    make_file_result(OURS.name, "b", "Five six.", "five nine", 20.0),
    replace(make_file_result(OURS.name, "quiet", "", "", 30.0), n_tokens=0),
)
RIVAL_FILES = (
    make_file_result(RIVAL.name, "a", "One two three four.", "One two four.", 100.0),
    replace(
        make_file_result(RIVAL.name, "b", "Five six.", " ".join(["six"] * 60), 400.0),
        runaway=True,
    ),
    make_file_result(RIVAL.name, "quiet", "", "Thank you.", 100.0),
)
CACHE = ComparisonRecord(
    "cache",
    {"model": "micro", "steps": 32},
    (
        {"decoder": "fixed", "attention_rows": 1024, "ms": 40.0, "ratio": 8.0},
        {"decoder": "growing", "attention_rows": 528, "ms": 20.0, "ratio": 4.0},
        {"decoder": "cached", "attention_rows": 32, "ms": 5.0, "ratio": 1.0},
    ),
)
RUN = RunRecords(HEADER, (OURS, RIVAL), OURS_FILES + RIVAL_FILES, (CACHE,))
