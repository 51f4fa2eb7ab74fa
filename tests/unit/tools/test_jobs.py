"""What a build starts from, what is packed of it, and how its HEF is listed."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import write_checkpoint
from tests.shared import converted
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.compile import make_job, record_hef, write_bundle
from whisper_hailo_tools.options import CompileOptions


@pytest.fixture(scope="module")
def _toy(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer in the encoder, two in the decoder."""
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("jobs") / "toy")
    return converted(shared, checkpoint, ConvertOptions("none", hailo=HailoOptions(2, 16)))


@pytest.fixture
def toy(_toy: Path, tmp_path: Path) -> Path:
    """A copy whose files are replaced and never changed."""
    out = tmp_path / "toy"
    return Path(shutil.copytree(_toy, out, copy_function=lambda a, b: Path(b).hardlink_to(a)))


@pytest.fixture
def options(tmp_path: Path) -> CompileOptions:
    """Of the decoder, with a script of one's own."""
    (tmp_path / "own.alls").write_text("performance_param(optimize_for_batch=1)\n")
    shapes = {"1": (3, 1, 100, 64), "2": (3, 16, 1, 64)}
    name = "toy_decoder_2s_16/input_layer"
    np.savez(tmp_path / "d.npz", **{name + n: np.zeros(s, "f4") for n, s in shapes.items()})
    return CompileOptions(
        arch="hailo8",
        part="decoder",
        calibration=tmp_path / "d.npz",
        script=tmp_path / "own.alls",
    )


def test_a_job_is_of_its_part(toy: Path, options: CompileOptions, tmp_path: Path) -> None:
    spec = ModelSpec.load(toy)
    decoder = make_job(toy, spec, options)
    np.save(tmp_path / "e.npy", np.zeros((3, 1, 200, 80), "f4"))
    wanted = replace(options, part="encoder", calibration=tmp_path / "e.npy", script=None)
    encoder = make_job(toy, spec, wanted)
    assert (encoder.n_layers, decoder.n_layers) == (1, 2)
    assert (encoder.script, decoder.script) == (None, str(tmp_path / "own.alls"))
    assert encoder.chip_inputs == [[1, 1, 200, 80]]
    assert decoder.chip_inputs == [[1, 1, 100, 64], [1, 16, 1, 64]]
    assert decoder.start_nodes == ["encoder_hidden_states", "/Reshape"]
    assert decoder.end_nodes == ["/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3"]
    assert (decoder.size, decoder.d_model, decoder.stem) == ("tiny.en", 64, "toy_decoder_2s_16")
    assert Path(decoder.out) == toy / "hailo" / "hailo8"
    languages = replace(spec, tokens=replace(spec.tokens, languages={"en": 12}))
    assert make_job(toy, languages, options).size == "tiny"


def test_a_bundle_has_all_that_a_build_needs_and_the_same_bytes_again(
    toy: Path, options: CompileOptions, tmp_path: Path
) -> None:
    data = toy / "hailo" / "decoder-2s-16.onnx.data"
    data.write_bytes(b"weights beside the graph")
    a, b = tmp_path / "a.zip", tmp_path / "b.zip"
    write_bundle(toy, options, a)
    os.utime(data, (0, 0))
    write_bundle(toy, options, b)
    assert a.read_bytes() == b.read_bytes()
    with zipfile.ZipFile(a) as archive:
        names = set(archive.namelist())
        job: dict[str, Any] = json.loads(archive.read("job.json"))
        for key in ("graph", "calibration", "script"):
            assert job[key] in names
        assert archive.read(job["script"]) == (tmp_path / "own.alls").read_bytes()
        assert archive.read(job["calibration"]) == options.calibration.read_bytes()
        assert archive.read(f"{job['graph']}.data") == data.read_bytes()
        readme = archive.read("README.txt").decode()
    assert (job["arch"], job["out"]) == ("hailo8", "out")
    assert "--arch hailo8 --part decoder --built out" in readme
    assert "3.31 or newer, below 4.0" in readme
    assert {"build.py", "hef_build/supervise.py", "hef_build/stages.py"} <= names


def _facts(arch: str, part: str, sha256: str = "0") -> dict[str, Any]:
    hashes = ("graph_sha256", "script_sha256", "calibration_sha256")
    facts = {"arch": arch, "part": part, "bytes": 64, "compiler_version": "3.33.0"}
    return facts | dict.fromkeys(hashes, "1" * 64) | {"sha256": sha256 * 64}


def test_each_chip_and_part_has_its_hef_and_a_new_one_takes_its_place(toy: Path) -> None:
    cases = (("hailo8", "encoder"), ("hailo8", "decoder"), ("hailo10h", "encoder"))
    for arch, part in (*cases, cases[0]):
        listed = record_hef(toy, toy / "hailo" / arch / f"{part}.hef", _facts(arch, part))
        assert listed.recorded
    again = record_hef(toy, toy / "hailo" / "hailo8" / "encoder.hef", _facts(*cases[0], "2"))
    found = {(hef.arch, hef.part): hef.sha256[0] for hef in ModelSpec.load(toy).hefs}
    assert found == {cases[0]: "2", cases[1]: "0", cases[2]: "0"}
    assert again.record.file == "hailo/hailo8/encoder.hef"


def test_a_hef_elsewhere_is_described_and_not_listed(toy: Path, tmp_path: Path) -> None:
    before = (toy / "model.json").read_bytes()
    found = record_hef(toy, tmp_path / "elsewhere.hef", _facts("hailo8", "encoder"))
    assert (found.recorded, found.record.file) == (False, "elsewhere.hef")
    with pytest.raises(ModelError, match="build it again"):
        record_hef(toy, tmp_path / "elsewhere.hef", {"arch": "hailo8"})
    assert (toy / "model.json").read_bytes() == before
