from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo.core.types import Settings, Timings, Transcript
from whisper_hailo_lab.runs.machine import Machine
from whisper_hailo_lab.timing.one_file import FileTiming, Spread
from whisper_hailo_lab.timing.report_row import COLUMNS, report_table

BOARD = Machine(
    cpu="Cortex-A76",
    n_cpus=4,
    memory_gib=8,
    architecture="aarch64",
    board="Raspberry Pi 5 | Rev 1.0",
    accelerator="/dev/hailo0",
)
SETTINGS = Settings(
    model="base",
    encoder="onnx-int8",
    decoder="cached-int8",
    window_s=20.0,
    margin_s=0.0,
    pad_to=0,
    repetition_penalty=1.0,
    eot_boost=0.0,
    quantization="int8",
    threads=4,
)
TRANSCRIPT = Transcript(
    audio="jfk.flac",
    duration_s=30.0,
    language="en",
    task="transcribe",
    segments=(),
    timings=Timings(),
    settings=SETTINGS,
)
TIMING = FileTiming(
    transcript=TRANSCRIPT,
    iterations=1,
    stages_ms={"total": Spread.of([1500.0, 2000.0, 9000.0])},
    processor_ms=Spread.of([5000.0, 6000.0, 6500.0]),
    token_ms=(),
    memory={},
    peak_mib=249.6,
    temperature_c=(),
    machine=BOARD,
)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n ").split("|")]


def test_report_table_has_medians_a_minute() -> None:
    heading, rule, row = report_table(TIMING, ["NEON", "float16"]).splitlines()
    assert tuple(_cells(heading)) == COLUMNS
    assert len(_cells(rule)) == len(COLUMNS)
    cells = dict(zip(COLUMNS, _cells(row), strict=True))
    assert cells["processor s a minute"] == "12.0"
    assert cells["seconds a minute"] == "4.0"
    assert cells["peak MiB"] == "250"
    assert cells["model"] == "base, int8"
    assert cells["instruction sets"] == "NEON, float16"
    for part in ("Raspberry Pi 5", "Cortex-A76", "4 cores", "hailo0"):
        assert part in cells["processor"]


@pytest.mark.parametrize(("threads", "expected"), [(0, "automatic"), (2, "2")])
def test_report_table_names_the_threads(threads: int, expected: str) -> None:
    settings = replace(SETTINGS, threads=threads)
    timing = replace(TIMING, transcript=replace(TRANSCRIPT, settings=settings))
    row = report_table(timing, []).splitlines()[-1]
    assert dict(zip(COLUMNS, _cells(row), strict=True))["threads"] == expected
