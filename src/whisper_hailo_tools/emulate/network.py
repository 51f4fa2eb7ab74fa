"""Finds the layers of the chip in a Hailo-form graph.

The compiler folds biases, constant factors and activation functions into the product before them
and keeps tensors only between layers. So that is where an emulation rounds, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto

from whisper_hailo.core.errors import ModelError


@dataclass(frozen=True, slots=True)
class LayerSlot:
    """One input of one node, at which a layer reads.

    Attributes:
        index: which of its inputs.
        origin: tensor between layers that arrives there, as it is or moved about; the constant
            itself where a constant is read as an activation.
    """

    node: int
    index: int
    origin: str


@dataclass(frozen=True, slots=True)
class EmulatedLayer:
    """One layer of the chip.

    Attributes:
        name: kind and number in the graph's order, as the compiler counts: `conv3`, `ew_add1`.
        kind: `conv` (also matrix products with constant weights), `matmul`, `ew_add`, `softmax`,
            `layer_normalization`, `normalization` (constant factors and sums on their own),
            `input_layer`, `output_layer`, or an operator's name in lower case.
        gives: tensors that other layers read; usually one.
        weight_axis: the weight's axis of output channels.
    """

    name: str
    kind: str
    nodes: tuple[int, ...]
    slots: tuple[LayerSlot, ...]
    gives: tuple[str, ...]
    weight: str | None = None
    weight_axis: int = 0


@dataclass(frozen=True, slots=True)
class EmulatedNetwork:
    """What lies between the start and the end nodes.

    Attributes:
        layers: in the graph's order; inputs first, outputs last.
        moving: indices of nodes that belong to no layer, as they only move values.
    """

    layers: tuple[EmulatedLayer, ...]
    moving: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]]

    @property
    def entries(self) -> tuple[str, ...]:
        """Values that enter the chip."""
        inputs = (layer for layer in self.layers if layer.kind == "input_layer")
        return tuple(value for layer in inputs for value in layer.gives)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every tensor between layers, once: what is rounded, and what statistics are kept of."""
        given = (value for layer in self.layers for value in layer.gives)
        return tuple(dict.fromkeys(given))

    def description(self, net_name: str) -> dict[str, Any]:
        """In the form in which the compiler describes a parsed network (HN), for its script."""
        layers: dict[str, dict[str, Any]] = {}
        for layer in self.layers:
            entry: dict[str, Any] = {"type": layer.kind, "output_shapes": [[-1]]}
            if layer.kind == "conv" and layer.weight is not None:
                entry["params"] = {"kernel_shape": _kernel(self.shapes[layer.weight])}
            layers[f"{net_name}/{layer.name}"] = entry
        return {"layers": layers}


def _kernel(shape: tuple[int, ...]) -> list[int]:
    if len(shape) == 4:  # (out, in, height, width)
        return [shape[2], shape[3], shape[1], shape[0]]
    return [1, 1, *shape]


_CHAIN = ("Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add")
"""What follows `Sub(x, ReduceMean(x))`, one after the other."""


def written_out_norms(
    nodes: Sequence[NodeProto], section: Iterable[int], weights: set[str]
) -> dict[int, tuple[int, ...]]:
    """Norms of the form ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add.

    `section` has the indices of the nodes to look at, `weights` the names of initializers.

    Returns:
        index of each node of a norm to the indices of all of them, in the graph's order.
    """
    readers: dict[str, list[int]] = {}
    for i in sorted(section):
        for value in nodes[i].input:
            readers.setdefault(value, []).append(i)
    found: dict[int, tuple[int, ...]] = {}
    for i in sorted(section):
        if nodes[i].op_type == "ReduceMean" and i not in found:
            norm = _norm(nodes, readers, i, weights)
            found |= dict.fromkeys(norm, norm)
    return found


def _norm(
    nodes: Sequence[NodeProto], readers: dict[str, list[int]], mean: int, weights: set[str]
) -> tuple[int, ...]:
    """Indices of the norm that begins at this mean, or nothing."""
    x = nodes[mean].input[0]
    centred = _reader(nodes, readers, mean, "Sub")
    if centred is None or list(nodes[centred].input) != [x, nodes[mean].output[0]]:
        return ()
    members = [mean, centred]
    at = centred
    for operator in _CHAIN:
        following = _reader(nodes, readers, at, operator)
        if following is None:
            return ()
        node = nodes[following]
        others = [value for value in node.input if value != nodes[at].output[0]]
        expected = [nodes[centred].output[0]] if operator == "Div" else None
        if others != expected and any(value not in weights for value in others):
            return ()
        members.append(following)
        at = following
    return tuple(members)


def _reader(
    nodes: Sequence[NodeProto], readers: dict[str, list[int]], at: int, operator: str
) -> int | None:
    """Return the node of this operator that reads what another one gives."""
    value = nodes[at].output[0]
    return next((i for i in readers.get(value, []) if nodes[i].op_type == operator), None)


MOVING = frozenset({"Reshape", "Transpose", "Split", "Unsqueeze", "Squeeze", "Flatten", "Identity"})
"""Operators that move values without changing them: their results keep the scale."""

_ELEMENTWISE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Erf", "Pow", "Sqrt", "Relu", "Tanh", "Sigmoid", "Gelu", "Neg"}
)
_JOINING = {"Add": "ew_add", "Sub": "ew_sub", "Mul": "ew_mult", "Div": "ew_div"}
_KINDS = {"Conv": "conv", "Softmax": "softmax", "LayerNormalization": "layer_normalization"}


def read_network(
    model: ModelProto, starts: tuple[str, ...], ends: tuple[str, ...]
) -> EmulatedNetwork:
    """Find the layers between start and end.

    Args:
        model: the graph, weights included.
        starts: nodes or graph inputs at which the chip begins; empty means all graph inputs.
        ends: nodes at which it ends; empty means the nodes that give the graph outputs.
    """
    return _Reader(model, starts, ends).read()


class _Group:
    """A layer in the making."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.nodes: list[int] = []
        self.slots: list[tuple[int, int, str]] = []
        self.weight: str | None = None
        self.weight_axis = 0


class _Reader:
    """Walks the nodes once, giving each to a layer."""

    def __init__(self, model: ModelProto, starts: tuple[str, ...], ends: tuple[str, ...]) -> None:
        graph = model.graph
        self._nodes = list(graph.node)
        self._weights = {item.name: item for item in graph.initializer}
        self._shapes = {name: tuple(item.dims) for name, item in self._weights.items()}
        self._producers = {name: i for i, node in enumerate(self._nodes) for name in node.output}
        inputs = [value.name for value in graph.input if value.name not in self._weights]
        self._by_name = {node.name: i for i, node in enumerate(self._nodes) if node.name}
        self._entries = self._entering(starts or tuple(inputs), inputs)
        self._refuse_ids(model)
        outputs = tuple(value.name for value in graph.output)
        self._ends = [self._ending(name) for name in ends or outputs]
        self._section = self._ancestors()
        self._consumers: dict[str, list[int]] = {}
        for i in sorted(self._section):
            for value in self._nodes[i].input:
                self._consumers.setdefault(value, []).append(i)
        self._norms = written_out_norms(self._nodes, self._section, set(self._weights))
        self._groups: list[_Group] = []
        self._owner: dict[str, _Group] = {}
        self._origin: dict[str, str] = {name: name for name in self._entries}

    def read(self) -> EmulatedNetwork:
        for i in sorted(self._section):
            self._place(i, self._nodes[i])
        owned = {i for group in self._groups for i in group.nodes}
        moving = tuple(sorted(self._section - owned))
        return EmulatedNetwork(tuple(self._layers()), moving, self._shapes)

    def _entering(self, starts: tuple[str, ...], inputs: list[str]) -> list[str]:
        entries = []
        for name in starts:
            if name in self._by_name:
                node = self._nodes[self._by_name[name]]
                entries += [value for value in node.input if value and value not in self._weights]
            elif name in inputs or name in self._producers:
                entries.append(name)
            else:
                raise self._no_such(name)
        return list(dict.fromkeys(entries))

    def _refuse_ids(self, model: ModelProto) -> None:
        for value in model.graph.input:
            is_float = value.type.tensor_type.elem_type == TensorProto.FLOAT
            if value.name in self._entries and not is_float:
                raise ModelError(
                    f"the graph's input {value.name!r} holds no float32 values, so no chip takes "
                    "it; name the start nodes behind the token lookup"
                )

    def _ending(self, name: str) -> int:
        found = self._by_name.get(name, self._producers.get(name))
        if found is None:
            raise self._no_such(name)
        return found

    def _no_such(self, name: str) -> ModelError:
        return ModelError(
            f"the graph has no node or value {name!r}, at which the chip's part should begin or "
            "end; it is not the Hailo form that model.json describes: convert the checkpoint again"
        )

    def _ancestors(self) -> frozenset[int]:
        found: set[int] = set()
        waiting = list(self._ends)
        while waiting:
            i = waiting.pop()
            if i not in found:
                found.add(i)
                waiting += [
                    self._producers[value]
                    for value in self._nodes[i].input
                    if value not in self._entries and value in self._producers
                ]
        return frozenset(found)

    def _dynamic(self, node: NodeProto) -> list[tuple[int, str]]:
        return [(k, x) for k, x in enumerate(node.input) if x and x not in self._weights]

    def _place(self, i: int, node: NodeProto) -> None:
        """Give a node to a layer, or follow where it moves its values."""
        dynamic = self._dynamic(node)
        if not dynamic:
            raise ModelError(
                f"the graph's node {node.name or node.op_type!r} depends on no input; keep "
                "constants as initializers, as onnxsim makes them"
            )
        if node.op_type in MOVING:
            for value in node.output:
                self._origin[value] = self._origin.get(dynamic[0][1], dynamic[0][1])
            return
        group = self._joined(i, node, dynamic) or self._begin(i, node, dynamic)
        group.nodes.append(i)
        for value in node.output:
            self._owner[value] = group
            self._origin[value] = value

    def _joined(self, i: int, node: NodeProto, dynamic: list[tuple[int, str]]) -> _Group | None:
        """Return the layer that a node is folded into, if any."""
        norm = self._norms.get(i)
        if norm is not None:
            return next((group for group in self._groups if norm[0] in group.nodes), None)
        owners = {id(self._owner.get(x)): self._owner.get(x) for _, x in dynamic}
        if node.op_type == "Softmax":
            return self._masking(dynamic)
        if node.op_type not in _ELEMENTWISE or len(owners) != 1:
            return None
        return next(iter(owners.values())) if self._folds(node) else None

    def _masking(self, dynamic: list[tuple[int, str]]) -> _Group | None:
        """Return the softmax layer that the addition of a mask has begun."""
        group = self._owner.get(dynamic[0][1])
        return group if group is not None and group.kind == "softmax" else None

    def _folds(self, node: NodeProto) -> bool:
        """Return whether its constant, if any, is one number or one per channel."""
        constants = [self._shapes[x] for x in node.input if x in self._weights]
        return not any(
            sum(axis > 1 for axis in shape) > 1 or (len(shape) > 1 and shape[-2] > 1)
            for shape in constants
        )

    def _begin(self, i: int, node: NodeProto, dynamic: list[tuple[int, str]]) -> _Group:
        """Start a new layer with this node."""
        group = _Group(self._kind(i, node, dynamic))
        constants = [x for x in node.input if x in self._weights]
        reads = list(dynamic)
        if group.kind == "conv" and constants:
            group.weight = node.input[1]
            group.weight_axis = 0 if node.op_type == "Conv" else len(self._shapes[constants[0]]) - 1
        elif group.kind == "ew_add":
            reads = [(k, x) for k, x in enumerate(node.input) if x]
        group.slots = [(i, k, x) for k, x in reads]
        self._groups.append(group)
        return group

    def _kind(self, i: int, node: NodeProto, dynamic: list[tuple[int, str]]) -> str:
        if i in self._norms:
            return "layer_normalization"
        if node.op_type == "MatMul":
            return "matmul" if len(dynamic) > 1 else "conv"
        if node.op_type in _KINDS:
            return _KINDS[node.op_type]
        if node.op_type in _ELEMENTWISE and len(dynamic) == 1:
            return self._constant_kind(node)
        return _JOINING.get(node.op_type, node.op_type.lower())

    def _constant_kind(self, node: NodeProto) -> str:
        """Return the kind of an operation with a constant that no layer before it takes in."""
        if self._folds(node) or node.op_type not in _JOINING:
            return "normalization"
        readers = [self._nodes[i].op_type for i in self._consumers.get(node.output[0], [])]
        if node.op_type == "Add" and readers == ["Softmax"]:
            return "softmax"  # a mask: what it hides has no scale
        return _JOINING[node.op_type]

    def _layers(self) -> list[EmulatedLayer]:
        counts: Counter[str] = Counter()
        numbered = []
        for name in self._entries:
            counts["input_layer"] += 1
            label = f"input_layer{counts['input_layer']}"
            numbered.append(EmulatedLayer(label, "input_layer", (), (), (name,)))
        given = self._given()
        for group in self._groups:
            counts[group.kind] += 1
            slots = [
                LayerSlot(i, k, value if value in self._weights else self._origin.get(value, value))
                for i, k, value in group.slots
            ]
            outputs = [x for i in group.nodes for x in self._nodes[i].output if x in given]
            numbered.append(
                EmulatedLayer(
                    f"{group.kind}{counts[group.kind]}",
                    group.kind,
                    tuple(group.nodes),
                    tuple(slots),
                    tuple(outputs),
                    group.weight,
                    group.weight_axis,
                )
            )
        for n, i in enumerate(self._ends, 1):
            origin = self._origin[self._nodes[i].output[0]]
            numbered.append(
                EmulatedLayer(
                    f"output_layer{n}", "output_layer", (), (LayerSlot(-1, 0, origin),), ()
                )
            )
        return numbered

    def _given(self) -> set[str]:
        """Tensors that a layer reads, or that leave the chip."""
        read = {self._origin.get(x, x) for group in self._groups for _, _, x in group.slots}
        return read | {self._origin[self._nodes[i].output[0]] for i in self._ends}
