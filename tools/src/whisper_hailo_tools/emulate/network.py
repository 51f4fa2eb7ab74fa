"""Finds the layers of the chip in a Hailo-form graph.

The compiler folds biases, constant factors and activation functions into the product before them
and keeps tensors only between layers. So that is where an emulation rounds, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from onnx import ModelProto, NodeProto, TensorProto

from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo_tools.check.graph import OnnxGraph, cut
from whisper_hailo_tools.hef_build.model_script import HefNetwork, Product


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

    def hef_network(self) -> HefNetwork:
        """Return what a model script needs to know, as of the compiler's parsed network."""
        products = tuple(
            Product(layer.name, *self.shapes[layer.weight])
            for layer in self.layers
            if layer.kind == "conv" and layer.weight and len(self.shapes[layer.weight]) == 2
        )
        return HefNetwork(tuple(layer.name for layer in self.layers), products, {})


_NORM = ("Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add")
"""A layer norm written out: what follows `ReduceMean(x)`, one after the other."""


def _find_norm(graph: OnnxGraph, readers: dict[str, list[int]], mean: int) -> tuple[int, ...]:
    """Return indices of the written-out norm that begins at this mean, or nothing.

    `readers` are the nodes of the section that read each value.
    """
    nodes, members = graph.nodes, [mean]
    for operator in _NORM:
        value = nodes[members[-1]].output[0]
        following = (i for i in readers.get(value, []) if nodes[i].op_type == operator)
        index = next(following, None)
        if index is None:
            return ()
        others = [name for name in nodes[index].input if name != value]
        if operator == "Sub":
            fits = list(nodes[index].input) == [nodes[mean].input[0], value]
        elif operator == "Div" and others == [nodes[members[1]].output[0]]:
            fits = True
        else:
            fits = all(name in graph.weights for name in others)
        if not fits:
            return ()
        members.append(index)
    return tuple(members)


MOVING = frozenset({"Reshape", "Transpose", "Split", "Unsqueeze", "Squeeze", "Flatten", "Identity"})
"""Operators that move values without changing them: their results keep the scale."""

_ELEMENTWISE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Erf", "Pow", "Sqrt", "Relu", "Tanh", "Sigmoid", "Gelu", "Neg"}
)
_JOINING = {"Add": "ew_add", "Sub": "ew_sub", "Mul": "ew_mult", "Div": "ew_div"}
_KINDS = {"Conv": "conv", "Softmax": "softmax", "LayerNormalization": "layer_normalization"}


def read_network(
    model: ModelProto, starts: tuple[str, ...] = (), ends: tuple[str, ...] = ()
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
        graph = self._graph = OnnxGraph(model)
        self._nodes = graph.nodes
        self._weights = graph.weights
        self._shapes = {name: tuple(item.dims) for name, item in graph.weights.items()}
        try:
            section = cut(graph, starts, ends)
        except OptionError as error:
            raise ModelError(
                f"the chip's part cannot be found ({error}); the graph is not the Hailo form that "
                "model.json describes: convert the checkpoint again"
            ) from error
        for name in section.entries:
            if name in graph.inputs and graph.tensor(name).dtype != TensorProto.FLOAT:
                raise ModelError(
                    f"the graph's input {name!r} holds no float32 values, so no chip takes it; "
                    "name the start nodes behind the token lookup"
                )
        self._section = section
        self._results = [self._nodes[graph.ending(name)].output[0] for name in section.ends]
        self._consumers: dict[str, list[int]] = {}
        for i in section.nodes:
            for value in self._nodes[i].input:
                self._consumers.setdefault(value, []).append(i)
        self._norms: dict[int, tuple[int, ...]] = {}  # each node's to all of its norm's
        for i in section.nodes:
            if self._nodes[i].op_type == "ReduceMean" and i not in self._norms:
                norm = _find_norm(graph, self._consumers, i)
                self._norms |= dict.fromkeys(norm, norm)
        self._groups: list[_Group] = []
        self._owner: dict[str, _Group] = {}
        self._origin: dict[str, str] = {name: name for name in section.entries}

    def read(self) -> EmulatedNetwork:
        for i in self._section.nodes:
            self._place(i, self._nodes[i])
        owned = {i for group in self._groups for i in group.nodes}
        moving = tuple(i for i in self._section.nodes if i not in owned)
        return EmulatedNetwork(tuple(self._layers()), moving, self._shapes)

    def _place(self, i: int, node: NodeProto) -> None:
        """Give a node to a layer, or follow where it moves its values."""
        dynamic = [(k, x) for k, x in enumerate(node.input) if x and x not in self._weights]
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
        owner = self._owner.get(dynamic[0][1])
        if node.op_type == "Softmax":  # of the layer that the addition of a mask has begun
            return owner if owner is not None and owner.kind == "softmax" else None
        is_alone = all(self._owner.get(value) is owner for _, value in dynamic)
        return owner if node.op_type in _ELEMENTWISE and is_alone and self._folds(node) else None

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
        operator = node.op_type
        kind = _KINDS.get(operator, _JOINING.get(operator, operator.lower()))
        if i in self._norms:
            kind = "layer_normalization"
        elif operator == "MatMul":
            kind = "matmul" if len(dynamic) > 1 else "conv"
        elif operator in _ELEMENTWISE and len(dynamic) == 1:
            # An operation with a constant that no layer before it takes in.
            readers = [self._nodes[i].op_type for i in self._consumers.get(node.output[0], [])]
            if self._folds(node) or operator not in _JOINING:
                kind = "normalization"
            elif operator == "Add" and readers == ["Softmax"]:
                kind = "softmax"  # a mask: what it hides has no scale
        return kind

    def _layers(self) -> Iterator[EmulatedLayer]:
        """Yield the layers, each kind numbered."""
        read = (self._origin.get(x, x) for group in self._groups for _, _, x in group.slots)
        given = {*read, *(self._origin[name] for name in self._results)}
        for n, name in enumerate(self._section.entries, 1):
            yield EmulatedLayer(f"input_layer{n}", "input_layer", (), (), (name,))
        counts: Counter[str] = Counter()
        for group in self._groups:
            counts[group.kind] += 1
            yield EmulatedLayer(
                name=f"{group.kind}{counts[group.kind]}",
                kind=group.kind,
                nodes=tuple(group.nodes),
                slots=tuple(
                    LayerSlot(i, k, x if x in self._weights else self._origin.get(x, x))
                    for i, k, x in group.slots
                ),
                gives=tuple(x for i in group.nodes for x in self._nodes[i].output if x in given),
                weight=group.weight,
                weight_axis=group.weight_axis,
            )
        for n, name in enumerate(self._results, 1):
            slots = (LayerSlot(-1, 0, self._origin[name]),)
            yield EmulatedLayer(f"output_layer{n}", "output_layer", (), slots, ())
