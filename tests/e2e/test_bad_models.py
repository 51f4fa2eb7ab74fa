"""Broken, hostile and nonsensical models: one clear line, nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import ASSETS, DEMO, Command, one_line

MICRO = ASSETS / "micro"


def test_weights_that_are_no_numbers(whisper_hailo: Command, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(MICRO, checkpoint)
    arrays = load_file(checkpoint / "model.safetensors")
    arrays["model.decoder.layers.0.fc1.weight"][:] = np.nan
    save_file(arrays, checkpoint / "model.safetensors")
    result = whisper_hailo("transcribe", "--model", checkpoint, "--json", DEMO)
    assert result.returncode == 4
    assert "no numbers" in one_line(result)
    assert json.loads(result.stdout)["exit_code"] == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"dims": {"n_encoder_layers": 10**9}},
        {"dims": {"n_decoder_heads": 0}},
        {"dims": {"n_mels": 128}},
        {"tokens": {"sot": "x"}},
        {"tokens": {"no_speech": 10**6}},
        {"tokens": {"languages": {"en": -1}}},
        {"files": {"../../etc/passwd": {"bytes": 1, "sha256": ""}}},
    ],
)
def test_a_model_description_that_is_nonsense(
    whisper_hailo: Command, tmp_path: Path, changes: dict[str, dict[str, object]]
) -> None:
    assert whisper_hailo("convert", "micro", tmp_path / "model").returncode == 0
    file = tmp_path / "model" / "model.json"
    spec = json.loads(file.read_text(encoding="utf-8"))
    for key, values in changes.items():
        spec[key].update(values)
    file.write_text(json.dumps(spec), encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", tmp_path / "model", DEMO)
    assert result.returncode == 4
    assert one_line(result)


@pytest.mark.parametrize("where", ["../secret.bin", "absolute", "link"])
def test_external_data_outside_the_model_directory_is_not_read(
    whisper_hailo: Command, tmp_path: Path, where: str
) -> None:
    import onnx

    model = tmp_path / "model"
    assert whisper_hailo("convert", "micro", model).returncode == 0
    data = model / "decoder.onnx.data"
    secret = tmp_path / "secret.bin"
    shutil.copy(data, secret)
    if where == "link":
        data.unlink()
        data.symlink_to(secret)
    else:
        location = str(secret) if where == "absolute" else where
        graph = onnx.load(model / "decoder.onnx", load_external_data=False)
        for tensor in graph.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
        content = graph.SerializeToString()
        (model / "decoder.onnx").write_bytes(content)
        spec = json.loads((model / "model.json").read_text(encoding="utf-8"))
        spec["files"]["decoder.onnx"]["bytes"] = len(content)
        (model / "model.json").write_text(json.dumps(spec), encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.returncode == 4, result.stdout
    assert "decoder.onnx" in one_line(result)


def broken_checkpoint(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "checkpoint"
    if kind == "no checkpoint":
        path.mkdir()
        (path / "notes.txt").touch()
        return path
    shutil.copytree(MICRO, path)
    weights = path / "model.safetensors"
    if kind == "truncated":
        os.truncate(weights, weights.stat().st_size // 2)
    elif kind == "header":
        weights.write_bytes(b"\xff" * 64)
    elif kind == "pickle":
        weights.rename(path / "pytorch_model.bin")
    elif kind == "no weights":
        weights.unlink()
    elif kind == "bad config":
        (path / "config.json").write_text("{", encoding="utf-8")
    else:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        config.update(
            {"misshapen": {"d_model": 192}, "missing": {"encoder_layers": 7},
             "other": {"model_type": "bert"}}[kind]
        )  # fmt: skip
        (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no checkpoint", "config.json"),
        ("truncated", "model.safetensors"),
        ("header", "model.safetensors"),
        ("pickle", "safetensors"),
        ("no weights", "safetensors"),
        ("bad config", "config.json"),
        ("misshapen", "expected"),
        ("missing", "layers.6"),
        ("other", "bert"),
    ],
)
def test_broken_checkpoints(whisper_hailo: Command, tmp_path: Path, kind: str, said: str) -> None:
    checkpoint, out = broken_checkpoint(tmp_path, kind), tmp_path / "out"
    for words in (["convert", checkpoint, out], ["transcribe", "--model", checkpoint, DEMO]):
        result = whisper_hailo(*words)
        assert result.returncode == 4, result.stderr
        assert said in one_line(result)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["checkpoint"]


def test_a_truncated_graph_in_a_model_directory(whisper_hailo: Command, tmp_path: Path) -> None:
    for name in ("encoder.onnx", "cross_kv.onnx", "decoder.onnx"):
        model = tmp_path / name.partition(".")[0]
        assert whisper_hailo("convert", "micro", model).returncode == 0
        os.truncate(model / name, (model / name).stat().st_size // 2)
        result = whisper_hailo("transcribe", "--model", model, DEMO)
        assert result.returncode == 4
        assert name in one_line(result)
    (model / "model.json").write_text("{}", encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.returncode == 4
    assert "model.json" in one_line(result)
