"""Figures, targets and tables of the speed comparison, from a run that can be checked by hand."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.tests.unit.harness.test_processes import STANDIN
from lab.tests.unit.small_run import HEADER
from lab.tests.unit.speed.small_run import BATCH, GROUP, RUN, case, rounds
from tests.checkpoints import TOY, TOY_FFN
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.paths import CACHE_VARIABLE
from whisper_hailo_lab.data.datasets import Dataset, Sample
from whisper_hailo_lab.documents.speed.tables import chart_svg, report_text, run_mark, tables
from whisper_hailo_lab.documents.speed.targets import Speed, Target, sameness, targets
from whisper_hailo_lab.formats.prepare import Artefact
from whisper_hailo_lab.harness import evaluate as harness
from whisper_hailo_lab.runs.records import Case, CaseRecord, FileResult, RunRecords
from whisper_hailo_lab.speed import keys, parts, plan, run
from whisper_hailo_lab.speed.floor import readers
from whisper_hailo_lab.speed.parts import agreement
from whisper_hailo_lab.speed.run import SpeedPlan
from whisper_hailo_lab.speed.weights import random_arrays, random_checkpoint
from whisper_hailo_lab.systems import process

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
        for records, present in ((RUN, "ef56"), (mixed, "cd34"), (mixed, "ef56"), (silent, "cd34")):
            text = block(name, records, present)
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


def test_random_weights_never_end() -> None:
    arrays = random_arrays(TOY, TOY_FFN, 10)
    table = arrays["model.decoder.embed_tokens.weight"]
    assert not table[10:].any()
    assert table[:10].all(axis=1).any()
    again = random_arrays(TOY, TOY_FFN, 10)
    assert all(np.array_equal(array, again[name]) for name, array in arrays.items())


def test_sizes_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="huge"):
        random_checkpoint("huge", tmp_path / "huge")


def test_a_random_checkpoint_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisper_hailo_lab.speed.weights.SIZES", {"toy": (64, 1, 1)})
    made = random_checkpoint("toy", tmp_path / "toy")
    opened = Checkpoint(made)
    assert (opened.config.dims.d_model, opened.config.dims.n_vocab) == (64, 51865)
    assert "alignment_heads" not in json.loads((made / "generation_config.json").read_text())
    before = (made / "model.safetensors").stat().st_mtime_ns
    assert random_checkpoint("toy", made) == made
    assert (made / "model.safetensors").stat().st_mtime_ns == before


def test_groups() -> None:
    tiny = plan.group("tiny", "there", 1, 3)
    labels = [plan.label_of(case.name) for case in tiny.cases]
    assert {*plan.OURS, *plan.RIVALS} < set(labels)
    assert {case.row for case in tiny.cases} == {"forced"}
    by_label = dict(zip(labels, tiny.cases, strict=True))
    assert by_label[plan.few(plan.CTRANSLATE2)].budget == 8
    assert by_label[plan.CTRANSLATE2].budget == 28
    assert by_label[f"{plan.INT8_INT4}, {plan.UNPADDED}"].settings["pad_to"] == 0
    micro = plan.group("micro", "micro", 2, 3)
    assert {(case.row, case.threads) for case in micro.cases} == {("matched", 2)}
    assert plan.ONNX_ASR in {plan.label_of(case.name) for case in micro.cases}
    assert plan.ONNX_ASR not in labels
    assert len({case.name for case in (*tiny.cases, *micro.cases)}) == len(labels) + len(
        micro.cases
    )


def test_a_large_group_is_measured_where_it_is_named() -> None:
    assert plan.sizes_of((), quick=False) == plan.FULL
    assert plan.sizes_of(("small-1",), quick=False) == plan.FULL | {("small", 1): 5}
    assert plan.sizes_of((), quick=True) == plan.QUICK


def test_keys_follow_cases_weights_and_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, rival = Case("a", "ours"), Case("b", "whisper-cpp")
    key = keys.cases_key([ours], {"w": "1"})
    assert key == keys.cases_key([ours], {"w": "1"})
    assert key != keys.cases_key([ours], {"w": "2"})
    assert key != keys.cases_key([replace(ours, settings={"quantize": "int8"})], {"w": "1"})
    theirs = keys.cases_key([rival], {"w": "1"})
    monkeypatch.setattr(keys, "engine_key", lambda: {"source": "another"})
    assert key != keys.cases_key([ours], {"w": "1"})
    assert theirs == keys.cases_key([rival], {"w": "1"})


def test_a_run_is_whole_when_every_case_is_over() -> None:
    over = CaseRecord("a", "ours", "forced", "tiny", 1)
    run = RunRecords(HEADER, (over,), (FileResult("b", "1"),))
    assert parts.is_whole(run, ["a"])
    assert not parts.is_whole(run, ["a", "b"])


def test_agreement_counts_equal_tokens_in_order() -> None:
    score = agreement([((1, 2, 3, 4), (1, 9, 3, 4)), ((), (5,)), ((7,), (7,))])
    assert (score.hits, score.errors) == (4, 2)


def test_readers_read_everything() -> None:
    bits = 0x3FF0_0000_0000_0000  # of 1.0, whose upper half is 1.875 as a float32
    total = (1000 * bits + 2**63) % 2**64 - 2**63
    assert [read() for read in readers(8000)] == [1000 * 1.875**2, 1000.0, bits, total]


def test_noise_is_the_same_recording_each_round(tmp_path: Path) -> None:
    dataset = parts.noise(tmp_path, 3)
    assert [sample.id for sample in dataset.samples] == ["round-00", "round-01", "round-02"]
    assert len({sample.audio for sample in dataset.samples}) == 1


@pytest.mark.slow
def test_a_group_that_runs_out_of_time_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rounds that were done are kept, and every case has its record."""
    monkeypatch.setattr(process, "command", lambda system: STANDIN)
    monkeypatch.setattr(harness, "artefact", lambda system, model, stored: Artefact("there", {}))
    monkeypatch.setattr(parts, "checkpoint_hashes", lambda model: {"w": "1"})
    cases = tuple(Case(f"g: {name}", "ours", "forced", group="g") for name in "ab")
    group = plan.CaseGroup("g", "tiny", cases, 9)
    steps: list[int] = []
    found = parts.take_turns(
        group, parts.noise(tmp_path, 9), tmp_path,
        lambda done, total, what: steps.append(done), is_over=lambda: True,
    )  # fmt: skip
    assert {case.name for case in found.cases} == {"g: a", "g: b"}
    assert [len(found.files_of(case.name)) for case in cases] == [3, 3]
    kept = parts.kept_run(group, parts.noise(tmp_path, 9), tmp_path)
    assert kept is not None
    assert kept.files == found.files
    assert parts.kept_run(group, parts.noise(tmp_path, 8), tmp_path) is None


def test_models_of_other_code_are_converted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "elsewhere")
    ours, theirs = tmp_path / "models" / "tiny", tmp_path / "rivals" / "tiny"
    keys.use_cache(tmp_path)
    assert os.environ[CACHE_VARIABLE] == str(tmp_path)
    for made in (ours, theirs):
        made.mkdir(parents=True)
    keys.use_cache(tmp_path)
    assert ours.is_dir()
    monkeypatch.setattr(keys, "engine_key", lambda: {"source": "another"})
    keys.use_cache(tmp_path)
    assert not ours.exists()
    assert theirs.is_dir()


def test_measured_processes_keep_what_python_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(process.UNCOMPILED, "1")
    monkeypatch.setenv("KEPT", "1")
    for variables in (process.compiling(), process.variables(1)):
        assert process.UNCOMPILED not in variables
        assert variables["KEPT"] == "1"


def test_accuracy_begins_no_case_when_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the cases fit; of the others, only what is kept is taken."""
    now, may_measure = [0.0], []

    def transcribe(case: Case, dataset: Dataset, out: Path, progress: object) -> list[FileResult]:
        now[0] += 1.0
        may_measure.append(progress is not None)
        return []

    monkeypatch.setattr(run, "monotonic", lambda: now[0])
    monkeypatch.setattr(run.os, "sched_getaffinity", lambda _process: {0})
    monkeypatch.setattr(process, "is_there", lambda _system: True)
    monkeypatch.setattr(parts, "transcribe", transcribe)
    monkeypatch.setattr(
        parts,
        "frozen",
        lambda clips, _count: Dataset("micro", clips, (Sample("a", clips, "hello"),)),
    )
    limited = SpeedPlan(tmp_path, tmp_path, until_s=2.0)
    assert list(run.measure_accuracy(limited, lambda done, total, what: None)) == []
    assert may_measure[:2] == [True, True]
    assert not any(may_measure[2:])
    assert len(may_measure) > 2


def test_a_plan_that_takes_what_is_kept_is_over() -> None:
    whole = SpeedPlan(Path("out"), Path("clips"))
    assert not whole.over
    assert whole.only_kept().over
