"""An ONNX file of any origin, read without its weights' values: nodes, shapes, sizes."""

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
        """Element type as ONNX calls it, such as `int64`."""
        known = TensorProto.DataType.items()
        return next((name.lower() for name, number in known if number == self.dtype), "unknown")

    @property
    def text(self) -> str:
        """The shape as a person writes it."""
        if self.shape is None:
            return "unknown rank"
        return f"({', '.join('?' if axis is None else str(axis) for axis in self.shape)})"


class OnnxGraph:
    """A graph by its wires.

    Attributes:
        weights: initializers by name.
        tensors: every value to what is known of it.
        producers: value to the index of the node that makes it.
    """

    def __init__(self, model: ModelProto, path: Path = Path("graph")) -> None:
        graph = model.graph
        self.path = path
        self.nodes = tuple(graph.node)
        self.by_name: dict[str, int] = {
            node.name: i for i, node in reversed([*enumerate(graph.node)]) if node.name
        }
        self.weights = {item.name: item for item in graph.initializer}
        self.inputs = tuple(x.name for x in graph.input if x.name not in self.weights)
        self.outputs = tuple(value.name for value in graph.output)
        values = (*graph.input, *graph.output, *graph.value_info)
        self.tensors = {value.name: _read_tensor(value) for value in values}
        for name, item in self.weights.items():
            self.tensors[name] = Tensor(item.data_type, tuple(item.dims))
        self.producers: dict[str, int] = {
            name: i for i, node in enumerate(graph.node) for name in node.output if name
        }

    def tensor(self, name: str) -> Tensor:
        """Return what is known of a value."""
        return self.tensors.get(name, Tensor())

    def label(self, index: int) -> str:
        """Return a node's name, or what it makes where an exporter left it nameless."""
        node = self.nodes[index]
        return node.name or f"the node that makes {node.output[0]}"

    def ancestors(
        self, ends: Iterable[int], entries: Collection[str]
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
            for value in self.nodes[index].input:
                reached.add(value)
                if value not in entries and value in self.producers:
                    waiting.append(self.producers[value])
        return tuple(sorted(found)), reached

    def entering(self, name: str) -> tuple[str, ...]:
        """Return the values at which a section that starts at a node or value is cut off."""
        if name in self.by_name:
            node = self.nodes[self.by_name[name]]
            return tuple(value for value in node.input if value and value not in self.weights)
        if name in self.inputs or name in self.producers:
            return (name,)
        raise self._no_such(name, "--start")

    def ending(self, name: str) -> int:
        """Return the node that a node or value at the end means."""
        index = self.by_name.get(name, self.producers.get(name))
        if index is None:
            raise self._no_such(name, "--end")
        return index

    def _no_such(self, name: str, option: str) -> OptionError:
        known = [node.name for node in self.nodes if node.name] + list(self.inputs)
        close = difflib.get_close_matches(name, known, n=3) or known[:3]
        return OptionError(
            f"{option} {name}: {display_path(self.path.name)} has no such node or value; "
            f"did you mean one of: {', '.join(close)}"
        )


def _read_tensor(value: ValueInfoProto) -> Tensor:
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return Tensor(kind.elem_type)
    axes = tuple(axis.dim_value if axis.dim_value > 0 else None for axis in kind.shape.dim)
    return Tensor(kind.elem_type, axes)


def load_model(path: Path) -> ModelProto:
    """Read an ONNX file of any origin and infer its shapes; values of large weights are dropped."""
    model = load_message(path)
    for item in model.graph.initializer:
        check_external_data(item, path)
        if item.ByteSize() > SMALL_BYTES:  # inference copies all that it is given
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
    known = {"", *graph.producers, *graph.weights, *graph.inputs}
    for index, node in enumerate(graph.nodes):
        missing = next((name for name in node.input if name not in known), None)
        if missing is not None:
            raise ModelError(
                f"{display_path(path)}: {graph.label(index)} reads {missing}, which no node, "
                "input or weight provides; the graph is broken, export it again"
            )
    return inferred


def check_external_data(item: TensorProto, path: Path) -> None:
    """The data file beside the graph has the weight's bytes; it is a plain relative path."""
    if item.data_location != TensorProto.EXTERNAL:
        return
    fields = {entry.key: entry.value for entry in item.external_data}
    location = fields.get("location", "")
    try:
        data = resolve_within(path.parent, location)
        end = int(fields.get("offset", 0)) + int(fields.get("length", 0))
    except (ModelError, ValueError) as error:
        raise ModelError(
            f"{display_path(path)}: weight {item.name} lies in {location[:200]!r} "
            f"({str(error).split(';')[0][:200]}), expected a place in a file beside it"
        ) from error
    size = data.stat().st_size if data.is_file() else -1
    if size < end:
        state = "is missing" if size < 0 else f"has {size} bytes, expected {end} or more"
        raise ModelError(
            f"{display_path(path)}: weight {item.name} lies in {display_path(data.name)}, which "
            f"{state}; it must stay beside the graph, whole"
        )


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
        foldable: indices of nodes whose result a simplifier turns into a constant.
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
    by_start = {name: graph.entering(name) for name in starts}
    entries = tuple(dict.fromkeys(value for values in by_start.values() for value in values))
    nodes, reached = graph.ancestors(map(graph.ending, ends), entries)
    constants, foldable = set(graph.weights), set()
    for index in nodes:
        node = graph.nodes[index]
        is_known_shape = node.op_type == "Shape" and graph.tensor(node.input[0]).static
        if is_known_shape or all(value in constants for value in node.input if value):
            foldable.add(index)
            constants.update(node.output)
    return Section(
        nodes=nodes,
        starts=starts,
        ends=ends,
        entries=entries,
        strays=tuple(name for name in graph.inputs if name in reached and name not in entries),
        unused=tuple(name for name, values in by_start.items() if not reached & set(values)),
        foldable=frozenset(foldable),
    )
