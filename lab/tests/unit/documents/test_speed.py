"""Figures and tables of the speed comparison, from a run that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.tests.unit.small_run import HEADER
from whisper_hailo_lab.documents.speed import (
    BASE,
    GROUP,
    SpeedRun,
    draw_speed_chart,
    hash_run,
    make_tables,
)
from whisper_hailo_lab.runs.records import (
    CaseMemory,
    CaseRecord,
    ComparisonRecord,
    FileResult,
    RunRecords,
)

RIVAL = "faster-whisper INT8"
STEPPED_RIVAL = "CTranslate2 INT8, 10 s"


def make_case(label: str) -> CaseRecord:
    return CaseRecord(
        f"{GROUP}: {label}", "ours", "forced", "tiny", 1,
        group=GROUP, memory=CaseMemory(peak=100.0),
    )  # fmt: skip


def make_rounds(label: str, *work_ms: float) -> tuple[FileResult, ...]:
    """Return rounds with 5 ms of log-mel before the work, half of which is the encoder's."""
    return tuple(
        FileResult(
            f"{GROUP}: {label}", f"round-{i}", "en", 10.0, "", "text",
            {"mel": 5.0, "encode": ms / 2, "cross_kv": ms / 8, "decode": 3 * ms / 8},
            ms + 5.0, ms / 1000, 28,
        )
        for i, ms in enumerate(work_ms)
    )  # fmt: skip


WORK_MS: dict[str, tuple[float, ...]] = {
    BASE: (10.0, 20.0, 30.0),
    RIVAL: (80.0, 160.0, 210.0),
    STEPPED_RIVAL: (30.0, 30.0, 30.0),
    f"{BASE}, 8 tokens": (8.0, 16.0, 24.0),
    f"{STEPPED_RIVAL}, 8 tokens": (10.0, 14.0, 18.0),
    f"{BASE}, unpadded": (10.0, 16.0, 30.0),
}
PARTS = (
    ComparisonRecord("speed-start", {}, (
        {"size": "tiny", "label": "faster-whisper", "ms": 1400.0, "least_ms": 1300.0,
         "cpu_ms": 900.0, "peak_mib": 250.0},
    )),
    ComparisonRecord("speed-floor", {}, (
        {"decoder": "int4", "bytes": {"weights": 9 << 20, "cross": 1 << 20},
         "step_ms": 2.0, "cpu_ms": 1.9, "floor_ms": 1.0, "gb_per_s": 10.5, "ratio": 2.0},
    )),
    ComparisonRecord("speed-batch", {}, (
        {"model": "tiny", "decoder": "int8", "one_ms": 300.0, "batch_ms": 100.0, "ratio": 3.0,
         "whole_ratio": 1.4, "same_text": True},
        {"model": "tiny", "decoder": "int4", "one_ms": 300.0, "batch_ms": 100.0, "ratio": 3.0,
         "whole_ratio": 1.4, "same_text": False},
    )),
    ComparisonRecord("speed-accuracy", {}, (
        {"case": BASE, "weights": {"model.safetensors": "cd34"}, "wer": 0.054,
         "interval": [0.0, 0.1], "tokens_equal": 90, "tokens_all": 100},
    )),
)  # fmt: skip
RUN = RunRecords(
    HEADER,
    tuple(make_case(label) for label in WORK_MS),
    tuple(
        record for label, ms in WORK_MS.items() for record in make_rounds(label, *ms)
    ),
    PARTS,
)
SPEED = SpeedRun(RUN)


def table_text(name: str, run: RunRecords = RUN, weights: str = "cd34") -> str:
    return make_tables(run, weights)[f"speed-{name}"]


def test_ratios_are_of_the_rounds_that_both_have() -> None:
    assert SPEED.ratios(RIVAL, "work") == [8.0, 8.0, 7.0]
    assert SPEED.ratios(STEPPED_RIVAL, "work") == [3.0, 1.5, 1.0]
    failed = FileResult(f"{GROUP}: {BASE}", "round-9", error="no")
    more = SpeedRun(replace(RUN, files=(*RUN.files, failed)))
    assert more.ratios(RIVAL, "work") == [8.0, 8.0, 7.0]


def test_median_of_work_leaves_the_log_mel_out() -> None:
    assert SPEED.median_ms(BASE, "work") == 20.0
    assert SPEED.median_ms(BASE, "decoder") == 10.0
    assert SPEED.median_ms(BASE, "cpu") == 20.0


def test_step_is_a_twentieth_of_twenty_more_tokens() -> None:
    assert SPEED.step_ms(BASE, "work") == pytest.approx(0.2)  # of 0.1, 0.2, 0.3
    assert SPEED.step_ms(STEPPED_RIVAL, "work") == pytest.approx(0.8)
    assert SPEED.step_ms(RIVAL, "work") is None


def test_case_table_has_times_ratios_and_word_errors() -> None:
    lines = table_text(GROUP).splitlines()
    assert lines[0].startswith("2026-01-02, Test CPU, 2 CPUs")
    assert (
        f"| {RIVAL} | 80.0 | 20.0 | 60.0 | 160.0 | 8.00 | 7.50-8.00 | 160.0 | 8.00 | 100 | - | - "
        "| - |"
    ) in lines
    ours = next(line for line in lines if line.startswith(f"| {BASE}"))
    assert ours.endswith("| 5.4 % | 0.0-10.0 % | 90.0 % |")
    assert "unpadded" not in table_text(GROUP)


def test_other_tables_have_a_line_for_each_row() -> None:
    steps = table_text("steps")
    assert f"| {STEPPED_RIVAL} | 0.80 | 0.80 | - | - | - | - | - |" in steps
    assert (
        "| ours, int4, in one process | 2.00 | 1.90 | 1.00 | 2.00 | 1.90 | 10.0 | 10.5 |"
        in steps
    )
    assert "| tiny | faster-whisper | 1400 | 1300 | 900 | 250 |" in table_text("start")
    batch = table_text("batch")
    assert "| tiny | int8 | 300 | 100 | 3.00 | 1.40 | same text |" in batch
    assert "| tiny | int4 | 300 | 100 | 3.00 | 1.40 | another text |" in batch


def test_case_table_has_the_reason_of_a_failure() -> None:
    broken = replace(make_case("the study"), error="no such export")
    run = replace(RUN, cases=(*RUN.cases, broken))
    assert "| the study: no such export | - |" in table_text(GROUP, run)


def test_tables_of_other_weights_of_micro_say_so() -> None:
    micro = replace(
        make_case(BASE), model="micro", model_sha256={"model.safetensors": "ef56"}
    )
    mixed = replace(RUN, cases=(*RUN.cases, micro))
    silent = replace(RUN, comparisons=())
    others: list[tuple[Any, str]] = [(RUN, "ef56"), (mixed, "cd34"), (silent, "cd34")]
    for name in (GROUP, "start", "batch"):
        assert "; other weights" not in table_text(name)
        for run, present in others:
            first, *_ = table_text(name, run, present).splitlines()
            assert first.endswith("; other weights than the present ones.")
    assert "; other weights" not in table_text("steps", RUN, "ef56"), (
        "its weights are random"
    )


@pytest.mark.slow
def test_speed_chart_carries_the_hash_of_its_run() -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra bench")
    svg = draw_speed_chart(RUN)
    assert hash_run(RUN) in svg
    slower = tuple(replace(file, total_ms=2 * file.total_ms) for file in RUN.files)
    other = replace(RUN, files=slower)
    assert hash_run(other) != hash_run(RUN)
    assert draw_speed_chart(other).partition("\n")[2] != svg.partition("\n")[2]
