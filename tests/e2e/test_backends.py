"""Encoders and decoders by choice, on real graphs of the bundled model, and faults of a chip."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

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
