"""Broken, hostile and nonsensical models: one clear line, nothing half-written."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import ASSETS, DEMO, Command, one_line

MICRO = ASSETS / "micro"


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, ()), (np.inf, ("--quantize", "int8")), (-np.inf, ("--quantize", "int4"))],
)
def test_transcribe_infinite_weights_name_the_array(
    whisper_hailo: Command, tmp_path: Path, value: float, words: tuple[str, ...]
) -> None:
    from safetensors.numpy import load_file, save_file

    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(MICRO, checkpoint)
    arrays = load_file(checkpoint / "model.safetensors")
    arrays["model.decoder.layers.0.fc1.weight"][3, 3] = value
    save_file(arrays, checkpoint / "model.safetensors")
    result = whisper_hailo("transcribe", "--model", checkpoint, *words, "--json", DEMO)
    assert result.returncode == 4
    assert "model.decoder.layers.0.fc1.weight" in one_line(result)
    assert "Warning" not in result.stderr


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
        {"tokens": {"eot": math.inf}},
        {"tokens": {"suppress": [[]]}},
        {"dims": {"d_model": True}},
        {"quantization": {"": 3}},
    ],
)
def test_transcribe_invalid_description_is_one_line(
    *,
    whisper_hailo: Command,
    micro_model: Path,
    tmp_path: Path,
    changes: dict[str, dict[str, object]],
) -> None:
    shutil.copytree(micro_model, tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    spec = json.loads(file.read_text(encoding="utf-8"))
    for key, values in changes.items():
        spec[key] = spec[key] | values if isinstance(spec[key], dict) else values
    file.write_text(json.dumps(spec), encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", tmp_path / "model", DEMO)
    assert result.returncode == 4
    assert one_line(result)


@pytest.mark.parametrize("where", ["../secret.bin", "absolute", "link"])
def test_transcribe_external_data_outside_the_model_is_refused(
    whisper_hailo: Command, micro_model: Path, tmp_path: Path, where: str
) -> None:
    import onnx

    model = shutil.copytree(micro_model, tmp_path / "model")
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
        digest = hashlib.sha256(content).hexdigest()
        spec["files"]["decoder.onnx"] = {"bytes": len(content), "sha256": digest}
        (model / "model.json").write_text(json.dumps(spec), encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.returncode == 4, result.stdout
    assert "decoder.onnx" in one_line(result)


def write_broken_checkpoint(tmp_path: Path, kind: str) -> Path:
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
    ("kind", "datum"),
    [
        ("no checkpoint", "config.json"),
        ("truncated", "model.safetensors"),
        ("header", "model.safetensors"),
        ("pickle", "not a PyTorch file"),
        ("no weights", "safetensors"),
        ("bad config", "config.json"),
        ("misshapen", "expected"),
        ("missing", "layers.6"),
        ("other", "bert"),
    ],
)
def test_convert_broken_checkpoint_is_one_line(
    whisper_hailo: Command, tmp_path: Path, kind: str, datum: str
) -> None:
    checkpoint = write_broken_checkpoint(tmp_path, kind)
    out = tmp_path / "out"
    for words in (
        ["convert", checkpoint, out],
        ["transcribe", "--model", checkpoint, DEMO],
    ):
        result = whisper_hailo(*words)
        assert result.returncode == 4, result.stderr
        assert datum in one_line(result)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["checkpoint"]


def test_transcribe_truncated_graph_is_named(
    whisper_hailo: Command, micro_model: Path, tmp_path: Path
) -> None:
    for name in ("encoder.onnx", "cross_kv.onnx", "decoder.onnx"):
        model = shutil.copytree(micro_model, tmp_path / name.partition(".")[0])
        os.truncate(model / name, (model / name).stat().st_size // 2)
        result = whisper_hailo("transcribe", "--model", model, DEMO)
        assert result.returncode == 4
        assert name in one_line(result)
    (model / "model.json").write_text("{}", encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.returncode == 4
    assert "model.json" in one_line(result)


def test_transcribe_damaged_cache_is_converted_again(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    """A damaged byte, and a megabyte of zeros: sizes are the same, words would not be."""
    env = {"WHISPER_HAILO_CACHE": str(tmp_path / "cache")}
    command = ("transcribe", "--model", "micro", "--quantize", "int8", DEMO)
    words = whisper_hailo(*command, env=env).stdout
    (model,) = (
        path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()
    )
    for name, damage in (
        ("decoder.onnx.data", bytes(1 << 20)),
        ("model.json", b"\xff"),
    ):
        with (model / name).open("r+b") as file:
            file.seek(100)
            file.write(damage)
        healed = whisper_hailo(*command, env=env)
        assert healed.returncode == 0
        assert healed.stdout == words
        (line,) = (
            x for x in healed.stderr.splitlines() if x.startswith("converting again")
        )
        assert name in line
        assert "converting" not in whisper_hailo(*command, env=env).stderr


def test_transcribe_damaged_model_directory_is_refused(
    whisper_hailo: Command, micro_model: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(micro_model, tmp_path / "model")
    model.chmod(0o555)
    assert whisper_hailo("transcribe", "--model", model, DEMO).returncode == 0
    with (model / "decoder.onnx.data").open("r+b") as file:
        file.write(bytes(1 << 20))
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.returncode == 4
    assert "decoder.onnx.data" in one_line(result)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b"\xff\xfe",
        b'{"model": {"vocab": {"a": 1e999}}}',
        b'{"a":' * 9999,
    ],
)
def test_transcribe_invalid_tokenizer_is_named(
    whisper_hailo: Command, tmp_path: Path, content: bytes
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(MICRO, checkpoint)
    (checkpoint / "tokenizer.json").write_bytes(content)
    result = whisper_hailo("transcribe", "--model", checkpoint, DEMO)
    assert result.returncode == 4
    assert "tokenizer.json" in one_line(result)
