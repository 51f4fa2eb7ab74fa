"""What the speed comparison is made of: weights, cases, keys, agreement, bytes of a step."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import TOY, TOY_FFN
from tests.unit.lab.harness.test_processes import STANDIN
from tests.unit.lab.small_run import HEADER
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.files import CACHE_VARIABLE
from whisper_hailo_lab.data.datasets import Dataset, Sample
from whisper_hailo_lab.formats.prepare import Artefact
from whisper_hailo_lab.harness import evaluate as harness
from whisper_hailo_lab.runs.records import Case, CaseRecord, FileResult, RunRecords
from whisper_hailo_lab.speed import keys, parts, plan, run
from whisper_hailo_lab.speed.floor import readers
from whisper_hailo_lab.speed.parts import agreement
from whisper_hailo_lab.speed.run import SpeedPlan
from whisper_hailo_lab.speed.weights import random_arrays, random_checkpoint
from whisper_hailo_lab.systems import process


def test_random_weights_never_end() -> None:
    arrays = random_arrays(TOY, TOY_FFN, 10)
    table = arrays["model.decoder.embed_tokens.weight"]
    assert not table[10:].any()
    assert table[:10].all(axis=1).any()
    again = random_arrays(TOY, TOY_FFN, 10)
    assert all(np.array_equal(array, again[name]) for name, array in arrays.items())


def test_sizes_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="size is 'huge', expected one of: tiny, base"):
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
    assert list(run._accuracy(limited, lambda done, total, what: None)) == []
    assert may_measure[:2] == [True, True]
    assert not any(may_measure[2:])
    assert len(may_measure) > 2


def test_a_plan_that_takes_what_is_kept_is_over() -> None:
    whole = SpeedPlan(Path("out"), Path("clips"))
    assert not whole.over
    assert whole.only_kept().over
