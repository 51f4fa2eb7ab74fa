"""What the commands around the Hailo compiler ask for, and what they print."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import Asked
from whisper_hailo.cli.app import run
from whisper_hailo.core.spec import HefRecord
from whisper_hailo_tools.check.graph import Section
from whisper_hailo_tools.check.report import Report
from whisper_hailo_tools.check.rules import Finding, Severity
from whisper_hailo_tools.compile import Hef
from whisper_hailo_tools.difference import Difference
from whisper_hailo_tools.emulate.make import Emulation, LayerNoise, Noise
from whisper_hailo_tools.emulate.rewrite import PrecisionPlan
from whisper_hailo_tools.options import (
    CalibrationOptions,
    CalibrationSet,
    CompileOptions,
    EmulateOptions,
    ValidateOptions,
)
from whisper_hailo_tools.validate.stage_checks import (
    Agreement,
    FormResult,
    LayerResult,
    Limit,
)
from whisper_hailo_tools.validate.validate import ParityReport

TOOLS = "whisper_hailo_tools"
VALIDATE = "whisper_hailo_tools.validate.validate"
FAR = Difference(0.25, 0.0125, 0.1, 0.987654321, 12.34, 23.45)
SAME = Difference(0.0, 0.0, 0.0, 1.0, math.inf, math.inf)
STRICT = Limit(80.0)


def read_output(capsys: pytest.CaptureFixture[str], words: str, code: int = 0) -> str:
    """Standard output of a command that ends with a code."""
    assert run(words.split()) == code
    return capsys.readouterr().out


def calibration(n_windows: int, n_speakers: int, **skipped: str) -> CalibrationSet:
    set_paths = Path("set.npy"), Path("set.json")
    return CalibrationSet(
        *set_paths, n_windows, 64, 7, n_speakers, skipped, resumed=True
    )


@pytest.mark.parametrize(
    ("calibration_set", "parts"),
    [
        (calibration(64, 1), ["64 windows", "7 recordings", "1 speaker"]),
        (
            calibration(63, 2, a="why", b="why"),
            ["63 windows", "2 speakers", "64 were requested", "2 recordings could not"],
        ),
    ],
)
def test_calibrate_prints_the_set(
    calibration_set: CalibrationSet,
    parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded_calls = Asked(calibration_set).patched(
        monkeypatch, f"{TOOLS}.calibrate.make.calibrate"
    )
    words = "calibrate model --audio talks --out there --part decoder --count 64 --seed 3 -l de"
    line = read_output(capsys, words)
    assert line.startswith("set.npy")
    assert [part for part in parts if part not in line] == []
    assert ("requested" in line) is (calibration_set.n_windows < 64)
    options = CalibrationOptions("decoder", 64, 3, "de")
    assert recorded_calls.with_ == [
        (Path("model"), Path("talks"), Path("there"), options)
    ]
    facts = json.loads(read_output(capsys, f"{words} --json"))
    assert facts == {
        "path": "set.npy",
        "manifest": "set.json",
        "n_windows": calibration_set.n_windows,
        "n_wanted": 64,
        "n_files": 7,
        "n_speakers": calibration_set.n_speakers,
        "skipped": calibration_set.skipped,
        "resumed": True,
    }


def finding(
    rule: str, severity: Severity, node: str, operator: str = "", source: str = "x"
) -> Any:
    return Finding(
        rule, severity, node, operator, f"{rule} was got", f"mend {rule}", source
    )


def report(*findings: Finding, recorded: bool = False) -> Report:
    section = Section((0, 2), ("a", "b"), ("y", "z"), ("in",), (), (), frozenset())
    return Report(
        Path("g.onnx"),
        "hailo8",
        17,
        8,
        section,
        recorded,
        {"in": "(1, 80, 1000)"},
        {"in": "(1, 1, 1000, 80)"},
        5,
        {"Conv": 2, "Mul": 3},
        2_500_000,
        findings,
    )


def test_check_prints_findings_by_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings of one kind are one line, which names three nodes; sources are numbered."""
    blocks = Severity.BLOCKS
    note = Severity.NOTE
    many = [finding("gather", blocks, f"n{at}", "Gather", "guide") for at in range(5)]
    three = [finding("old", note, name, source="log") for name in ("i", "", "k")]
    check_report = report(*many, *three, finding("odd", note, "m", source="guide"))
    recorded_calls = Asked(check_report).patched(
        monkeypatch, f"{TOOLS}.check.report.check_file"
    )
    words = "check g.onnx --arch hailo8 --start a --start b --end y"
    lines = read_output(capsys, words, 4).splitlines()
    for line, parts in zip(
        lines,
        [
            ("g.onnx", "hailo8", "blocked"),
            (
                "[gather] n0 (Gather), n1 (Gather), n2 (Gather) and 2 more",
                "mend gather (1)",
            ),
            ("[old] i, graph, k", "mend old (2)"),
            ("[odd] m", "mend odd (1)"),
            ("a, b to y, z",),
            ("(1, 80, 1000)", "(1, 1, 1000, 80)"),
            ("2 of 5 nodes", "17", "Conv 2, Mul 3"),
            ("2.50 million", "1.25 at 4", "2.50 at 8", "5.00 at 16"),
            ("(1) guide",),
            ("(2) log",),
        ],
        strict=True,
    ):
        assert [part for part in parts if part not in line] == []
    assert recorded_calls.with_ == [(Path("g.onnx"), "hailo8", ["a", "b"], ["y"])]
    assert json.loads(read_output(capsys, f"{words} --json", 4)) == json.loads(
        json.dumps(check_report.to_dict())
    )


def test_check_of_clean_graph_prints_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_calls = Asked(report(recorded=True)).patched(
        monkeypatch, f"{TOOLS}.check.report.check_file"
    )
    lines = read_output(capsys, "check g.onnx --arch hailo8").splitlines()
    assert "nothing" in lines[0]
    assert "model.json" in lines[1]
    assert lines[-1].endswith("5.00 at 16")
    assert recorded_calls.with_ == [(Path("g.onnx"), "hailo8", (), ())]


RECORD = HefRecord(
    "encoder",
    "hailo8",
    "e.hef",
    3 << 19,
    "a",
    "b",
    "c",
    "d",
    "3.33.0",
    {"conv1": 12.25, "conv2": 30.0},
    4,
)


BARE = HefRecord("encoder", "hailo8", "e.hef", 3 << 19, "a", "b", "c", "d", "3.33.0")


BUILD = "compile model --arch hailo8 --part encoder --calibration set.npy"


@pytest.fixture
def predictions(monkeypatch: pytest.MonkeyPatch) -> list[CompileOptions]:
    """What a prediction of words was asked for; all of them are kept."""
    recorded_calls: list[CompileOptions] = []
    monkeypatch.setattr(
        f"{TOOLS}.emulate.make.require_words",
        lambda _, options: recorded_calls.append(options),
    )
    return recorded_calls


def test_compile_predicts_words_unless_forced(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    predictions: list[CompileOptions],
) -> None:
    Asked(Hef(Path("e.hef"), RECORD, recorded=True)).patched(
        monkeypatch, f"{TOOLS}.compile.compile_part"
    )
    read_output(capsys, f"{BUILD} --force")
    assert predictions == []
    read_output(capsys, BUILD)
    assert [options.part for options in predictions] == ["encoder"]


@pytest.mark.usefixtures("predictions")
def test_compile_prints_the_hef(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_calls = Asked(Hef(Path("e.hef"), RECORD, recorded=True))
    recorded_calls.patched(monkeypatch, f"{TOOLS}.compile.compile_part")
    line = read_output(capsys, BUILD)
    facts = "e.hef, 1.5 MiB, hailo8, 3.33.0, 4 contexts, conv1 SNR 12.25 dB, conv2 SNR 30 dB"
    assert [fact for fact in facts.split(", ") if fact not in line] == []
    options = CompileOptions("hailo8", "encoder", Path("set.npy"))
    assert recorded_calls.with_ == [(Path("model"), options)]
    facts = json.loads(read_output(capsys, f"{BUILD} --json"))
    assert facts["path"] == "e.hef"
    assert facts["recorded"]
    assert facts["contexts"] == 4
    assert facts["snr_db"] == RECORD.snr_db
    Asked(Hef(Path("e.hef"), BARE, recorded=False)).patched(
        monkeypatch, f"{TOOLS}.compile.compile_part"
    )
    assert "outside the model" in read_output(capsys, BUILD)


@pytest.mark.usefixtures("predictions")
def test_compile_bundle_prints_next_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    packed: list[Any] = []

    def pack(directory: Path, options: CompileOptions, bundle: Path) -> None:
        packed.append((directory, options))
        bundle.write_bytes(bytes(3 << 19))

    monkeypatch.setattr(f"{TOOLS}.compile.write_bundle", pack)
    monkeypatch.setattr(
        f"{TOOLS}.compile.compile_part", lambda *_: pytest.fail("it was built")
    )
    monkeypatch.chdir(tmp_path)
    words = f"{BUILD} --bundle b.zip"
    line = read_output(capsys, words)
    assert line.startswith("b.zip: 1.5 MiB. ")
    assert "unzip b.zip -d build && python3 build/build.py" in line
    last = (
        "whisper-hailo compile model --arch hailo8 --part encoder --built build/out\n"
    )
    assert line.endswith(last)
    facts = json.loads(read_output(capsys, f"{words} --json"))
    assert facts == {"bundle": "b.zip", "bytes": 3 << 19}
    assert (
        packed
        == [(Path("model"), CompileOptions("hailo8", "encoder", Path("set.npy")))] * 2
    )


def test_compile_built_adopts_the_hef(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_calls = Asked(Hef(Path("e.hef"), BARE, recorded=True))
    recorded_calls.patched(monkeypatch, f"{TOOLS}.compile.adopt_hef")
    monkeypatch.setattr(
        f"{TOOLS}.compile.compile_part", lambda *_: pytest.fail("it was built")
    )
    words = "compile model --arch hailo8 --part encoder --built out"
    assert read_output(capsys, words).startswith("e.hef: 1.5 MiB")
    assert json.loads(read_output(capsys, f"{words} --json"))["path"] == "e.hef"
    assert (
        recorded_calls.with_ == [(Path("model"), "hailo8", "encoder", Path("out"))] * 2
    )
    for options in (
        "--bundle b.zip",
        "--calibration set.npy",
        "--optimization-level 2",
    ):
        assert run([*words.split(), *options.split()]) == 2
        assert "--built" in capsys.readouterr().err
    assert len(recorded_calls.with_) == 2


@pytest.mark.parametrize(
    ("part", "reason"), [("--part decoder", "decoder"), ("", "PART")]
)
def test_compile_without_calibration_asks_for_speech(
    part: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compile", "model", "--arch", "hailo8", *part.split()]) == 2
    line = capsys.readouterr().err
    assert f"--part {reason}\n" in line


def noise(name: str, snr_db: float) -> LayerNoise:
    return LayerNoise(name, f"{name}-out", snr_db, 0.99875)


LAYERS = tuple(
    noise(f"l{at}", float(snr)) for at, snr in enumerate((30, 7, 50, 9, 40, 8))
)


EMULATED = Emulation(
    Path("e.onnx"),
    Path("e.json"),
    PrecisionPlan("adds16", ignored=("quant(a)", "quant(b)", "x()")),
    Noise(LAYERS, (noise("end", math.inf),), 16),
    64,
    held_out=True,
)


def test_emulate_prints_the_noisiest_layers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The five noisiest layers, the worst first."""
    recorded_calls = Asked(EMULATED).patched(
        monkeypatch, f"{TOOLS}.emulate.make.emulate_part"
    )
    words = "emulate model --part decoder --plan adds16 --audio talks --count 64"
    lines = read_output(capsys, words).splitlines()
    for part in ("e.onnx", "adds16", "64 windows", "16 "):
        assert part in lines[0]
    pattern = r"^ +(\w+) \(\w+-out\).* ([\w.]+) dB"
    assert re.findall(pattern, "\n".join(lines), re.MULTILINE) == [
        ("end", "inf"),
        ("l1", "7.0"),
        ("l5", "8.0"),
        ("l3", "9.0"),
        ("l0", "30.0"),
        ("l4", "40.0"),
    ]
    assert lines[-2].endswith("e.json")
    assert lines[-1].endswith("quant, x")
    options = EmulateOptions("decoder", "adds16", audio=Path("talks"))
    assert recorded_calls.with_ == [(Path("model"), options)]
    facts = json.loads(read_output(capsys, f"{words} --json"))
    end = {"layer": "end", "tensor": "end-out", "snr_db": None, "cosine": 0.99875}
    assert facts.pop("outputs") == [end]
    assert [layer["snr_db"] for layer in facts.pop("layers")] == [30, 7, 50, 9, 40, 8]
    assert facts == {
        "path": "e.onnx",
        "record": "e.json",
        "plan": "adds16",
        "calibration_windows": 64,
        "noise_windows": 16,
        "held_out": True,
    }


def test_emulate_of_one_window_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = Emulation(
        Path("e.onnx"),
        Path("e.json"),
        PrecisionPlan("all8"),
        Noise((), (), 1),
        1,
        held_out=False,
    )
    Asked(alone).patched(monkeypatch, f"{TOOLS}.emulate.make.emulate_part")
    lines = read_output(capsys, "emulate model --audio talks").splitlines()
    assert "same window" in lines[0]
    assert lines[-1].endswith("e.json")


def make_report(*results: FormResult) -> ParityReport:
    used = (("a.wav", 0), ("a.wav", 1))
    return ParityReport("toy", "the checkpoint", 10.0, used, {}, {}, results)


def kind(
    status: str,
    *,
    tokens: Agreement | None = None,
    layers: tuple[LayerResult, ...] = (),
) -> FormResult:
    limit = Limit(15.0)
    return FormResult("emulated", "encoder", status, "g", limit, FAR, tokens, layers)


def validated(
    report: ParityReport,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str = "",
) -> tuple[int, str, list[tuple[Any, ...]]]:
    """Exit code, standard output, and what was asked for."""
    recorded_calls = Asked(report).patched(
        monkeypatch, "whisper_hailo_tools.validate.validate.validate"
    )
    code = run(["validate", ".", *words.split()])
    return code, capsys.readouterr().out, recorded_calls.with_


def test_validate_prints_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Columns stand below their headings; rungs that were not run say why."""
    monkeypatch.chdir(tmp_path)
    exact = FormResult("float32", "decoder", "passed", "g", STRICT, SAME)
    report = make_report(
        exact,
        kind("passed", tokens=Agreement(19, 20)),
        FormResult("hef", "encoder", "not run", "no"),
    )
    code, out, recorded_calls = validated(report, monkeypatch, capsys)
    assert code == 0
    assert out.splitlines() == [
        "toy: passed; 2 windows of 10 s, against the checkpoint",
        "rung      part     result  max   mean   cosine    SNR dB  PSNR dB  limit"
        "         tokens",
        "float32   decoder  passed  0     0      1.000000  equal   equal    SNR >= 80 dB",
        "emulated  encoder  passed  0.25  0.013  0.987654  12.3    23.4     SNR >= 15 dB"
        "  19 of 20",
        "hef       encoder  not run: no",
        "parity.json",
    ]
    assert recorded_calls == [(Path("."), ValidateOptions())]
    assert json.loads((tmp_path / "parity.json").read_text())["passed"] is True


def test_validate_failure_names_the_steepest_fall(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    layers = (LayerResult("a", 40.0), LayerResult("b", 12.3), LayerResult("c", 11.0))
    code, out, _ = validated(
        make_report(kind("failed", layers=layers)), monkeypatch, capsys
    )
    assert code == 4
    lines = out.splitlines()
    assert lines[0].startswith("toy: FAILED; ")
    assert "a (40.0 dB) to b (12.3 dB)" in lines[-2]
    _, out, _ = validated(
        make_report(kind("passed", layers=layers)), monkeypatch, capsys
    )
    assert "falls" not in out


def test_validate_writes_json_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    report = make_report(kind("failed"))
    words = "--json --out there --windows 2 -l de"
    code, out, recorded_calls = validated(report, monkeypatch, capsys, words)
    assert code == 4
    assert json.loads(out) == json.loads(report.to_json())
    assert recorded_calls == [(Path("."), ValidateOptions(windows=2, language="de"))]
    assert (tmp_path / "there" / "parity.json").read_text() == report.to_json()


def test_validate_to_unwritable_place_fails_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The model directory, or the one that is typed; where there is no model that is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    looked: list[Path] = []
    monkeypatch.setattr(
        "whisper_hailo.core.atomic_files.require_writable_folder",
        lambda at, _: looked.append(at),
    )
    recorded_calls = Asked(make_report()).patched(
        monkeypatch, "whisper_hailo_tools.validate.validate.validate"
    )
    for words in ("model", "model --out there", "missing", "missing --out there"):
        assert run(["validate", *words.split()]) == 0
    assert looked == [Path("model"), Path("there"), Path("there")]
    assert len(recorded_calls.with_) == 4
    capsys.readouterr()
