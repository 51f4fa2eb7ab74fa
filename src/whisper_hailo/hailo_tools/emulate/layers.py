"""What the chip works in: layers, each reading and giving tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LayerSlot:
    """One input of one node, at which a layer reads.

    Attributes:
        node: index of the node in the graph.
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
        nodes: indices of its nodes.
        slots: where it reads.
        gives: tensors that other layers read; usually one.
        weight: initializer with its weights.
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
        shapes: weight to its shape.
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
