"""Graphs of other programs whose inputs are watched, deep ones of a toy, and constant ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.onnx_graph import Graph, write_graph

TOLD: Final[tuple[tuple[str, int, list[str | int | None], float], ...]] = (
    ("encoder_hidden_states", TensorProto.FLOAT, ["b", "t", 8], 1.0),
    ("encoder_attention_mask", TensorProto.INT64, ["b", "t"], 0.1),
    ("decoder_attention_mask", TensorProto.INT64, ["b", "n_all"], 1.0),
    ("position_ids", TensorProto.INT64, ["b", "n"], 10.0),
)
"""Inputs of exports of 2022, at every step, and what their sums are weighed with."""
DEEP = replace(TOY, n_encoder_layers=3)


def add_what_it_is_told(model: ModelProto) -> None:
    """Let a decoder take `TOLD`, and add the weighed sum of each row's to all of its logits."""
    node = helper.make_node
    graph = model.graph
    so_far = "logits.plain"
    _rename_output(model, "logits", so_far)
    for name, dtype, shape, weight in TOLD:
        graph.input.append(helper.make_tensor_value_info(name, dtype, shape))
        parts = {
            "rows": np.array([0, 1, -1]),
            "axis": np.array([2]),
            "weight": np.float32(weight),
        }
        graph.initializer.extend(
            numpy_helper.from_array(np.asarray(array), f"{name}.{part}")
            for part, array in parts.items()
        )
        after = "logits" if name == TOLD[-1][0] else f"{name}.added"
        graph.node.extend(
            [
                node("Cast", [name], [f"{name}.float"], to=TensorProto.FLOAT),
                node("Reshape", [f"{name}.float", f"{name}.rows"], [f"{name}.line"]),
                node("ReduceSum", [f"{name}.line", f"{name}.axis"], [f"{name}.sum"]),
                node("Mul", [f"{name}.sum", f"{name}.weight"], [f"{name}.weighed"]),
                node("Add", [so_far, f"{name}.weighed"], [after]),
            ]
        )
        so_far = after


def in_float16(model: ModelProto, names: Collection[str]) -> None:
    """Let some inputs and outputs of a graph be of float16; between them it computes as before."""
    graph = model.graph
    half = TensorProto.FLOAT16
    full = TensorProto.FLOAT
    for value in (*graph.input, *graph.output):
        if value.name in names:
            value.type.tensor_type.elem_type = half
    for name in {value.name for value in graph.input} & set(names):
        for node in graph.node:
            node.input[:] = [
                f"{name}.full" if taken == name else taken for taken in node.input
            ]
        graph.node.insert(
            0, helper.make_node("Cast", [name], [f"{name}.full"], to=full)
        )
    for name in {value.name for value in graph.output} & set(names):
        _rename_output(model, name, f"{name}.full")
        graph.node.append(helper.make_node("Cast", [f"{name}.full"], [name], to=half))


def _rename_output(model: ModelProto, old: str, new: str) -> None:
    for node in model.graph.node:
        node.output[:] = [new if made == old else made for made in node.output]


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


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    arrays = random_arrays(DEEP)
    config = config_of(DEEP, TOY_FFN)
    return Checkpoint(write_checkpoint(tmp_path / "checkpoint", arrays, config=config))


def open_session(graph: Graph, path: Path) -> onnxruntime.InferenceSession:
    """Write a graph, check it, and open it on the CPU."""
    write_graph(graph, path)
    onnx.checker.check_model(path, full_check="MatMulNBits" not in path.name)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
