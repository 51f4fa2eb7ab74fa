"""ONNX files of any origin, read without their weights' values: nodes, shapes, sizes."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto

from whisper_hailo.backends.onnx_file import load_message
from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.paths import resolve_within

SMALL_BYTES = 1024
"""Constants up to this size are kept: shape inference reads Reshape's target and its like."""

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
        """Element type under ONNX's name, such as `int64`."""
        for name, number in TensorProto.DataType.items():
            if number == self.dtype:
                return str(name).lower()
        return "unknown"

    @property
    def text(self) -> str:
        """The shape for messages."""
        if self.shape is None:
            return "unknown rank"
        axes = ["?" if axis is None else str(axis) for axis in self.shape]
        return f"({', '.join(axes)})"


class OnnxGraph:
    """A graph's nodes and values, by their names.

    Attributes:
        by_name: a node's name to its index; of several the first.
        weights: initializers by name.
        tensors: a value's name to what is known of it.
        producers: a value's name to the index of the node that makes it.
    """

    def __init__(self, model: ModelProto, path: Path = Path("graph")) -> None:
        graph = model.graph
        self.path = path
        self.nodes = tuple(graph.node)
        self.by_name: dict[str, int] = {}
        self.producers: dict[str, int] = {}
        for index, node in enumerate(self.nodes):
            if node.name:
                self.by_name.setdefault(node.name, index)
            for name in node.output:
                if name:
                    self.producers[name] = index
        self.weights = {item.name: item for item in graph.initializer}
        inputs = [value.name for value in graph.input]
        self.inputs = tuple(name for name in inputs if name not in self.weights)
        self.outputs = tuple(value.name for value in graph.output)
        values = (*graph.input, *graph.output, *graph.value_info)
        self.tensors = {value.name: _read_tensor(value) for value in values}
        for name, item in self.weights.items():
            self.tensors[name] = Tensor(item.data_type, tuple(item.dims))

    def tensor(self, name: str) -> Tensor:
        """Return what is known of a value."""
        return self.tensors.get(name, Tensor())

    def label(self, index: int) -> str:
        """Return a node's name, or its output's where an exporter left it nameless."""
        node = self.nodes[index]
        return node.name or f"the node that makes {node.output[0]}"

    def ancestors(
        self, ends: Iterable[int], entries: Collection[str]
    ) -> tuple[tuple[int, ...], set[str]]:
        """Return nodes that the ends depend on, up to `entries`, and all values that they read."""
        indices: set[int] = set()
        values: set[str] = set()
        pending = list(ends)
        while pending:
            index = pending.pop()
            if index in indices:
                continue
            indices.add(index)
            for value in self.nodes[index].input:
                values.add(value)
                if value not in entries and value in self.producers:
                    pending.append(self.producers[value])
        return tuple(sorted(indices)), values

    def entering(self, name: str) -> tuple[str, ...]:
        """Return the values that enter a section which starts at a node or value."""
        if name in self.by_name:
            node = self.nodes[self.by_name[name]]
            return tuple(
                value for value in node.input if value and value not in self.weights
            )
        if name in self.inputs or name in self.producers:
            return (name,)
        raise self._name_error(name, "--start")

    def ending(self, name: str) -> int:
        """Return the node that the name of a node or value at the end stands for."""
        index = self.by_name.get(name, self.producers.get(name))
        if index is None:
            raise self._name_error(name, "--end")
        return index

    def _name_error(self, name: str, option: str) -> OptionError:
        names = [node.name for node in self.nodes if node.name]
        names += self.inputs
        similar = difflib.get_close_matches(name, names, n=3) or names[:3]
        return OptionError(
            f"{option} {name}: {display_path(self.path.name)} has no such node or value; "
            f"did you mean one of: {', '.join(similar)}"
        )


def _read_tensor(value: ValueInfoProto) -> Tensor:
    tensor_type = value.type.tensor_type
    if not tensor_type.HasField("shape"):
        return Tensor(tensor_type.elem_type)
    sizes = [axis.dim_value for axis in tensor_type.shape.dim]
    shape = tuple(size if size > 0 else None for size in sizes)
    return Tensor(tensor_type.elem_type, shape)


def load_model(path: Path) -> ModelProto:
    """Read an ONNX file of any origin and infer its shapes; values of large weights are dropped.

    Raises:
        ModelError: no ONNX file, or an inconsistent one.
    """
    model = load_message(path)
    for item in model.graph.initializer:
        check_external_data(item, path)
        if item.ByteSize() > SMALL_BYTES:  # shape inference copies the whole message
            stub = TensorProto(name=item.name, data_type=item.data_type, dims=item.dims)
            stub.data_location = TensorProto.EXTERNAL
            stub.external_data.add(key="location", value="forgotten")
            item.CopyFrom(stub)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # the library raises bare RuntimeErrors of its C++ side
        reason = str(error).splitlines()[0][:160]
        raise ModelError(
            f"{display_path(path)} is not a consistent ONNX graph ({reason}); export it again"
        ) from error
    graph = OnnxGraph(inferred, path)
    provided = {"", *graph.producers, *graph.weights, *graph.inputs}
    for index, node in enumerate(graph.nodes):
        for name in node.input:
            if name not in provided:  # shape inference does not mind
                raise ModelError(
                    f"{display_path(path)}: {graph.label(index)} reads {name}, which no node, "
                    "input or weight provides; the graph is broken, export it again"
                )
    return inferred


def check_external_data(item: TensorProto, path: Path) -> None:
    """Check that a file beside the graph has a weight's bytes, and that its path stays there.

    Raises:
        ModelError: it has not.
    """
    if item.data_location != TensorProto.EXTERNAL:
        return
    fields = {entry.key: entry.value for entry in item.external_data}
    location = fields.get("location", "")
    try:
        data = resolve_within(path.parent, location)
        end = int(fields.get("offset", 0)) + int(fields.get("length", 0))
    except (ModelError, ValueError) as error:
        problem, _, _ = str(error).partition(";")
        raise ModelError(
            f"{display_path(path)}: weight {item.name} lies in {location[:200]!r} "
            f"({problem[:200]}), expected a place in a file beside it"
        ) from error
    if not data.is_file():
        problem = "is missing"
    elif data.stat().st_size < end:
        problem = f"has {data.stat().st_size} bytes, expected {end} or more"
    else:
        return
    raise ModelError(
        f"{display_path(path)}: weight {item.name} lies in {display_path(data.name)}, which "
        f"{problem}; keep the complete file beside the graph"
    )


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a graph between start and end.

    Attributes:
        nodes: indices of its nodes, in the graph's order.
        starts: start nodes or values, as named.
        ends: end nodes or values, as named.
        entries: values that enter it.
        strays: graph inputs that it needs although no start leads to them.
        unused: starts that no end depends on.
        foldable: indices of nodes whose result is a constant, which a simplifier would fold.
    """

    nodes: tuple[int, ...]
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    entries: tuple[str, ...]
    strays: tuple[str, ...]
    unused: tuple[str, ...]
    foldable: frozenset[int]


def cut(
    graph: OnnxGraph, starts: Sequence[str] = (), ends: Sequence[str] = ()
) -> Section:
    """Find the nodes between `starts` and `ends`.

    Both are names of nodes or values; empty ones mean the graph's inputs and outputs.

    Raises:
        OptionError: the graph has no such node or value.
    """
    starts = tuple(starts) or graph.inputs
    ends = tuple(ends) or graph.outputs
    by_start = {name: graph.entering(name) for name in starts}
    entries: dict[str, None] = {}  # as a set in order
    for values in by_start.values():
        entries.update(dict.fromkeys(values))
    nodes, read = graph.ancestors(map(graph.ending, ends), entries)
    return Section(
        nodes=nodes,
        starts=starts,
        ends=ends,
        entries=tuple(entries),
        strays=tuple(
            name for name in graph.inputs if name in read and name not in entries
        ),
        unused=tuple(
            name for name, values in by_start.items() if not read & set(values)
        ),
        foldable=_find_foldable(graph, nodes),
    )


def _find_foldable(graph: OnnxGraph, nodes: Sequence[int]) -> frozenset[int]:
    """Return the nodes that read constants only, or the shape of a value whose shape is known."""
    constants = set(graph.weights)
    foldable = set()
    for index in nodes:
        node = graph.nodes[index]
        has_known_shape = node.op_type == "Shape" and graph.tensor(node.input[0]).static
        if has_known_shape or all(value in constants for value in node.input if value):
            foldable.add(index)
            constants.update(node.output)
    return frozenset(foldable)
