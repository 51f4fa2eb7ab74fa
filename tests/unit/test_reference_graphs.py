"""Graphs of the toy checkpoint, step by step, compared with results of Transformers.

The results are in `tests/references/graph.npz`, made by `tests/parity/record.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import references
from tests.checkpoints import write_checkpoint
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec

FEATURES = 1e-4
LOGITS = 1e-4
INT8_LOGITS = 0.05

Golden = dict[str, NDArray[np.float32]]


@pytest.fixture(scope="module")
def golden() -> Golden:
    with np.load(Path(references.__file__).parent / "graph.npz") as file:
        return dict(file)


def convert_model(tmp_path: Path, **options: str) -> Path:
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    convert_checkpoint(checkpoint, tmp_path / "model", ConvertOptions(**options))
    return tmp_path / "model"


def relative_difference(
    got: NDArray[np.float32], expected: NDArray[np.float32]
) -> float:
    return float(np.abs(got - expected).max() / max(1.0, float(np.abs(expected).max())))


def test_encoder_features_equal_transformers(tmp_path: Path, golden: Golden) -> None:
    directory = convert_model(tmp_path, quantize="none")
    with OnnxEncoder(directory, ModelSpec.load(directory), threads=1) as encoder:
        assert (
            relative_difference(encoder.encode(golden["mel"]), golden["features"])
            < FEATURES
        )


@pytest.mark.parametrize(
    ("quantize", "tolerance"), [("none", LOGITS), ("int8", INT8_LOGITS)]
)
def test_decoder_logits_equal_transformers(
    tmp_path: Path, golden: Golden, quantize: str, tolerance: float
) -> None:
    directory = convert_model(tmp_path, quantize=quantize, encoder_quantize="none")
    tokens = golden["tokens"].astype(np.int64)
    with CachedDecoder(directory, ModelSpec.load(directory), threads=1) as decoder:
        for pad_to, expected in zip(golden["pads"], golden["logits"], strict=True):
            state = decoder.start(golden["features"], (Padding(int(pad_to) or None),))
            for i in range(tokens.shape[1]):
                out, state = decoder.step(tokens[:, i : i + 1], state, np.array([0]))
                assert relative_difference(out.logits[0, 0], expected[i]) < tolerance
