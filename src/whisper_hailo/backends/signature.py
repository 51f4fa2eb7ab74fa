"""What goes into a graph and what comes out, read from its file without loading it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from whisper_hailo.backends.onnx_message import load_message
from whisper_hailo.backends.session import EXPORT_AGAIN
from whisper_hailo.core.errors import ModelError, display_path

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
                f"{display_path(path)} makes a value of {size >> 20} MiB ({display_path(name)}), "
                f"expected at most {LARGEST_VALUE_BYTES >> 20}; {EXPORT_AGAIN}"
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


Axis: TypeAlias = int | str
"""A number, or the name of an axis of any length; unnamed ones are `?`."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output.

    Attributes:
        shape: its axes.
        dtype: NumPy's name of its element type, such as `float32`.
    """

    shape: tuple[Axis, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of a graph by name, in its order.

    Attributes:
        signed_codes: it has weights in 8 bits with a sign, in a branch perhaps.
    """

    path: Path
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    signed_codes: bool = False

    def describe(self) -> str:
        """Inputs in one line, for messages."""
        return ", ".join(
            f"{name} ({', '.join(map(str, port.shape))}) {port.dtype}"
            for name, port in self.inputs.items()
        )


def read_signature(path: Path) -> Signature:
    """Read the inputs and outputs of an ONNX file; weights beside it are not touched.

    Raises:
        ModelError: no such file, no ONNX graph, or one that no memory is enough for.
    """
    model = load_message(path)
    refuse_large_values(model, path)
    graph = model.graph
    try:
        given = {weight.name for weight in graph.initializer}
        inputs = {value.name: _port(value) for value in graph.input if value.name not in given}
        outputs = {value.name: _port(value) for value in graph.output}
    except (ValueError, KeyError, TypeError) as error:  # types that ONNX does not know, too
        raise ModelError(
            f"{display_path(path)} has an input or output that cannot be used ({error}); "
            f"{EXPORT_AGAIN}"
        ) from error
    if not inputs or not outputs:
        raise ModelError(
            f"{display_path(path)} is no ONNX graph (nothing goes in or comes out); {EXPORT_AGAIN}"
        )
    return Signature(path, inputs, outputs, _has_signed_codes(graph))


def _has_signed_codes(graph: Any) -> bool:  # noqa: ANN401 - a generated protobuf class
    import onnx

    if any(weight.data_type == onnx.TensorProto.INT8 for weight in graph.initializer):
        return True
    branches = (attribute.g for node in graph.node for attribute in node.attribute)
    return any(_has_signed_codes(branch) for branch in branches if branch.node)


def _port(value: Any) -> Port:  # noqa: ANN401 - a generated protobuf class
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return Port(tuple(_axis(dim) for dim in tensor.shape.dim), dtype)


def _axis(dim: Any) -> Axis:  # noqa: ANN401 - a generated protobuf class
    if not dim.HasField("dim_value"):
        return str(dim.dim_param or "?")
    size = int(dim.dim_value)
    if size < 0:
        raise ValueError(f"an axis of {size}")
    return size
