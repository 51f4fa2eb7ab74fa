"""The float64 reference against Transformers, and the matching of graphs that torch traced.

Tolerance 1e-5 relative to max(1, largest reference value): Transformers computes in float32.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
import soundfile
from onnx import numpy_helper

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.validate.options import ValidateOptions
from whisper_hailo.validate.reference import Reference
from whisper_hailo.validate.validate import validate

torch = pytest.importorskip("torch", reason="parity with Transformers needs torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs, not ours
    pytest.importorskip("transformers", reason="parity with Transformers needs transformers")
    from benchmarks.rivals.torch_export import Decoder, Encoder

    from tests.parity import checkpoints, reference

if TYPE_CHECKING:
    from transformers import WhisperForConditionalGeneration

pytestmark = pytest.mark.filterwarnings("default")

TOLERANCE = 1e-5
WINDOW_S, LENGTH = 2, 7


@dataclass(frozen=True)
class Pair:
    """A model in both worlds."""

    torch_model: WhisperForConditionalGeneration
    checkpoint: Path
    directory: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("validate")
    model = checkpoints.save_random(folder / "checkpoint", checkpoints.SMALL)
    sizes = HailoOptions(window_s=WINDOW_S, decoder_length=LENGTH)
    convert_checkpoint(folder / "checkpoint", folder / "model", ConvertOptions("none", hailo=sizes))
    return Pair(model, folder / "checkpoint", folder / "model")


def test_reference_features(pair: Pair) -> None:
    mel = np.random.default_rng(0).standard_normal((2, 80, 400)).astype(np.float32)
    got = Reference(Checkpoint(pair.checkpoint)).encode(mel)
    expected = reference.encode(pair.torch_model, mel)
    assert reference.relative_difference(got, expected) < TOLERANCE


@pytest.mark.parametrize("pad_to", [None, 300])
def test_reference_logits(pair: Pair, pad_to: int | None) -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((2, 200, 128)).astype(np.float32)
    tokens = rng.integers(0, 320, (2, 9))
    got = Reference(Checkpoint(pair.checkpoint)).logits(tokens, features, pad_to or 0)
    expected = reference.logits(pair.torch_model, tokens, features, pad_to)
    assert reference.relative_difference(got, expected) < TOLERANCE


def _traced(pair: Pair, part: str, path: Path) -> Path:
    """A half of the model through torch's own exporter."""
    mel = torch.zeros(1, 80, 100 * WINDOW_S)
    features = torch.zeros(1, 50 * WINDOW_S, 128)
    tokens = torch.zeros(1, LENGTH, dtype=torch.int64)
    half, inputs = {
        "encoder": (Encoder(pair.torch_model), (mel,)),
        "decoder": (Decoder(pair.torch_model), (tokens, features)),
    }[part]
    with torch.no_grad():
        torch.onnx.export(half, inputs, str(path), opset_version=17, dynamo=False)
    return path


def _speech(folder: Path) -> Path:
    noise = np.random.default_rng(2).standard_normal(40_000) * 0.1
    soundfile.write(folder / "noise.wav", noise, 16_000)
    return folder


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_traced_graph_is_ours_by_topology(pair: Pair, part: str, tmp_path: Path) -> None:
    path = _traced(pair, part, tmp_path / "traced.onnx")
    options = ValidateOptions(audio=_speech(tmp_path), windows=1, against=path)
    (result,) = validate(pair.directory, options).results
    assert result.status == "passed"
    assert result.nodes is not None
    assert result.nodes.first is None
    assert result.nodes.first_alone is None
    assert len(result.nodes.nodes) >= 50


def test_a_weight_that_differs_in_a_traced_graph_is_named(pair: Pair, tmp_path: Path) -> None:
    path = _traced(pair, "encoder", tmp_path / "traced.onnx")
    model = onnx.load(path)
    (bias,) = (i for i in model.graph.initializer if i.name.endswith("layers.1.fc1.bias"))
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.1), bias.name))
    onnx.save(model, path)
    options = ValidateOptions(audio=_speech(tmp_path), windows=1, against=path)
    (result,) = validate(pair.directory, options).results
    assert result.status == "failed"
    assert result.nodes is not None
    assert result.nodes.first is not None
    assert result.nodes.first.node == "encoder.layers.1.fc1"
