"""ONNX files from strangers, read without loading them: messages, inputs and outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from whisper_hailo.backends.session import EXPORT_AGAIN
from whisper_hailo.core.errors import ModelError, display_path

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto

_AGAIN: Final = "convert or export it again"

_NEWEST_OPSET: Final = 1000
"""Higher than there will be; more than a C++ integer holds is an error of its own."""


def load_message(path: Path) -> ModelProto:
    """Load an ONNX file; weights in files beside it are left there."""
    return parse_message(read_graph_bytes(path), str(path))


def read_graph_bytes(path: Path) -> bytes:
    """Read an ONNX file."""
    if path.is_dir():
        raise ModelError(
            f"{display_path(path)} is a directory, expected an ONNX file, such as one in its hailo/"
        )
    if not path.is_file():
        what = "is no plain file" if path.exists() else "does not exist"
        raise ModelError(f"{display_path(path)} {what}; give an ONNX file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{display_path(path)} cannot be read ({error.strerror}); give an ONNX file"
        ) from error


def parse_message(encoded: bytes, name: str) -> ModelProto:
    """Parse an ONNX file's bytes."""
    import onnx

    try:
        model = onnx.load_model_from_string(encoded)
    except Exception as error:  # protobuf's decoder raises its own family
        raise ModelError(
            f"{name} is no ONNX file, or cut short ({type(error).__name__}); {_AGAIN}"
        ) from error
    if not model.graph.node:
        raise ModelError(f"{name} holds no ONNX graph: it has no node; {_AGAIN}")
    # The library hands over bytes where text should be that is no UTF-8.
    strange = next((one for one in _names(model.graph) if not isinstance(one, str)), None)
    if strange is not None:
        raise ModelError(f"{name} has a name that is no text ({strange[:40]!r}); {_AGAIN}")
    opsets = {_domain(entry): min(entry.version, _NEWEST_OPSET) for entry in model.opset_import}
    short = next((node for node in model.graph.node if _is_short(node, opsets)), None)
    if short is not None:
        raise ModelError(
            f"{name} has a node {short.op_type[:40]!r} with {len(short.input)} inputs and "
            f"{len(short.output)} outputs, less than it needs; {_AGAIN}"
        )
    return model


def _is_short(node: NodeProto, opsets: dict[str, int]) -> bool:
    """Return whether a node lacks inputs or outputs that its operator requires."""
    from onnx import defs

    try:
        schema = defs.get_schema(node.op_type, opsets.get(_domain(node), 0), _domain(node))
    except defs.SchemaError:  # of another program, or of another opset
        return not node.output
    return len(node.input) < schema.min_input or len(node.output) < schema.min_output


def _domain(item: NodeProto | OperatorSetIdProto) -> str:
    """Return the domain of operators; the standard one has two names."""
    return "" if item.domain == "ai.onnx" else item.domain


def _names(graph: GraphProto) -> Iterator[str]:
    """Yield all names in a graph."""
    for node in graph.node:
        yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (axis.dim_param for axis in value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


Axis: TypeAlias = int | str
"""A number, or the name of an axis of any length; unnamed ones are `?`."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output; `dtype` is NumPy's name of its element type, such as `float32`."""

    shape: tuple[Axis, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of a graph by name, in its order.

    `signed_codes`: it has weights in 8 bits with a sign, in a branch perhaps.
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
    """Read the inputs and outputs of an ONNX file; weights beside it are not touched."""
    model = load_message(path)
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


def _has_signed_codes(graph: GraphProto) -> bool:
    from onnx import TensorProto

    weights = (weight for branch in _branches(graph) for weight in branch.initializer)
    return any(weight.data_type == TensorProto.INT8 for weight in weights)


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


_WEIGHTS = 1
"""Place of the weights among the inputs of a product."""

_ZEROS = {"MatMulInteger": 3, "DynamicQuantizeMatMul": 3, "MatMulIntegerToFloat": 5}
"""Products in 8 bits, with the place of the weights' code for zero."""

_MIDDLE = 128
_MIDDLE_NAME = "code_of_zero_without_sign"


def unsigned_graph(path: Path) -> bytes:
    """Return a graph of signed 8-bit weights as one that no processor cuts off.

    The runtime does this itself where it is asked to, but only for weights that lie in the same
    graph as their product. Optimum's merged decoders have the products in both branches and the
    weights outside.
    """
    import onnx

    try:
        model = onnx.load(str(path))
        if without_signs(model):
            return bytes(model.SerializeToString())
        reason = "its 8-bit weights are read by other operators than known ones"
    except Exception as error:  # protobuf's decoder has exception classes of its own
        reason = " ".join(str(error).split())[:120]
    raise ModelError(
        f"{display_path(path)} cannot be computed exactly by this processor, which has no VNNI "
        f"({reason}); use an export that is not merged, or convert the checkpoint with --quantize "
        "int8"
    )


def without_signs(model: ModelProto) -> int:
    """Turn the signed codes of products into unsigned ones, in place: the same values.

    Weights that something else reads, too, or that lie in another file keep their sign. Return how
    many were turned.
    """
    from onnx import TensorProto, numpy_helper

    graphs = list(_branches(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    signed = {
        tensor.name: tensor
        for graph in graphs
        for tensor in graph.initializer
        if tensor.data_type == TensorProto.INT8 and tensor.data_location != TensorProto.EXTERNAL
    }
    users: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for node in nodes:
        for place, name in enumerate(node.input):
            users[name].add((node.op_type, place))
    as_weights = {(product, _WEIGHTS) for product in _ZEROS}
    turned = {name for name in signed if users[name] and users[name] <= as_weights}
    zeros = {_zero_of(node) for node in nodes if _is_product_of(node, turned)} - {""}
    known = all(users[name] <= set(_ZEROS.items()) and name in signed for name in zeros)
    if not (turned and known):
        return 0
    for name in turned | zeros:
        _turn(signed[name])
    model.graph.initializer.append(
        numpy_helper.from_array(np.array(_MIDDLE, np.uint8), _MIDDLE_NAME)
    )
    for node in nodes:
        if _is_product_of(node, turned) and not _zero_of(node):
            place = _ZEROS[node.op_type]
            node.input.extend([""] * (place + 1 - len(node.input)))
            node.input[place] = _MIDDLE_NAME
    return len(turned)


def _branches(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _branches(attribute.g)


def _is_product_of(node: NodeProto, weights: set[str]) -> bool:
    return node.op_type in _ZEROS and node.input[_WEIGHTS] in weights


def _zero_of(node: NodeProto) -> str:
    place = _ZEROS[node.op_type]
    return str(node.input[place]) if len(node.input) > place else ""


def _turn(tensor: Any) -> None:  # noqa: ANN401 - a generated protobuf class
    from onnx import numpy_helper

    codes = numpy_helper.to_array(tensor).astype(np.int16) + _MIDDLE
    tensor.CopyFrom(numpy_helper.from_array(codes.astype(np.uint8), tensor.name))
