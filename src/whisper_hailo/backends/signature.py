"""What goes into a graph and what comes out, read from its file without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from whisper_hailo.backends.graph_run import EXPORT_AGAIN
from whisper_hailo.backends.onnx_message import load_message
from whisper_hailo.backends.value_sizes import refuse_large_values
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.names import shown

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
            f"{shown(path)} has an input or output that cannot be used ({error}); {EXPORT_AGAIN}"
        ) from error
    if not inputs or not outputs:
        raise ModelError(
            f"{shown(path)} is no ONNX graph (nothing goes in or comes out); {EXPORT_AGAIN}"
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
