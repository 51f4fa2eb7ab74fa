"""Encoders and decoders by choice, faults of a chip, and models that are refused."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import (
    ASSETS,
    DEMO,
    DEMO_TEXT,
    PATIENCE_S,
    ROOT,
    Command,
    one_line,
)
from whisper_hailo_lab.score import score_texts

MICRO = ASSETS / "micro"


@pytest.fixture(scope="module")
def model(micro_hailo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`micro` with graphs of fixed sizes."""
    return shutil.copytree(micro_hailo, tmp_path_factory.mktemp("backends") / "micro")


def transcribe_demo(whisper_hailo: Command, *words: object) -> dict[str, object]:
    result = whisper_hailo("transcribe", "--json", "--threads", 1, *words, DEMO)
    assert result.returncode == 0, result.stderr
    printed: dict[str, object] = json.loads(result.stdout)
    assert score_texts([(DEMO_TEXT, str(printed["text"]))]).words.rate <= 0.1, printed[
        "text"
    ]
    return printed["settings"]  # type: ignore[return-value]


def test_transcribe_fixed_graphs_give_the_words(
    whisper_hailo: Command, model: Path
) -> None:
    encoder = model / "hailo" / "encoder-10s.onnx"
    decoder = model / "hailo" / "decoder-10s-32.onnx"
    settings = transcribe_demo(
        whisper_hailo, "--model", model, "--encoder", encoder, "--decoder", decoder,
    )  # fmt: skip
    assert settings["encoder"] == "onnx-10s-fp32"
    assert settings["decoder"] == "fixed-fp32"
    assert settings["pad_to"] == 500
    assert settings["repetition_penalty"] == 1.5
    assert settings["reasons"] == [
        f"encoder onnx-10s-fp32: {encoder} is given",
        f"decoder fixed-fp32: {decoder} is given",
    ]
    assert settings["windows"] == "consecutive"
    settings = transcribe_demo(whisper_hailo, "--model", model, "--encoder", encoder)
    assert settings["decoder"] == "cached-int8"
    assert settings["pad_to"] == 1500


def test_transcribe_decoder_of_another_directory_is_used(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    small = tmp_path / "int8"
    made = whisper_hailo(
        "convert", MICRO, small, "--quantize", "int8", "--encoder-quantize", "none"
    )
    assert made.returncode == 0, made.stderr
    settings = transcribe_demo(whisper_hailo, "--model", model, "--decoder", small)
    assert settings["decoder"] == "cached-int8"
    assert settings["quantization"] == "int8"


def test_transcribe_needs_description_and_two_graphs(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    for file in MICRO.glob("*.json"):
        shutil.copy(file, tmp_path)
    graphs = model / "hailo"
    transcribe_demo(
        whisper_hailo, "--model", tmp_path, "--encoder", graphs / "encoder-10s.onnx",
        "--decoder", graphs / "decoder-10s-32.onnx",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "datum"),
    [
        (["--decoder-backend", "fixed", "--window", "30"], 4, "--window 30"),
        (["--encoder", "{model}/hailo/encoder-10s.onnx", "--window", "30"], 2, "--window is 30 s"),
        (["--decoder-backend", "fixed", "--config", "{model}/pad.toml"], 2, "pad-to is 1500"),
        (["--decoder", "{model}/encoder.onnx"], 4, "encoder.onnx"),
        (["--tokenizer", "{model}/model.json"], 4, "model.json"),
    ],
)  # fmt: skip
def test_transcribe_contradictory_options_are_one_line(  # noqa: PLR0917
    whisper_hailo: Command,
    model: Path,
    tmp_path: Path,
    words: list[str],
    code: int,
    datum: str,
) -> None:
    words = [word.format(model=model) for word in words]
    (model / "pad.toml").write_text("pad-to = 1500\n")
    (tmp_path / "nothing.wav").write_text("no sound")
    result = whisper_hailo(
        "transcribe", "--model", model, *words, tmp_path / "nothing.wav"
    )
    assert result.returncode == code, result.stderr
    assert datum in one_line(result)
    assert not result.stdout


def test_transcribe_ctranslate2_decoder_is_refused(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.bin").touch()
    result = whisper_hailo("transcribe", "--model", model, "--decoder", tmp_path, DEMO)
    assert result.returncode == 4
    assert "decoder_model_merged.onnx" in one_line(result)


@pytest.mark.parametrize("streams", [1, 3])
def test_device_faults_at_random_points_give_no_wrong_text(
    environment: dict[str, str], streams: int
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.device_faults",
        "--json",
    ]
    # Enough for recordings of each stream to run between them.
    n_faults = 12 * streams
    command += ["--faults", str(n_faults), "--seed", "7", "--streams", str(streams)]
    env = {**environment, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    facts = json.loads(process.stdout)
    assert facts["faults"] >= n_faults
    assert facts["right_text"] > 0
    assert facts["wrong_text"] == 0
    assert facts["right_text"] + sum(facts["reported"].values()) == facts["files"]


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
