"""The layers of the chip in a Hailo-form graph.

The compiler folds biases, constant factors and activation functions into the product before them
and keeps tensors only between layers. An emulation rounds there, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto, TensorProto

from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo_tools.check.graph import OnnxGraph, cut
from whisper_hailo_tools.hef_build.model_script import HefNetwork, Product


@dataclass(frozen=True, slots=True)
class LayerSlot:
    """One input of one node, at which a layer reads.

    Attributes:
        node: the node's index.
        index: which of its inputs.
        origin: tensor between layers that arrives there, as it is or reshaped; the constant itself
            where a constant is read as an activation.
    """

    node: int
    index: int
    origin: str


@dataclass(frozen=True, slots=True)
class EmulatedLayer:
    """One layer of the chip.

    Attributes:
        name: kind and number in the graph's order, as in the compiler: `conv3`, `ew_add1`.
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
    """The network between the start and the end nodes.

    Attributes:
        layers: in the graph's order; inputs first, outputs last.
        moving: indices of nodes that belong to no layer, as they only move values.
        shapes: of weights by name.
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
        """Every tensor between layers, once: those that are rounded and have statistics."""
        tensors: dict[str, None] = {}  # as a set in order
        for layer in self.layers:
            tensors.update(dict.fromkeys(layer.gives))
        return tuple(tensors)

    def hef_network(self) -> HefNetwork:
        """Return the facts that a model script needs, as of the compiler's parsed network."""
        products = []
        for layer in self.layers:
            if layer.kind != "conv" or layer.weight is None:
                continue
            shape = self.shapes[layer.weight]
            if len(shape) == 2:  # not a convolution of the encoder's stem
                n_in, n_out = shape
                products.append(Product(layer.name, n_in, n_out))
        names = tuple(layer.name for layer in self.layers)
        return HefNetwork(names, tuple(products), {})


_NORM = ("Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add")
"""The nodes after `ReduceMean(x)` in a layer norm that is written out, in order."""


def _find_norm(
    graph: OnnxGraph, readers: dict[str, list[int]], mean: int
) -> tuple[int, ...]:
    """Return indices of the written-out norm that begins at this mean, or nothing.

    `readers` are the nodes of the section that read each value.
    """
    members = [mean]
    for operator in _NORM:
        value = graph.nodes[members[-1]].output[0]
        candidates = readers.get(value, [])
        index = next(
            (i for i in candidates if graph.nodes[i].op_type == operator), None
        )
        if index is None:
            return ()
        inputs = list(graph.nodes[index].input)
        others = [name for name in inputs if name != value]
        if operator == "Sub":
            fits = inputs == [graph.nodes[mean].input[0], value]
        elif operator == "Div" and others == [graph.nodes[members[1]].output[0]]:
            fits = True  # x - mean, over the deviation
        else:
            fits = all(name in graph.weights for name in others)
        if not fits:
            return ()
        members.append(index)
    return tuple(members)


MOVING = frozenset(
    {"Reshape", "Transpose", "Split", "Unsqueeze", "Squeeze", "Flatten", "Identity"}
)
"""Operators that move values without changing them: their outputs keep the scale."""

_ELEMENTWISE = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Erf",
        "Pow",
        "Sqrt",
        "Relu",
        "Tanh",
        "Sigmoid",
        "Gelu",
        "Neg",
    }
)
_JOINING = {"Add": "ew_add", "Sub": "ew_sub", "Mul": "ew_mult", "Div": "ew_div"}
_KINDS = {
    "Conv": "conv",
    "Softmax": "softmax",
    "LayerNormalization": "layer_normalization",
}


def read_network(
    model: ModelProto, starts: tuple[str, ...] = (), ends: tuple[str, ...] = ()
) -> EmulatedNetwork:
    """Find the layers between start and end.

    Args:
        model: the graph, weights included.
        starts: nodes or graph inputs at which the chip begins; empty means all graph inputs.
        ends: nodes at which it ends; empty means the nodes that give the graph outputs.

    Raises:
        ModelError: the graph is not a Hailo form with these nodes.
    """
    return _Reader(model, starts, ends).read()


@dataclass(slots=True)
class _Group:
    """A layer in the making.

    Attributes:
        slots: node, number of its input, and the value that it reads there.
    """

    kind: str
    nodes: list[int] = field(default_factory=list)
    slots: list[tuple[int, int, str]] = field(default_factory=list)
    weight: str | None = None
    weight_axis: int = 0


class _Reader:
    """Walks the nodes once and assigns each to a layer."""

    def __init__(
        self, model: ModelProto, starts: tuple[str, ...], ends: tuple[str, ...]
    ) -> None:
        graph = OnnxGraph(model)
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
                    f"the graph's input {name!r} holds no float32 values, so a chip cannot take "
                    "it; name the start nodes behind the token lookup"
                )
        self._section = section
        self._results = [
            self._nodes[graph.ending(name)].output[0] for name in section.ends
        ]
        self._readers: dict[str, list[int]] = {}  # of each value
        for index in section.nodes:
            for value in self._nodes[index].input:
                self._readers.setdefault(value, []).append(index)
        self._norms: dict[int, tuple[int, ...]] = {}  # a node to all nodes of its norm
        for index in section.nodes:
            if self._nodes[index].op_type == "ReduceMean" and index not in self._norms:
                norm = _find_norm(graph, self._readers, index)
                self._norms |= dict.fromkeys(norm, norm)
        self._groups: list[_Group] = []
        self._owner: dict[str, _Group] = {}  # a value to the layer that makes it
        # A moved value to the original.
        self._origin = {name: name for name in section.entries}

    def read(self) -> EmulatedNetwork:
        for index in self._section.nodes:
            self._assign(index, self._nodes[index])
        assigned = {index for group in self._groups for index in group.nodes}
        moving = tuple(index for index in self._section.nodes if index not in assigned)
        return EmulatedNetwork(tuple(self._layers()), moving, self._shapes)

    def _assign(self, index: int, node: NodeProto) -> None:
        """Assign a node to a layer, or follow the values that it moves."""
        activations = self._activations(node)
        if not activations:
            raise ModelError(
                f"the graph's node {node.name or node.op_type!r} depends on no input; keep "
                "constants as initializers, as onnxsim makes them"
            )
        if node.op_type in MOVING:
            origin = self._origin_of(activations[0])
            for value in node.output:
                self._origin[value] = origin
            return
        group = self._find_layer(index, node) or self._begin_layer(index, node)
        group.nodes.append(index)
        for value in node.output:
            self._owner[value] = group
            self._origin[value] = value

    def _activations(self, node: NodeProto) -> list[str]:
        """Return a node's inputs that are not weights."""
        return [value for value in node.input if value and value not in self._weights]

    def _origin_of(self, value: str) -> str:
        return self._origin.get(value, value)

    def _find_layer(self, index: int, node: NodeProto) -> _Group | None:
        """Return the layer that a node is folded into, if any."""
        norm = self._norms.get(index)
        if norm is not None:
            return next(
                (group for group in self._groups if norm[0] in group.nodes), None
            )
        owners = [self._owner.get(value) for value in self._activations(node)]
        owner = owners[0]
        if owner is None:
            return None
        # It belongs to the layer that a mask's addition began.
        if node.op_type == "Softmax":
            return owner if owner.kind == "softmax" else None
        has_one_owner = all(other is owner for other in owners)
        if node.op_type in _ELEMENTWISE and has_one_owner and self._folds(node):
            return owner
        return None

    def _folds(self, node: NodeProto) -> bool:
        """Return whether its constant, if any, is one number or one per channel."""
        for value in node.input:
            if value not in self._weights:
                continue
            shape = self._shapes[value]
            if sum(axis > 1 for axis in shape) > 1:
                return False
            if len(shape) > 1 and shape[-2] > 1:  # channels are the last axis
                return False
        return True

    def _begin_layer(self, index: int, node: NodeProto) -> _Group:
        """Start a new layer with this node."""
        group = _Group(self._kind(index, node))
        constants = [value for value in node.input if value in self._weights]
        if group.kind == "conv" and constants:
            group.weight = node.input[1]
            n_axes = len(self._shapes[constants[0]])
            group.weight_axis = 0 if node.op_type == "Conv" else n_axes - 1
        for number, value in enumerate(node.input):
            # The chip adds a constant as if it were an activation.
            is_read = value not in self._weights or group.kind == "ew_add"
            if value and is_read:
                group.slots.append((index, number, value))
        self._groups.append(group)
        return group

    def _kind(self, index: int, node: NodeProto) -> str:
        """Return the kind of layer that a node begins."""
        operator = node.op_type
        has_one_activation = len(self._activations(node)) == 1
        kind = _KINDS.get(operator, _JOINING.get(operator, operator.lower()))
        if index in self._norms:
            kind = "layer_normalization"
        elif operator == "MatMul":
            kind = "conv" if has_one_activation else "matmul"
        elif operator in _ELEMENTWISE and has_one_activation:
            # With a constant, and not folded into the layer before it.
            readers = self._readers.get(node.output[0], [])
            reading = [self._nodes[reader].op_type for reader in readers]
            if self._folds(node) or operator not in _JOINING:
                kind = "normalization"
            elif operator == "Add" and reading == ["Softmax"]:
                kind = "softmax"  # a mask: its -inf have no scale
        return kind

    def _layers(self) -> Iterator[EmulatedLayer]:
        """Yield the layers, each kind numbered."""
        for number, name in enumerate(self._section.entries, 1):
            yield EmulatedLayer(f"input_layer{number}", "input_layer", (), (), (name,))
        read = self._read_tensors()
        counts: Counter[str] = Counter()
        for group in self._groups:
            counts[group.kind] += 1
            made = [
                value for index in group.nodes for value in self._nodes[index].output
            ]
            yield EmulatedLayer(
                name=f"{group.kind}{counts[group.kind]}",
                kind=group.kind,
                nodes=tuple(group.nodes),
                slots=tuple(
                    LayerSlot(index, number, self._origin_of(value))
                    for index, number, value in group.slots
                ),
                gives=tuple(value for value in made if value in read),
                weight=group.weight,
                weight_axis=group.weight_axis,
            )
        for number, name in enumerate(self._results, 1):
            slots = (LayerSlot(-1, 0, self._origin[name]),)
            yield EmulatedLayer(f"output_layer{number}", "output_layer", (), slots, ())

    def _read_tensors(self) -> set[str]:
        """Return the tensors that layers read, and those that leave the chip."""
        tensors = {self._origin[name] for name in self._results}
        for group in self._groups:
            for _, _, value in group.slots:
                tensors.add(self._origin_of(value))
        return tensors
