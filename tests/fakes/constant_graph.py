"""A graph that hears nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_constant_graph(path: Path, output_shape: tuple[int, ...]) -> Path:
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
