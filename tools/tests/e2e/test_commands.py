"""The tools as real commands: validation and emulation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.e2e.conftest import DEMO, DEMO_TEXT, Command, one_line
from whisper_hailo.core.spec import PARITY_FILE
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.score import score_texts

PARTS = ("encoder", "decoder")
SPEECH = unpack_clips() / "seen"
PATIENCE_S = 900
"""Fewer seconds of work than that by far, on a machine that does nothing else."""


@pytest.fixture(scope="module")
def model(whisper_hailo: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("validate") / "micro"
    in_8_bits = ("--quantize", "int8", "--encoder-quantize", "int8")
    result = whisper_hailo(
        "convert", "micro", out, "--hailo", "--window", "3", *in_8_bits
    )
    assert result.returncode == 0, result.stderr
    return out


def test_validate_of_the_bundled_model_passes(
    whisper_hailo: Command, model: Path
) -> None:
    result = whisper_hailo("validate", model, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("micro: passed")
    facts = json.loads((model / "parity.json").read_text())
    status = {(rung["rung"], rung["part"]): rung["status"] for rung in facts["rungs"]}
    for part in PARTS:
        for rung in ("float32", "quantised", "hailo-form"):
            assert status[rung, part] == "passed"
        for rung in ("emulated", "hef"):
            assert status[rung, part] == "not run"
    for rung in facts["rungs"]:
        if rung["rung"] in ("float32", "hailo-form"):
            assert rung["difference"]["relative"] < 1e-4
            same, of = rung["tokens"]
            assert same == of > 0


def test_convert_again_removes_the_report(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    out = tmp_path / "micro"
    words = (
        "convert",
        "micro",
        out,
        "--hailo",
        "--window",
        "1",
        "--decoder-length",
        "8",
    )
    assert whisper_hailo(*words).returncode == 0
    (out / PARITY_FILE).write_text("of the graphs before")
    result = whisper_hailo(*words)
    assert result.returncode == 0, result.stderr
    assert not (out / PARITY_FILE).exists()


def test_validate_of_changed_graph_fails_and_names_it(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    path = broken / "hailo" / "encoder-3s.onnx"
    graph = onnx.load(path)
    item = next(
        i for i in graph.graph.initializer if i.name == "encoder.layers.2.fc1.bias"
    )
    array = numpy_helper.to_array(item) + np.float32(0.01)
    item.CopyFrom(numpy_helper.from_array(array, item.name))
    onnx.save(graph, path)
    result = whisper_hailo("validate", broken, "--windows", 1, timeout=600)
    assert result.returncode == 4
    (line,) = (
        line
        for line in result.stdout.splitlines()
        if line.startswith("hailo-form encoder:")
    )
    assert "to encoder.layers.2.out (" in line


def test_validate_of_wrong_options_is_refused(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    for words, code, expected in (
        (["--windows", "0"], 2, "--windows is 0"),
        (["--audio", tmp_path], 3, "no file that looks like audio"),
        (["--language", "xx"], 2, "unknown language"),
    ):
        result = whisper_hailo("validate", model, *words)
        assert result.returncode == code, result.stderr
        assert expected in one_line(result)
    result = whisper_hailo("validate", tmp_path)
    assert result.returncode == 4
    assert "model.json" in one_line(result)


@pytest.fixture(scope="module")
def emulated_model(micro_hailo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(micro_hailo, tmp_path_factory.mktemp("emulate") / "micro")


def test_emulate_then_transcribe(whisper_hailo: Command, emulated_model: Path) -> None:
    result = whisper_hailo(
        "emulate", emulated_model, "--audio", SPEECH, "--count", 16, timeout=PATIENCE_S
    )
    assert result.returncode == 0, result.stderr
    assert (
        "plan script, scales from 16 windows; noise measured on 16 other"
        in result.stdout
    )
    assert "output_layer1 (525): SNR " in result.stdout
    words = ("--part", "decoder", "--audio", SPEECH, "--count", 8, "--json")
    result = whisper_hailo("emulate", emulated_model, *words, timeout=PATIENCE_S)
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert [entry["layer"] for entry in facts["outputs"]] == [
        f"output_layer{i}" for i in (1, 2, 3, 4)
    ]
    assert Path(facts["path"]).is_file()
    for chosen in (
        ["--encoder-backend", "emulator"],
        ["--encoder-backend", "emulator", "--decoder-backend", "emulator"],
    ):
        result = whisper_hailo(
            "transcribe",
            "-v",
            "--model",
            emulated_model,
            *chosen,
            DEMO,
            timeout=PATIENCE_S,
        )
        assert result.returncode == 0, result.stderr
        assert "encoder emulated-script: as asked for" in result.stderr
        assert score_texts([(DEMO_TEXT, result.stdout)]).words.rate < 0.5


def test_bad_input_is_one_line(
    whisper_hailo: Command, emulated_model: Path, tmp_path: Path
) -> None:
    missing = whisper_hailo("emulate", emulated_model)
    assert missing.returncode == 2
    assert "--audio DIR" in one_line(missing)
    plan = whisper_hailo("emulate", emulated_model, "--audio", SPEECH, "--plan", "all4")
    assert plan.returncode == 2
    assert "--plan is 'all4'" in one_line(plan)
    empty = whisper_hailo("emulate", emulated_model, "--audio", tmp_path)
    assert empty.returncode == 3
    assert "audio" in one_line(empty)
    broken = tmp_path / "set.npy"
    broken.write_text("nothing")
    result = whisper_hailo("emulate", emulated_model, "--calibration", broken)
    assert result.returncode == 4
    assert "calibration" in one_line(result)
    plain = tmp_path / "plain"
    assert whisper_hailo("convert", "micro", plain).returncode == 0
    result = whisper_hailo("emulate", plain, "--audio", SPEECH)
    assert result.returncode == 4
    assert "--hailo" in one_line(result)
