"""Bundles: the same bytes each time, and a build that runs with nothing of ours installed."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import write_checkpoint
from tests.shared import converted
from tests.standin import with_compiler
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools import hef_build
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.compile import (
    adopt_hef,
    compile_part,
    make_job,
    record_hef,
    write_bundle,
)
from whisper_hailo_tools.options import CalibrationOptions, CompileOptions

TARGET_PYTHON = (3, 10)


@pytest.fixture(scope="module")
def options(
    micro: Path, recordings: Path, tmp_path_factory: pytest.TempPathFactory
) -> CompileOptions:
    options_of_set = CalibrationOptions(part="decoder", count=4)
    records = calibrate(
        micro, recordings, tmp_path_factory.mktemp("set"), options_of_set
    )
    return CompileOptions(arch="hailo8", part="decoder", calibration=records.path)


def _build(folder: Path, **wishes: str) -> subprocess.CompletedProcess[str]:
    """Run the bundle's one command, our own package out of reach."""
    guard = "import sys; sys.modules['whisper_hailo'] = None; import runpy; "
    code = f"{guard}runpy.run_path({str(folder / 'build.py')!r}, run_name='__main__')"
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path[0] = {str(folder)!r}; {code}",
    ]
    return subprocess.run(
        command,
        env=with_compiler(**wishes),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_bundle_unpacked_builds_the_same_hef(
    micro: Path,
    options: CompileOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_bundle(micro, options, tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(tmp_path / "build")
    result = _build(tmp_path / "build")
    assert result.returncode == 0, result.stderr
    assert "SNR output_layer1 21.5 dB" in result.stderr
    theirs = tmp_path / "build" / "out" / "micro_decoder_2s_16.hef"
    monkeypatch.setenv("PYTHONPATH", with_compiler()["PYTHONPATH"])
    ours = compile_part(micro, replace(options, out=tmp_path / "here"))
    assert theirs.read_bytes() == ours.path.read_bytes()
    record = json.loads((theirs.parent / "micro_decoder_2s_16.hef.json").read_text())
    assert record["script_sha256"] == ours.record.script_sha256


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wishes", "code", "expected"),
    [
        ({"version": "3.20"}, 6, "3.20 does not compile for hailo8"),
        ({"fail": "optimize:disk"}, 7, "No space left on device"),
        ({"fail": "compile:raise"}, 4, "failed to compile"),
    ],
)
def test_bundle_unpacked_fails_in_one_line(
    *,
    micro: Path,
    options: CompileOptions,
    tmp_path: Path,
    wishes: dict[str, str],
    code: int,
    expected: str,
) -> None:
    write_bundle(micro, options, tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(tmp_path)
    result = _build(tmp_path, **wishes)
    assert result.returncode == code
    last = result.stderr.splitlines()[-1]
    assert last.startswith("build.py: ")
    assert expected in last
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_write_bundle_is_reproducible(
    micro: Path, options: CompileOptions, tmp_path: Path
) -> None:
    script = tmp_path / "own.alls"
    script.write_text("performance_param(optimize_for_batch=1)\n")
    for name in ("a.zip", "b.zip"):
        write_bundle(micro, replace(options, script=script), tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = archive.namelist()
        assert archive.read("script.alls") == script.read_bytes()
    assert names[:3] == ["README.txt", "build.py", "job.json"]
    assert not any("/work" in name or name.startswith("/") for name in names)


def test_write_bundle_that_fails_leaves_no_half(
    micro: Path, options: CompileOptions, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"b\.zip"):
        write_bundle(micro, options, tmp_path / "file" / "b.zip")
    with pytest.raises(ModelError, match="calibrate"):
        write_bundle(
            micro, replace(options, calibration=tmp_path / "file"), tmp_path / "b.zip"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_hef_build_imports_numpy_and_the_compiler_only() -> None:
    allowed_modules = {*sys.stdlib_module_names, "numpy", "hailo_sdk_client"}
    paths = sorted(Path(hef_build.__path__[0]).glob("*.py"))
    importers = set()
    assert len(paths) >= 5
    for path in paths:
        tree = ast.parse(path.read_text(), feature_version=TARGET_PYTHON)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = {str(node.module).split(".")[0]}
            else:
                continue
            assert names <= allowed_modules, path.name
            importers |= {path.name} if "hailo_sdk_client" in names else set()
    assert importers == {"stages.py"}


STEM = "micro_encoder_2s"


@pytest.fixture(scope="module")
def finished(
    micro: Path, recordings: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What a bundle's `out` folder holds: its program is the one that `compile` runs."""
    options_of_set = CalibrationOptions(part="encoder", count=4)
    records = calibrate(
        micro, recordings, tmp_path_factory.mktemp("set"), options_of_set
    )
    out = tmp_path_factory.mktemp("elsewhere") / "out"
    options = CompileOptions(
        arch="hailo8l", part="encoder", calibration=records.path, out=out
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", with_compiler()["PYTHONPATH"])
        assert not compile_part(micro, options).recorded
    return out


@pytest.fixture
def model(micro: Path, tmp_path: Path) -> Path:
    out = tmp_path / "model"  # its files are replaced and never changed
    return Path(
        shutil.copytree(micro, out, copy_function=lambda a, b: Path(b).hardlink_to(a))
    )


@pytest.fixture
def built(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


def test_adopt_hef_copies_all_files_and_lists_it(model: Path, built: Path) -> None:
    for _ in range(2):  # twice is once
        hef = adopt_hef(model, "hailo8l", "encoder", built)
        assert hef.recorded
        assert ModelSpec.load(model).hefs == (hef.record,)
    folder = model / "hailo" / "hailo8l"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{STEM}{suffix}" for suffix in (".alls", ".hef", ".hef.json")
    ]
    assert hef.record.file == f"hailo/hailo8l/{STEM}.hef"
    assert hef.record.snr_db == {"output_layer1": 21.5}
    assert hef.path.read_bytes() == (built / f"{STEM}.hef").read_bytes()


def test_adopt_hef_of_another_model_is_refused(model: Path, built: Path) -> None:
    before = (model / "model.json").read_bytes()
    with pytest.raises(ModelError, match=r"micro_decoder_2s_16\.hef\.json"):
        adopt_hef(model, "hailo8l", "decoder", built)
    with pytest.raises(ModelError, match="hailo8l"):
        adopt_hef(model, "hailo8", "encoder", built)
    record = built / f"{STEM}.hef.json"
    facts = json.loads(record.read_text())
    record.write_text(json.dumps(facts | {"graph_sha256": "0" * 64}))
    with pytest.raises(ModelError, match="graph"):
        adopt_hef(model, "hailo8l", "encoder", built)
    record.write_text(json.dumps(facts))
    (built / f"{STEM}.hef").write_bytes(b"cut short")
    with pytest.raises(ModelError, match=rf"{STEM}\.hef"):
        adopt_hef(model, "hailo8l", "encoder", built)
    assert (model / "model.json").read_bytes() == before
    assert not (model / "hailo" / "hailo8l").exists()


def test_adopt_hef_to_unwritable_place_says_so(model: Path, built: Path) -> None:
    (model / "hailo" / "hailo8l").write_text("in the way")
    with pytest.raises(OutputError, match="hailo8l"):
        adopt_hef(model, "hailo8l", "encoder", built)


@pytest.fixture(scope="module")
def _toy(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer in the encoder, two in the decoder."""
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("jobs") / "toy")
    return converted(
        shared, checkpoint, ConvertOptions("none", hailo=HailoOptions(2, 16))
    )


@pytest.fixture
def toy(_toy: Path, tmp_path: Path) -> Path:
    """A copy whose files are replaced and never changed."""
    out = tmp_path / "toy"
    return Path(
        shutil.copytree(_toy, out, copy_function=lambda a, b: Path(b).hardlink_to(a))
    )


@pytest.fixture
def build_options(tmp_path: Path) -> CompileOptions:
    """Of the decoder, with a script of one's own."""
    (tmp_path / "own.alls").write_text("performance_param(optimize_for_batch=1)\n")
    shapes = {"1": (3, 1, 100, 64), "2": (3, 16, 1, 64)}
    name = "toy_decoder_2s_16/input_layer"
    np.savez(
        tmp_path / "d.npz", **{name + n: np.zeros(s, "f4") for n, s in shapes.items()}
    )
    return CompileOptions(
        arch="hailo8",
        part="decoder",
        calibration=tmp_path / "d.npz",
        script=tmp_path / "own.alls",
    )


def test_make_job_is_for_its_part(
    toy: Path, build_options: CompileOptions, tmp_path: Path
) -> None:
    spec = ModelSpec.load(toy)
    decoder = make_job(toy, spec, build_options)
    np.save(tmp_path / "e.npy", np.zeros((3, 1, 200, 80), "f4"))
    options_of_set = replace(
        build_options, part="encoder", calibration=tmp_path / "e.npy", script=None
    )
    encoder = make_job(toy, spec, options_of_set)
    assert encoder.n_layers == 1
    assert decoder.n_layers == 2
    assert encoder.script is None
    assert decoder.script == str(tmp_path / "own.alls")
    assert encoder.chip_inputs == [[1, 1, 200, 80]]
    assert decoder.chip_inputs == [[1, 1, 100, 64], [1, 16, 1, 64]]
    assert decoder.start_nodes == ["encoder_hidden_states", "/Reshape"]
    assert decoder.end_nodes == ["/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3"]
    assert decoder.size == "tiny.en"
    assert decoder.d_model == 64
    assert decoder.net_name == "toy_decoder_2s_16"
    assert Path(decoder.out) == toy / "hailo" / "hailo8"
    languages = replace(spec, tokens=replace(spec.tokens, languages={"en": 12}))
    assert make_job(toy, languages, build_options).size == "tiny"


def test_write_bundle_has_all_files_and_same_bytes(
    toy: Path, build_options: CompileOptions, tmp_path: Path
) -> None:
    data = toy / "hailo" / "decoder-2s-16.onnx.data"
    data.write_bytes(b"weights beside the graph")
    a = tmp_path / "a.zip"
    b = tmp_path / "b.zip"
    write_bundle(toy, build_options, a)
    os.utime(data, (0, 0))
    write_bundle(toy, build_options, b)
    assert a.read_bytes() == b.read_bytes()
    with zipfile.ZipFile(a) as archive:
        names = set(archive.namelist())
        job: dict[str, Any] = json.loads(archive.read("job.json"))
        for key in ("graph", "calibration", "script"):
            assert job[key] in names
        assert archive.read(job["script"]) == (tmp_path / "own.alls").read_bytes()
        assert (
            archive.read(job["calibration"]) == build_options.calibration.read_bytes()
        )
        assert archive.read(f"{job['graph']}.data") == data.read_bytes()
        readme = archive.read("README.txt").decode()
    assert job["arch"] == "hailo8"
    assert job["out"] == "out"
    assert "--arch hailo8 --part decoder --built out" in readme
    assert "3.31 or newer, below 4.0" in readme
    assert {"build.py", "hef_build/supervise.py", "hef_build/stages.py"} <= names


def _facts(arch: str, part: str, sha256: str = "0") -> dict[str, Any]:
    hashes = ("graph_sha256", "script_sha256", "calibration_sha256")
    facts = {"arch": arch, "part": part, "bytes": 64, "compiler_version": "3.33.0"}
    return facts | dict.fromkeys(hashes, "1" * 64) | {"sha256": sha256 * 64}


def test_record_hef_replaces_the_one_of_chip_and_part(toy: Path) -> None:
    cases = (("hailo8", "encoder"), ("hailo8", "decoder"), ("hailo10h", "encoder"))
    for arch, part in (*cases, cases[0]):
        listed = record_hef(
            toy, toy / "hailo" / arch / f"{part}.hef", _facts(arch, part)
        )
        assert listed.recorded
    again = record_hef(
        toy, toy / "hailo" / "hailo8" / "encoder.hef", _facts(*cases[0], "2")
    )
    records = {(hef.arch, hef.part): hef.sha256[0] for hef in ModelSpec.load(toy).hefs}
    assert records == {cases[0]: "2", cases[1]: "0", cases[2]: "0"}
    assert again.record.file == "hailo/hailo8/encoder.hef"


def test_record_hef_outside_is_described_not_listed(toy: Path, tmp_path: Path) -> None:
    before = (toy / "model.json").read_bytes()
    records = record_hef(toy, tmp_path / "elsewhere.hef", _facts("hailo8", "encoder"))
    assert not records.recorded
    assert records.record.file == "elsewhere.hef"
    with pytest.raises(ModelError):
        record_hef(toy, tmp_path / "elsewhere.hef", {"arch": "hailo8"})
    assert (toy / "model.json").read_bytes() == before
