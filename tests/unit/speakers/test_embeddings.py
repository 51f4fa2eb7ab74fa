"""Voice prints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from whisper_hailo.core.errors import ModelError
from whisper_hailo.speakers.embeddings import VoicePrintModel


def _write_graph(path: Path, output_shape: tuple[int, ...]) -> Path:
    """Write a graph that answers zeros of a shape, whatever it hears."""
    value = numpy_helper.from_array(np.zeros(output_shape, np.float32), "zeros")
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["y"], value=value)],
        "constant",
        [helper.make_tensor_value_info("any", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path)
    return path


def test_voice_print_of_another_model_is_refused(tmp_path: Path) -> None:
    path = _write_graph(tmp_path / "model.onnx", (1, 256))
    with VoicePrintModel(path, 1) as model, pytest.raises(ModelError):
        model.voice_print(np.ones((50, 80), np.float32))


def test_voice_print_has_length_one(tmp_path: Path) -> None:
    path = _write_graph(tmp_path / "model.onnx", (1, 192))
    with VoicePrintModel(path, 1) as model:
        assert model.voice_print(np.ones((50, 80), np.float32)).shape == (192,)
