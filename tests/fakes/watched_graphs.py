"""Graphs of other programs, changed so that it shows what they are fed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

TOLD: Final[tuple[tuple[str, int, list[str | int | None], float], ...]] = (
    ("encoder_hidden_states", TensorProto.FLOAT, ["b", "t", 8], 1.0),
    ("encoder_attention_mask", TensorProto.INT64, ["b", "t"], 0.1),
    ("decoder_attention_mask", TensorProto.INT64, ["b", "n_all"], 1.0),
    ("position_ids", TensorProto.INT64, ["b", "n"], 10.0),
)
"""Inputs of exports of 2022, at every step, and what their sums are weighed with."""


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
