"""How large the values between a graph's nodes are, before memory is asked for them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from whisper_hailo.backends.graph_run import EXPORT_AGAIN
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.names import shown

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto

LARGEST_VALUE_BYTES: Final = 256 << 20
"""The weights of attention of `large-v3` over 30 s, 20 heads of 1,500 positions, are 180 MB."""

_SHAPES_BYTES: Final = 1024
"""Smaller constants may be shapes, which those of other values follow from."""


def refuse_large_values(model: ModelProto, path: Path) -> None:
    """Refuse a graph that makes more of its input than any Whisper does.

    Axes of any length, and what depends on values, are not known and not counted. Inputs and
    outputs are judged by who knows what they are for.

    Raises:
        ModelError: one of its values is larger than `LARGEST_VALUE_BYTES`.
    """
    from onnx import shape_inference

    try:
        graph = shape_inference.infer_shapes(_without_weights(model), data_prop=True).graph
        sizes = {value.name: _bytes(value.type) for value in graph.value_info}
    except Exception:  # what is wrong with it, the runtime says in better words
        return
    for name, size in sizes.items():
        if size > LARGEST_VALUE_BYTES:
            raise ModelError(
                f"{shown(path)} makes a value of {size >> 20} MiB ({shown(name)}), expected at "
                f"most {LARGEST_VALUE_BYTES >> 20}; {EXPORT_AGAIN}"
            )


def _without_weights(model: ModelProto) -> ModelProto:
    """The same graph with types and shapes of its weights, which are most of the bytes."""
    import onnx

    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph = light.graph
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    for weight in model.graph.initializer:
        if weight.ByteSize() <= _SHAPES_BYTES:
            graph.initializer.append(weight)
        else:
            graph.input.append(
                onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
            )
    return light


def _bytes(kind: TypeProto) -> int:
    """Of a tensor whose axes are all known; nothing otherwise."""
    import onnx

    tensor = kind.tensor_type
    axes = tensor.shape.dim
    if not tensor.elem_type or not all(axis.HasField("dim_value") for axis in axes):
        return 0
    item = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
    return int(item * math.prod(axis.dim_value for axis in axes))
