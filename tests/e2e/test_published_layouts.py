"""Layouts of distilled checkpoints and of large-v3-turbo, scaled down, by the real commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, Command
from tests.published_layouts import LAYOUTS, PublishedLayout, write_published

UNCHECKED = (
    "--logprob-threshold", "none", "--compression-ratio-threshold", "none",
    "--no-speech-threshold", "none", "--temperature", "0",
)  # fmt: skip
"""Keep what random weights say, which no threshold would."""


@dataclass(frozen=True)
class WrittenLayout:
    """A layout, scaled down, and its checkpoint directory."""

    layout: PublishedLayout
    directory: Path


@pytest.fixture(scope="module", params=list(LAYOUTS))
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> WrittenLayout:
    layout = LAYOUTS[request.param].scaled_down()
    directory = tmp_path_factory.mktemp("published") / request.param
    return WrittenLayout(layout, write_published(layout, directory))


def test_convert_keeps_the_layout(
    whisper_hailo: Command, written: WrittenLayout, tmp_path: Path
) -> None:
    """Alignment heads that a decoder has are kept; those of a teacher are replaced, with a word."""
    dims = written.layout.dims
    listed = written.layout.alignment_heads
    converted = whisper_hailo("convert", written.directory, tmp_path / "model")
    assert converted.returncode == 0, converted.stderr
    spec = json.loads((tmp_path / "model" / "model.json").read_text())
    assert spec["dims"]["n_mels"] == dims.n_mels
    assert spec["dims"]["n_vocab"] == dims.n_vocab
    assert spec["dims"]["n_decoder_layers"] == dims.n_decoder_layers
    has_listed = all(layer < dims.n_decoder_layers for layer, _ in listed)
    assert ("alignment heads" in converted.stderr) is not has_listed
    heads = [tuple(pair) for pair in spec["alignment_heads"]]
    if has_listed:
        assert heads == sorted(listed)
    else:
        upper_half = range(dims.n_decoder_layers // 2, dims.n_decoder_layers)
        assert {layer for layer, _ in heads} == set(upper_half)
        assert len(heads) == len(upper_half) * dims.n_decoder_heads


def test_transcribe_of_a_checkpoint_directory_times_words(
    whisper_hailo: Command, written: WrittenLayout
) -> None:
    result = whisper_hailo(
        "transcribe", "--model", written.directory, "-l", "en", "--word-timestamps",
        "--json", *UNCHECKED, DEMO,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    transcript = json.loads(result.stdout)
    tokens = [token for entry in transcript["segments"] for token in entry["tokens"]]
    assert tokens
    assert max(tokens) < written.layout.dims.n_vocab
    words = [
        word for entry in transcript["segments"] for word in entry.get("words", ())
    ]
    assert words
    starts_s = [word["start"] for word in words]
    assert starts_s == sorted(starts_s)
    assert max(word["end"] for word in words) <= transcript["duration"]


def test_validate_of_hailo_forms_passes(
    whisper_hailo: Command, written: WrittenLayout, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    converted = whisper_hailo(
        "convert", written.directory, model, "--hailo", "--window", "10",
        "--quantize", "int8", "--encoder-quantize", "int8",
    )  # fmt: skip
    assert converted.returncode == 0, converted.stderr
    result = whisper_hailo(
        "validate", model, "--checkpoint", written.directory, "--windows", "1"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    rungs = json.loads((model / "parity.json").read_text())["rungs"]
    passed = {
        (rung["rung"], rung["part"]) for rung in rungs if rung["status"] == "passed"
    }
    assert {("float32", "encoder"), ("float32", "decoder")} <= passed
    assert {("hailo-form", "encoder"), ("hailo-form", "decoder")} <= passed
