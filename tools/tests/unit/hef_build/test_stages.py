"""Stages of a build in this process: calls of the compiler, and repeated stages."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from tools.tests.unit.hef_build.test_model_script import job_for, parsed
from whisper_hailo_tools.hef_build import stages
from whisper_hailo_tools.hef_build.job import BuildError, BuildJob
from whisper_hailo_tools.hef_build.stages import (
    Build,
    compiler_version,
    load_calibration,
    match_inputs,
)
from whisper_hailo_tools.hef_build.supervise import write_record

WINDOWS = np.arange(24, dtype=np.float32).reshape(4, 1, 2, 3)


class Runner:
    """A compiler whose HARs are hashes of all inputs."""

    calls: ClassVar[list[Any]] = []

    def __init__(self, hw_arch: str | None = None, har: str | None = None) -> None:
        if har is None:
            self._held = f"arch {hw_arch}"
        else:
            self._held = Path(har).read_text()

    def _note(self, stage: str, *arguments: Any) -> None:
        self.calls.append((stage, *arguments))
        content = f"{self._held} {stage} {arguments}"
        self._held = hashlib.sha256(content.encode()).hexdigest()

    def translate_onnx_model(self, graph: str, name: str, **nodes: Any) -> None:
        self._note("parse", Path(graph).read_bytes(), name, nodes)

    def get_hn_dict(self) -> dict[str, Any]:
        return parsed("encoder", "tiny")

    def load_model_script(self, path: str) -> None:
        self._script = Path(path).read_text()

    def optimize(self, calib_data: Any, work_dir: str) -> None:
        assert Path(work_dir).is_dir()
        self._note("optimize", self._script, calib_data.tolist())

    def compile(self) -> bytes:
        self._note("compile")
        return self._held.encode()

    def save_har(self, path: str) -> None:
        Path(path).write_text(self._held)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildJob:
    sdk = SimpleNamespace(ClientRunner=Runner, __version__="3.33.0")
    monkeypatch.setattr(stages, "load_sdk", lambda: sdk)
    monkeypatch.setattr(Runner, "calls", [])
    (tmp_path / "g.onnx").write_bytes(b"graph")
    np.save(tmp_path / "c.npy", WINDOWS)
    paths = {"graph": "g.onnx", "calibration": "c.npy", "out": "out"}
    return replace(
        job_for("encoder", "tiny"), **{k: str(tmp_path / v) for k, v in paths.items()}
    )


def _run(job: BuildJob) -> list[str]:
    """Which stages are run."""
    Runner.calls.clear()
    Build(job).run()
    return [stage for stage, *_ in Runner.calls]


def test_build_passes_the_whole_job_to_the_compiler(job: BuildJob) -> None:
    job = replace(
        job, start_nodes=["x", "/Reshape"], end_nodes=["/MatMul", "/MatMul_1"]
    )
    Build(job).run()
    (_, graph, name, nodes), (_, script, windows), _ = Runner.calls
    assert graph == b"graph"
    assert name == "net"
    assert nodes == {
        "start_node_names": job.start_nodes,
        "end_node_names": job.end_nodes,
    }
    assert windows == WINDOWS.tolist()
    assert script == job.result(".alls").read_text()
    assert "quantization_param({ew_add*}, precision_mode=a16_w16)" in script
    assert len(job.result(".hef").read_bytes()) == 64


def test_build_repeats_stages_of_changed_inputs(
    job: BuildJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = ["parse", "optimize", "compile"]
    from_numbers = ["optimize", "compile"]
    assert _run(job) == everything
    assert _run(job) == []
    first = job.result(".hef").read_bytes()
    np.save(job.calibration, WINDOWS + 1)
    assert _run(job) == from_numbers
    assert job.result(".hef").read_bytes() != first
    assert _run(replace(job, optimization_level=1)) == from_numbers
    (tmp_path / "own.alls").write_text(
        "model_optimization_flavor(optimization_level=0)\n"
    )
    own_job = replace(job, script=str(tmp_path / "own.alls"))
    assert _run(own_job) == from_numbers
    assert _run(replace(own_job, arch="hailo8")) == everything
    assert _run(replace(own_job, arch="hailo8", end_nodes=["z"])) == everything
    (tmp_path / "g.onnx").write_bytes(b"another graph")
    assert _run(own_job) == everything
    newer = SimpleNamespace(ClientRunner=Runner, __version__="3.34.0")
    monkeypatch.setattr(stages, "load_sdk", lambda: newer)
    assert _run(own_job) == everything


@pytest.mark.parametrize(
    ("suffix", "again"),
    [(".har", ["parse"]), ("_optimized.har", ["optimize"]), (".hef", ["compile"])],
)
@pytest.mark.parametrize("damage", [b"damaged", None], ids=["damaged", "gone"])
def test_build_repeats_stages_of_damaged_results(
    job: BuildJob, suffix: str, again: list[str], damage: bytes | None
) -> None:
    _run(job)
    path = job.result(suffix)
    whole = path.read_bytes()
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert _run(job) == again
    assert path.read_bytes() == whole


def test_write_record_reads_the_last_run_of_a_stage(job: BuildJob) -> None:
    Build(job).run()
    job.result(".log").write_text(
        "optimize: started\nnet/output_layer1 SNR: 9.5 dB\noptimize: finished\n"
        "optimize: started\nnet/output_layer1 SNR: 21.5 dB\nnet/output_layer2 SNR:\t-1e-3 dB\n"
        "compile: started\nApplying selected partition to 3 contexts...\n"
        "compile: started\nApplying selected partition to 4 contexts...\n"
        "Applying selected partition to 9 contexts...\n"
    )
    record = write_record(job)
    assert record["snr_db"] == {"output_layer1": 21.5, "output_layer2": -0.001}
    assert record["contexts"] == 9
    assert record["arch"] == "hailo8l"
    assert record["part"] == "encoder"
    assert record["calibration_windows"] == 4
    hef = job.result(".hef").read_bytes()
    assert record["bytes"] == 64
    assert record["sha256"] == hashlib.sha256(hef).hexdigest()
    assert json.loads(job.result(".hef.json").read_text()) == record


@pytest.mark.parametrize(
    ("arch", "version", "fits"),
    [
        ("hailo8", "3.30.9", False),
        ("hailo8", "3.31.0", True),
        ("hailo8", "4.0", False),
        ("hailo8l", "3.33.1", True),
        ("hailo8l", "5.1.0", False),
        ("hailo10h", "3.33.0", False),
        ("hailo10h", "5.0.0", True),
        ("hailo10h", "6.0", False),
    ],
)
def test_compiler_version_by_chip(arch: str, version: str, fits: bool) -> None:
    sdk = SimpleNamespace(__version__=version)
    if fits:
        assert compiler_version(sdk, arch) == version
        return
    with pytest.raises(BuildError, match=f"{version} .*{arch}"):
        compiler_version(sdk, arch)


def test_match_inputs_by_shape(job: BuildJob, tmp_path: Path) -> None:
    shapes = [[1, 1, 100, 64], [1, 16, 1, 64]]
    decoder = replace(
        job, part="decoder", chip_inputs=shapes, calibration=str(tmp_path / "d.npz")
    )
    rows = {
        f"net/input_layer{i + 1}": np.zeros((3, *s[1:]), "f4")
        for i, s in enumerate(shapes)
    }
    np.savez(decoder.calibration, **rows)
    arrays, n_windows = load_calibration(decoder)
    assert n_windows == 3
    inputs = {"net/input_layer1": (16, 1, 64), "net/input_layer2": (1, 100, 64)}
    matched = match_inputs(arrays, inputs, decoder)
    assert {name: array.shape[1:] for name, array in matched.items()} == inputs
    with pytest.raises(BuildError, match="network"):
        match_inputs(arrays, {"net/input_layer1": (16, 1, 64)}, decoder)


def test_build_job_paths_are_relative_to_its_file(
    job: BuildJob, tmp_path: Path
) -> None:
    packed = replace(
        job, graph="graph/g.onnx", calibration="c/c.npz", script="s.alls", out="out"
    )
    (tmp_path / "job.json").write_text(packed.to_json())
    loaded_job = BuildJob.load(tmp_path / "job.json")
    expected = {
        "graph": "graph/g.onnx",
        "calibration": "c/c.npz",
        "script": "s.alls",
        "out": "out",
    }
    assert {name: Path(getattr(loaded_job, name)) for name in expected} == {
        name: tmp_path / path for name, path in expected.items()
    }
    assert replace(loaded_job, **expected) == packed
