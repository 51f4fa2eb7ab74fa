"""Graphs for the Hailo compiler: the real commands on the bundled model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import DEMO, Command, one_line


@pytest.fixture(scope="module")
def model(micro_hailo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(micro_hailo, tmp_path_factory.mktemp("hailo") / "micro")


def test_convert_hailo_directory_still_transcribes(
    whisper_hailo: Command, model: Path
) -> None:
    plain = whisper_hailo("transcribe", "--model", "micro", DEMO)
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.stdout.strip()
    assert result.stdout == plain.stdout


def test_convert_hailo_writes_the_host_s_arrays(model: Path) -> None:
    folder = model / "decoder_assets" / "micro" / "decoder_tokenization"
    table = np.load(folder / "token_embedding_weight_micro.npy")
    rows = np.load(folder / "onnx_add_input_micro.npy")
    assert table.shape == (51865, 128)
    assert rows.shape == (32, 128)


def test_inspect_lists_the_forms(whisper_hailo: Command, model: Path) -> None:
    facts = json.loads(whisper_hailo("inspect", model).stdout)
    assert set(facts["hailo"]) == {
        "hailo/encoder-10s.onnx",
        "hailo/decoder-10s-32.onnx",
    }
    assert facts["hailo"]["hailo/decoder-10s-32.onnx"]["length"] == 32
    assert {record["state"] for record in facts["files"].values()} == {"ok"}


def test_check_blocks_only_dynamic_graphs(whisper_hailo: Command, model: Path) -> None:
    for name in ("encoder-10s", "decoder-10s-32"):
        result = whisper_hailo(
            "check", "--json", model / "hailo" / f"{name}.onnx", "--arch", "hailo8l"
        )
        assert result.returncode == 0, result.stdout
        assert json.loads(result.stdout)["blocked"] is False
    result = whisper_hailo(
        "check", "--json", model / "encoder.onnx", "--arch", "hailo8"
    )
    assert result.returncode == 4
    report = json.loads(result.stdout)
    assert report["blocked"] is True
    assert "conv1d" in {finding["rule"] for finding in report["findings"]}
    result = whisper_hailo("check", model / "decoder.onnx", "--arch", "hailo8")
    assert result.returncode == 4
    assert "[table-lookup]" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--hailo", "--window", "2.5"], "--window is 2.5"),
        (["--hailo", "--window", "0"], "--window is 0"),
        (["--hailo", "--window", "31"], "1 to 30"),
        (["--hailo", "--decoder-length", "449"], "1 to 448"),
        (["--window", "5"], "--hailo"),
        (["--decoder-length", "8"], "--hailo"),
    ],
)
def test_convert_impossible_sizes_are_one_line(
    whisper_hailo: Command, tmp_path: Path, words: list[str], expected: str
) -> None:
    result = whisper_hailo("convert", "micro", tmp_path / "out", *words)
    assert result.returncode == 2
    assert expected in one_line(result)
    assert not list(tmp_path.iterdir())


def test_check_of_broken_graph_is_one_line(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short.onnx"
    short.write_bytes((model / "hailo" / "encoder-10s.onnx").read_bytes()[:9999])
    for path in (short, tmp_path / "none.onnx"):
        result = whisper_hailo("check", path, "--arch", "hailo8")
        assert result.returncode == 4
        assert path.name in one_line(result)
    encoder = model / "hailo" / "encoder-10s.onnx"
    for words in (["--arch", "hailo9"], ["--arch", "hailo8", "--end", "nowhere"], []):
        result = whisper_hailo("check", encoder, *words)
        assert result.returncode == 2
        assert one_line(result)
