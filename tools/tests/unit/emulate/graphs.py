"""Graphs of a few nodes, whose emulation can be worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from whisper_hailo_tools.emulate.statistics import Histogram

WEIGHT = np.array([[1.0, 0.03], [-0.5, 0.01]], np.float32)
BIAS = np.array([0.1234567, -0.7654321], np.float32)
POSITIONS = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)


def model_of(nodes: list[Any], weights: dict[str, Any], opset: int = 17) -> ModelProto:
    """A graph from `x` to `y`, `(1, 2, 2)` or, with a newer opset, of any shape of three axes."""
    shape = [1, 2, 2] if opset == 17 else [None] * 3
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(np.asarray(array), name)
            for name, array in weights.items()
        ],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=9 if opset == 17 else 10
    )


def residual() -> ModelProto:
    """`y = x + (x @ WEIGHT + BIAS)`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "product"),
        helper.make_node("Add", ["product", "b"], ["linear"], "linear"),
        helper.make_node("Add", ["x", "linear"], ["y"], "sum"),
    ]
    return model_of(nodes, {"w": WEIGHT, "b": BIAS})


def normed() -> ModelProto:
    """`y = x + norm(x)`, whose sum wants more of `x` than the norm does."""
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s", "b"], ["normed"], "norm"),
        helper.make_node("Add", ["x", "normed"], ["y"], "sum"),
    ]
    return model_of(nodes, {"s": np.ones(2, np.float32), "b": BIAS})


def normed_sum() -> ModelProto:
    """`y = norm(x + POSITIONS)`, whose sum only the norm reads."""
    nodes = [
        helper.make_node("Add", ["x", "p"], ["sum"], "sum"),
        helper.make_node("LayerNormalization", ["sum", "s", "b"], ["y"], "norm"),
    ]
    weights = {"p": POSITIONS, "s": np.ones(2, np.float32), "b": BIAS}
    return model_of(nodes, weights)


def positions() -> ModelProto:
    """`y = x + POSITIONS`, a constant that is no bias."""
    return model_of(
        [helper.make_node("Add", ["x", "p"], ["y"], "sum")], {"p": POSITIONS}
    )


def statistics(**ranges: tuple[float, float]) -> dict[str, Histogram]:
    """Statistics whose tensors span these ranges."""
    tensors = {}
    for name, span in ranges.items():
        tensors[name] = Histogram()
        tensors[name].add(np.array(span))
    return tensors


def run(model: ModelProto, x: Any, *, optimize: bool = True) -> Any:
    """The graph's output, with and without the runtime's optimiser."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": np.asarray(x, np.float32)})[0]
