"""Real processes and a real protocol, around a system without a model."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.sounds import tone, write
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.data.datasets import Dataset, Problem, Sample
from whisper_hailo_lab.formats.prepare import Artefact
from whisper_hailo_lab.harness import evaluate as harness
from whisper_hailo_lab.harness.evaluate import evaluate_cases, make_cases
from whisper_hailo_lab.runs.records import Case, RunRecords
from whisper_hailo_lab.runs.run_file import read_run
from whisper_hailo_lab.systems import process

pytestmark = pytest.mark.slow

STANDIN = [sys.executable, str(Path(__file__).with_name("standin.py"))]
MATCHED = Case("one", "ours", "matched", language="de")


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "system_command", lambda system: STANDIN)
    monkeypatch.setattr(
        harness,
        "prepare_artefact",
        lambda system, model: Artefact("there", {"w": "12"}),
    )


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Recordings of 1 s and 12 s, a file without audio, and a problem."""
    for name, seconds in (("a", 1.0), ("c", 12.0)):
        write(tmp_path / f"{name}.wav", tone(16_000, seconds))
    (tmp_path / "b.wav").write_bytes(b"no sound")
    samples = tuple(Sample(n, tmp_path / f"{n}.wav", f"text {n}", "de") for n in "bac")
    return Dataset("clips", tmp_path, samples, (Problem("lone", "no recording"),))


def run(dataset: Dataset, *cases: Case, out: Path | None = None) -> RunRecords:
    return evaluate_cases(cases, dataset, out, lambda done, total, what: None)


def test_evaluate_cases_runs_every_file(dataset: Dataset, tmp_path: Path) -> None:
    study_case = Case("study_case", "ours", "study", language="de")
    out = tmp_path / "run.jsonl"
    result = run(dataset, MATCHED, study_case, out=out)
    texts = {(f.case, f.id): f.hypothesis for f in result.files if not f.error}
    assert texts == {
        ("one", "a"): "de 16000 samples",
        ("study_case", "a"): "de 16000 samples",
        ("one", "c"): "de 192000 samples",
        ("study_case", "c"): "de 144000 samples",  # the study used 9 s
    }
    assert result.files_of("one")[-1].duration_s == 12.0
    assert result.files_of("study_case")[-1].duration_s == 9.0
    assert all(f.total_ms > 0 for f in result.files if not f.error)
    saved = read_run(out)
    assert [case.name for case in saved.cases] == ["one", "study_case"]
    assert [f.hypothesis for f in saved.files] == [f.hypothesis for f in result.files]


def test_evaluate_cases_changes_the_order(dataset: Dataset, tmp_path: Path) -> None:
    """A large model leaves the processor's caches to the case that runs next."""
    sound = dataset.samples[1].audio
    rounds = Dataset(
        "rounds", tmp_path, tuple(Sample(str(n), sound, "") for n in range(12))
    )
    cases = [
        Case(name, "ours", "matched", language="de")
        for name in ("one", "study_case", "three")
    ]
    turns, again = ([f.case for f in run(rounds, *cases).files] for _ in range(2))
    assert turns == again
    orders = {tuple(turns[at : at + 3]) for at in range(0, len(turns), 3)}
    assert all(sorted(order) == sorted(case.name for case in cases) for order in orders)
    pairs = {pair for order in orders for pair in pairwise(order)}
    assert len(pairs) == 6, "every case follows every other at some time"


def test_evaluate_cases_records_failed_files(dataset: Dataset) -> None:
    errors = {f.id: f.error for f in run(dataset, MATCHED).files if f.error}
    assert set(errors) == {"b", "lone"}
    assert "b.wav" in errors["b"]
    assert errors["lone"] == "no recording"


def test_evaluate_cases_records_memory_and_versions(dataset: Dataset) -> None:
    (case,) = run(dataset, MATCHED).cases
    assert case.memory.load["encoder"] == pytest.approx(32, abs=4)
    assert case.memory.warm_up["decoder"] == pytest.approx(3 * 8, abs=6)
    assert case.memory.peak >= case.memory.before + 40
    assert len(case.warm_up_ms) == 3  # with the first readable file
    assert case.versions["numpy"] == np.__version__
    assert "no-such-package" not in case.versions
    assert case.model_sha256 == {"w": "12"}
    assert case.heard_as == {"beam": 1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"missing": True}, "weights are not there"),
        ({"dies": True}, "code 9: out of luck"),
    ],
)
def test_evaluate_cases_failed_case_leaves_the_others(
    dataset: Dataset, settings: dict[str, Any], message: str
) -> None:
    result = run(dataset, Case("bad", "ours", settings=settings), MATCHED)
    error = result.cases[0].error
    assert message in error
    assert {f.error for f in result.files_of("bad") if f.id == "c"} == {error}
    assert sum(not f.error for f in result.files_of("one")) == 2
    assert result.cases[1].error == ""


def test_evaluate_cases_error_loses_one_file_only(dataset: Dataset) -> None:
    result = run(dataset, Case("bad", "ours", settings={"fails": True}))
    assert result.cases[0].error == ""
    assert {f.error for f in result.files if f.id in "ac"} == {
        "ZeroDivisionError: by zero"
    }


def test_evaluate_cases_together_runs_in_groups(dataset: Dataset) -> None:
    steps: list[tuple[int, int]] = []
    cases = [Case(str(i), "ours") for i in range(3)]
    result = evaluate_cases(
        cases, dataset, None, lambda done, total, what: steps.append((done, total)), together=2
    )  # fmt: skip
    assert [case.name for case in result.cases] == ["0", "1", "2"]
    assert steps[-1] == (11, 12)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_make_cases_combines_systems_and_rows() -> None:
    cases = make_cases(
        ["ours", "whisper-cpp", "ours"], ["default", "matched"],
        Case("", "ours", model="micro"), {"window_s": 30.0}, {"x": 1},
    )  # fmt: skip
    assert [case.name for case in cases] == [
        "whisper-hailo, default", "whisper-hailo, matched",
        "whisper.cpp, default", "whisper.cpp, matched",
    ]  # fmt: skip
    assert cases[0].settings == {"x": 1, "window_s": 30.0}
    assert cases[2].settings == {"x": 1}
    with pytest.raises(OptionError, match="ours, faster-whisper"):
        make_cases(["theirs"], ["default"], Case("", "ours"), {}, {})
    with pytest.raises(OptionError, match="--row is 'best'"):
        make_cases(["ours"], ["best"], Case("", "ours"), {}, {})


def test_case_rows_set_greedy_and_budget() -> None:
    default, matched, study = (
        Case("x", "ours", row) for row in ("default", "matched", "study")
    )  # type: ignore[arg-type]
    assert not default.greedy
    assert matched.greedy
    assert study.greedy
    assert matched.crop_s is None
    assert matched.budget is None
    assert study.crop_s == 9.0
    assert study.budget == 28
