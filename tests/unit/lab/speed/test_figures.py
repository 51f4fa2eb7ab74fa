"""Figures, targets and tables of the speed comparison, from a run that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.lab.speed.small_run import BATCH, GROUP, RUN, case, rounds
from whisper_hailo_lab.documents.speed.tables import chart_svg, report_text, run_mark, tables
from whisper_hailo_lab.documents.speed.targets import Speed, Target, sameness, targets
from whisper_hailo_lab.runs.records import FileResult, RunRecords
from whisper_hailo_lab.speed import plan

SPEED = Speed(RUN)


def found(what: str, run: RunRecords = RUN) -> Target:
    return next(t for t in targets(Speed(run)) if t.what.startswith(what))


def test_ratios_are_medians_over_common_rounds() -> None:
    assert SPEED.ratio(GROUP, plan.FASTER_WHISPER, plan.INT8_INT8) == 8.0  # of 8, 8, 7
    assert SPEED.ratio(GROUP, plan.CTRANSLATE2, plan.INT8_INT8) == 1.5  # of 3, 1.5, 1
    assert SPEED.median(GROUP, plan.INT8_INT8, "work") == 20.0  # the log-mel is not in it
    assert SPEED.median(GROUP, plan.INT8_INT8, "decoder") == 10.0
    assert SPEED.median(GROUP, plan.INT8_INT8, "cpu") == 20.0
    failed = FileResult(f"{GROUP}: {plan.INT8_INT8}", "round-9", error="no")
    assert Speed(replace(RUN, files=(*RUN.files, failed))).ratio(
        GROUP, plan.FASTER_WHISPER, plan.INT8_INT8
    ) == pytest.approx(8.0)


def test_a_step_is_what_twenty_more_tokens_cost() -> None:
    assert SPEED.step_ms(GROUP, plan.INT8_INT8) == pytest.approx(0.2)  # of 0.1, 0.2, 0.3
    assert SPEED.step_ms(GROUP, plan.CTRANSLATE2) == pytest.approx(0.8)
    assert SPEED.step_ratio(GROUP, plan.CTRANSLATE2, plan.INT8_INT8) == pytest.approx(4.0)
    assert SPEED.step_ms(GROUP, plan.FASTER_WHISPER) is None


@pytest.mark.parametrize(
    ("what", "measured", "verdict"),
    [
        (plan.FASTER_WHISPER, 8.0, "met"),
        (plan.CTRANSLATE2, 1.5, "not met"),
        (plan.STUDY, None, "-"),
        ("decoder step against its floor, int4", 2.0, "not met"),
        ("start with micro", 500.0, "met"),
        ("start with tiny's dimensions", 2.0, "met"),
        ("peak memory, tiny's dimensions", 200.0, "not met"),
        ("peak memory, faster-whisper's", 200.0, "met"),
        ("8 windows in a batch", 3.0, "met"),
    ],
)
def test_targets(what: str, measured: float | None, verdict: str) -> None:
    target = found(what)
    assert (target.measured, target.verdict) == (measured, verdict)


def test_targets_of_accuracy_and_padding() -> None:
    lost = found(f"WER lost by {plan.INT8_INT8}")
    assert lost.measured == pytest.approx(0.4)
    assert lost.verdict == "not met"
    assert found(f"WER lost by {plan.FLOAT_INT8}").verdict == "met"
    padding = [t for t in targets(SPEED) if t.what == "free padding against none"][1]
    assert padding.measured == 1.0  # of 1, 1.25, 1
    assert "WER +0.4 points" in found(plan.FASTER_WHISPER).note


def test_verdicts_follow_the_measurement() -> None:
    slower = rounds(plan.FASTER_WHISPER, 60.0, 60.0, 60.0)
    kept = tuple(f for f in RUN.files if f.case != slower[0].case)
    assert found(plan.FASTER_WHISPER, replace(RUN, files=kept + slower)).verdict == "not met"
    assert found("8 windows", replace(RUN, comparisons=(BATCH,))).verdict == "met"
    assert not [t for t in targets(Speed(RunRecords(RUN.header))) if t.verdict != "-"]


def block(name: str, run: RunRecords = RUN, weights: str = "cd34") -> str:
    return tables(run, weights)[f"speed-{name}"]


def test_tables() -> None:
    text = block(GROUP)
    assert text.startswith("2026-01-02, Test CPU, 2 CPUs")
    row = next(line for line in text.splitlines() if line.startswith(f"| {plan.FASTER_WHISPER}"))
    assert row == (
        f"| {plan.FASTER_WHISPER} | 80.0 | 20.0 | 60.0 | 160.0 | 8.00 | 7.50-8.00 | 160.0 | "
        "8.00 | 100 | - | - | - |"
    )
    mine = next(line for line in text.splitlines() if line.startswith(f"| {plan.INT8_INT8}"))
    assert mine.endswith("| 5.4 % | 0.0-10.0 % | 90.0 % |")
    assert plan.UNPADDED not in text
    assert "2.00" in block("steps")
    assert "| tiny | faster-whisper | 1400 | 1300 | 900 | 250 |" in block("start")
    assert "| tiny | int8 | 300 | 100 | 3.00 | 1.40 | same text |" in block("batch")
    assert "Not measured in this run." in block("base-2")
    assert report_text(RUN).count(plan.FASTER_WHISPER) >= 2


def test_a_case_that_failed_says_why() -> None:
    broken = replace(case(plan.STUDY), error="no such export")
    run = replace(RUN, cases=(*RUN.cases, broken))
    assert f"| {plan.STUDY}: no such export | - |" in block(GROUP, run)


def test_tables_that_tell_of_micro_say_when_it_was_another() -> None:
    origin = "2026-01-02, Test CPU, 2 CPUs, 8 GiB, x86_64"
    micro = replace(case(plan.INT8_INT8), model="micro", model_sha256={"model.safetensors": "ef56"})
    mixed = replace(RUN, cases=(*RUN.cases, micro))
    silent = replace(RUN, comparisons=())
    for name in (GROUP, "targets", "accuracy", "start", "batch"):
        assert block(name).startswith(f"{origin}.")
        for run, present in ((RUN, "ef56"), (mixed, "cd34"), (mixed, "ef56"), (silent, "cd34")):
            text = block(name, run, present)
            assert text.startswith(f"{origin}; other weights than the present ones.")
    assert block("steps", RUN, "ef56").startswith(f"{origin}."), "its weights are random"


@pytest.mark.slow
def test_the_chart_shows_its_run() -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra bench")
    svg = chart_svg(RUN)
    assert run_mark(RUN) in svg
    other = replace(RUN, files=tuple(replace(f, total_ms=2 * f.total_ms) for f in RUN.files))
    assert run_mark(other) != run_mark(RUN)
    _, picture = svg.split("\n", maxsplit=1)
    _, other_picture = chart_svg(other).split("\n", maxsplit=1)
    assert picture != other_picture


def test_on_a_busy_machine_processor_time_decides() -> None:
    free = found("start with tiny's dimensions")
    assert (free.measured, free.by_cpu, free.decides) == (2.0, 1.5, 2.0)
    slow = tuple(replace(f, total_ms=3 * f.total_ms) for f in RUN.files)
    assert Speed(replace(RUN, files=slow)).busy
    busy = found("start with tiny's dimensions", replace(RUN, files=slow))
    assert busy.decides == 1.5
    assert found("8 windows", replace(RUN, files=slow)).decides == 3.0


def test_sameness_of_a_batch_names_another_text() -> None:
    assert sameness({"same_text": False}) == "another text"
    assert sameness({"same_text": True}) == "same text"
