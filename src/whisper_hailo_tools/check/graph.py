"""An ONNX file of any origin, read without its weights' values: nodes, shapes, sizes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from whisper_hailo.backends.onnx_file import load_message
from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.files import resolve_within

SMALL_BYTES = 1024
"""Constants up to this size are kept: shape inference reads Reshape's target and its like."""

_VALUE_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """What is known of a value of the graph.

    Attributes:
        dtype: ONNX element type, 0 when unknown.
        shape: `None` for an axis that is not a number; `None` as a whole when even the rank is
            unknown.
    """

    dtype: int = 0
    shape: Shape | None = None

    @property
    def static(self) -> bool:
        """Whether every axis is a number."""
        return self.shape is not None and None not in self.shape

    @property
    def dtype_name(self) -> str:
        """Element type as ONNX calls it, such as `int64`."""
        known = TensorProto.DataType.items()
        return next((name.lower() for name, number in known if number == self.dtype), "unknown")

    @property
    def text(self) -> str:
        """The shape as a person writes it."""
        if self.shape is None:
            return "unknown rank"
        return f"({', '.join('?' if axis is None else str(axis) for axis in self.shape)})"


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """A graph as the rules look at it.

    Attributes:
        opsets: operator domain to version; the standard domain is the empty string.
        weights: initializer to what it is.
        tensors: every value to what is known of it.
        producers: value to the index of the node that makes it.
    """

    path: Path
    nodes: tuple[NodeProto, ...]
    ir_version: int
    opsets: dict[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: dict[str, Tensor]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)

    def tensor(self, name: str) -> Tensor:
        """Return what is known of a value."""
        return self.tensors.get(name, Tensor())

    def label(self, index: int) -> str:
        """Return a node's name, or what it makes where an exporter left it nameless."""
        node = self.nodes[index]
        return node.name or f"the node that makes {node.output[0]}"


def load_graph(path: Path) -> OnnxGraph:
    """Read an ONNX file and infer its shapes."""
    model = load_message(path)
    weights = {
        item.name: Tensor(item.data_type, tuple(item.dims)) for item in model.graph.initializer
    }
    for item in model.graph.initializer:
        check_external_data(item, path)
        _forget_values(item)
    inferred = _inferred(model, path)
    proto = inferred.graph
    values = (*proto.input, *proto.output, *proto.value_info)
    tensors = {value.name: _tensor(value) for value in values} | weights
    producers = {
        name: index for index, node in enumerate(proto.node) for name in node.output if name
    }
    graph = OnnxGraph(
        path=path,
        nodes=tuple(proto.node),
        ir_version=model.ir_version,
        opsets={entry.domain.replace("ai.onnx", ""): entry.version for entry in model.opset_import},
        inputs=tuple(value.name for value in proto.input if value.name not in weights),
        outputs=tuple(value.name for value in proto.output),
        weights=weights,
        tensors=tensors,
        producers=producers,
    )
    _check_wiring(graph)
    return graph


def check_external_data(item: TensorProto, path: Path) -> None:
    """The data file beside the graph has the weight's bytes; it is a plain relative path."""
    if item.data_location != TensorProto.EXTERNAL:
        return
    fields = {entry.key: entry.value for entry in item.external_data}
    location = fields.get("location", "")
    try:
        data = resolve_within(path.parent, location)
    except ModelError as error:
        raise ModelError(
            f"{display_path(path)}: weight {item.name} lies in {location[:200]!r}, expected a file "
            "beside it"
        ) from error
    try:
        offset, length = int(fields.get("offset", 0)), int(fields.get("length", 0))
    except ValueError as error:
        raise ModelError(
            f"{display_path(path)}: weight {item.name} has a broken place ({error})"
        ) from error
    size = data.stat().st_size if data.is_file() else -1
    if size < offset + length:
        state = (
            "is missing" if size < 0 else f"has {size} bytes, expected {offset + length} or more"
        )
        raise ModelError(
            f"{display_path(path)}: weight {item.name} lies in {display_path(data.name)}, which "
            f"{state}; it must stay beside the graph, whole"
        )


def _forget_values(item: TensorProto) -> None:
    """Drop a large weight's values: inference needs its shape, and copies all it is given."""
    if item.data_location == TensorProto.EXTERNAL or _nbytes(item) <= SMALL_BYTES:
        return
    item.ClearField("raw_data")
    for name in _VALUE_FIELDS:
        item.ClearField(name)
    item.data_location = TensorProto.EXTERNAL
    item.external_data.add(key="location", value="forgotten")


def _nbytes(item: TensorProto) -> int:
    count = int(np.prod(item.dims, dtype=np.int64))
    try:
        width = onnx.helper.tensor_dtype_to_np_dtype(item.data_type).itemsize
    except (KeyError, TypeError, ValueError):
        width = 1
    return count * width


def _inferred(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # the library raises bare RuntimeErrors of its C++ side
        reason = str(error).splitlines()[0][:160]
        raise ModelError(
            f"{display_path(path)} is not a consistent ONNX graph ({reason}); export it again"
        ) from error


def _tensor(value: Any) -> Tensor:  # noqa: ANN401 - onnx.ValueInfoProto
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return Tensor(kind.elem_type)
    axes = tuple(
        axis.dim_value if axis.HasField("dim_value") and axis.dim_value > 0 else None
        for axis in kind.shape.dim
    )
    return Tensor(kind.elem_type, axes)


def _check_wiring(graph: OnnxGraph) -> None:
    """Every value that a node reads is made somewhere."""
    known = graph.producers.keys() | graph.weights.keys() | set(graph.inputs)
    for index, node in enumerate(graph.nodes):
        missing = _first_missing(node.input, known)
        if missing is not None:
            raise ModelError(
                f"{display_path(graph.path)}: {graph.label(index)} reads {missing}, which no node, "
                "input or weight provides; the graph is broken, export it again"
            )


def _first_missing(names: Sequence[str], known: set[str]) -> str | None:
    return next((name for name in names if name and name not in known), None)


@dataclass(frozen=True, slots=True)
class Section:
    """What lies between start and end.

    Attributes:
        nodes: indices of its nodes, in the graph's order.
        starts: start nodes or values, as named.
        ends: end nodes or values, as named.
        entries: values that enter it.
        strays: graph inputs that it needs although no start leads to them.
        unused: starts that no end depends on.
        foldable: indices of nodes whose result is a constant once shapes are numbers.
    """

    nodes: tuple[int, ...]
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    entries: tuple[str, ...]
    strays: tuple[str, ...]
    unused: tuple[str, ...]
    foldable: frozenset[int]


def cut(graph: OnnxGraph, starts: Sequence[str] = (), ends: Sequence[str] = ()) -> Section:
    """Find the nodes between `starts` and `ends`.

    Args:
        graph: where to look.
        starts: names of nodes or values; empty means the graph's inputs.
        ends: names of nodes or values; empty means the graph's outputs.
    """
    starts = tuple(starts) or graph.inputs
    ends = tuple(ends) or graph.outputs
    by_start = {name: _entering(graph, name, "--start") for name in starts}
    entries = tuple(dict.fromkeys(value for values in by_start.values() for value in values))
    nodes, reached = _ancestors(graph, [_ending(graph, name) for name in ends], set(entries))
    unused = tuple(name for name, values in by_start.items() if not reached & set(values))
    strays = tuple(name for name in graph.inputs if name in reached and name not in entries)
    foldable = _foldable(graph, nodes)
    return Section(nodes, starts, ends, entries, strays, unused, foldable)


def _named(graph: OnnxGraph, name: str) -> int | None:
    return next((i for i, node in enumerate(graph.nodes) if node.name == name), None)


def _entering(graph: OnnxGraph, name: str, option: str) -> tuple[str, ...]:
    """Return the values at which the section is cut off."""
    index = _named(graph, name)
    if index is not None:
        return tuple(x for x in graph.nodes[index].input if x and x not in graph.weights)
    if name in graph.inputs or name in graph.producers:
        return (name,)
    raise _no_such(graph, name, option)


def _ending(graph: OnnxGraph, name: str) -> int:
    index = _named(graph, name)
    if index is None:
        index = graph.producers.get(name)
    if index is None:
        raise _no_such(graph, name, "--end")
    return index


def _no_such(graph: OnnxGraph, name: str, option: str) -> OptionError:
    known = [node.name for node in graph.nodes if node.name] + list(graph.inputs)
    close = difflib.get_close_matches(name, known, n=3) or known[:3]
    return OptionError(
        f"{option} {name}: {display_path(graph.path.name)} has no such node or value; "
        f"did you mean one of: {', '.join(close)}"
    )


def _ancestors(
    graph: OnnxGraph, ends: Sequence[int], entries: set[str]
) -> tuple[tuple[int, ...], set[str]]:
    """Return nodes that the ends depend on, up to `entries`, and all values they read."""
    found: set[int] = set()
    reached: set[str] = set()
    waiting = list(ends)
    while waiting:
        index = waiting.pop()
        if index in found:
            continue
        found.add(index)
        for value in graph.nodes[index].input:
            reached.add(value)
            if value not in entries and value in graph.producers:
                waiting.append(graph.producers[value])
    return tuple(sorted(found)), reached


def _foldable(graph: OnnxGraph, nodes: Sequence[int]) -> frozenset[int]:
    """Return nodes that a simplifier turns into constants."""
    constants = set(graph.weights)
    folded: set[int] = set()
    for index in nodes:
        node = graph.nodes[index]
        of_shape = node.op_type == "Shape" and graph.tensor(node.input[0]).static
        if of_shape or all(value in constants for value in node.input if value):
            folded.add(index)
            constants.update(node.output)
    return frozenset(folded)
