"""Bundles: the same bytes each time, and a build that runs with nothing of ours installed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.standin import with_compiler
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo_tools import hef_build
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.compile import compile_part, write_bundle
from whisper_hailo_tools.options import CalibrationOptions, CompileOptions

TARGET_PYTHON = (3, 10)


@pytest.fixture(scope="module")
def options(
    micro: Path, recordings: Path, tmp_path_factory: pytest.TempPathFactory
) -> CompileOptions:
    wanted = CalibrationOptions(part="decoder", count=4)
    found = calibrate(micro, recordings, tmp_path_factory.mktemp("set"), wanted)
    return CompileOptions(arch="hailo8", part="decoder", calibration=found.path)


def _build(folder: Path, **wishes: str) -> subprocess.CompletedProcess[str]:
    """Run the bundle's one command, our own package out of reach."""
    guard = "import sys; sys.modules['whisper_hailo'] = None; import runpy; "
    code = f"{guard}runpy.run_path({str(folder / 'build.py')!r}, run_name='__main__')"
    command = [sys.executable, "-c", f"import sys; sys.path[0] = {str(folder)!r}; {code}"]
    return subprocess.run(
        command,
        env=with_compiler(**wishes),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_an_unpacked_bundle_builds_what_we_build(
    micro: Path, options: CompileOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
def test_an_unpacked_bundle_fails_in_one_line(
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
def test_the_same_build_packs_to_the_same_bytes(
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


def test_no_half_bundle_is_left(micro: Path, options: CompileOptions, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write_bundle(micro, options, tmp_path / "file" / "b.zip")
    with pytest.raises(ModelError, match="whisper-hailo calibrate"):
        write_bundle(micro, replace(options, calibration=tmp_path / "file"), tmp_path / "b.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_travels_needs_numpy_and_the_compiler_only() -> None:
    known = {*sys.stdlib_module_names, "numpy", "hailo_sdk_client"}
    paths = sorted(Path(hef_build.__path__[0]).glob("*.py"))
    importers = set()
    assert len(paths) > 5
    for path in paths:
        tree = ast.parse(path.read_text(), feature_version=TARGET_PYTHON)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = {str(node.module).split(".")[0]}
            else:
                continue
            assert names <= known, path.name
            importers |= {path.name} if "hailo_sdk_client" in names else set()
    assert importers == {"sdk.py"}
