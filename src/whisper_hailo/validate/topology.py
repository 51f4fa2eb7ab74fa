"""What in a graph computes, as against what only moves, holds or describes numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from onnx import NodeProto

from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.validate.difference import INFINITE
from whisper_hailo.validate.inner import InnerGraph

MOVING: Final = frozenset(
    [
        "Cast",
        "DequantizeLinear",
        "Dropout",
        "Flatten",
        "Identity",
        "QuantizeLinear",
        "Reshape",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Operators whose output is their first input in another layout, type or grid of steps."""

COMMUTATIVE: Final = frozenset(["Add", "Mul"])
SIGNATURE_TOLERANCE: Final = 1e-4

Signature = tuple[int, AnyArray, float]


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph reduced to its computing nodes.

    Attributes:
        graph: the graph itself.
        roots: value to the value that it is a rearrangement of.
        fixed: values that no input has a part in: weights and what is made of them alone.
        consumers: root to the computing nodes that take it, in order.
    """

    graph: InnerGraph
    roots: dict[str, str]
    fixed: frozenset[str]
    consumers: dict[str, list[NodeProto]]

    @classmethod
    def of(cls, graph: InnerGraph) -> Topology:
        """Walk a graph once along its data path."""
        roots: dict[str, str] = {}
        fixed = {*graph.weights, *graph.constants, ""}
        consumers: dict[str, list[NodeProto]] = {}
        for node in graph.nodes:
            if all(name in fixed for name in node.input):
                fixed.update(node.output)
            if node.op_type in MOVING:
                roots[node.output[0]] = roots.get(node.input[0], node.input[0])
                continue
            for name in dict.fromkeys(roots.get(name, name) for name in node.input):
                if name not in fixed:
                    consumers.setdefault(name, []).append(node)
        return cls(graph, roots, frozenset(fixed), consumers)

    def root(self, name: str) -> str:
        """The value that `name` is a rearrangement of."""
        return self.roots.get(name, name)

    def computing(self) -> Iterator[NodeProto]:
        """Nodes that compute something from the inputs, in order."""
        for node in self.graph.nodes:
            if node.op_type not in MOVING and not self.fixed.issuperset(node.output):
                yield node

    def moving_inputs(self, node: NodeProto) -> list[str]:
        """Roots of the inputs that depend on the graph's."""
        return [self.root(name) for name in node.input if name not in self.fixed]

    def held_inputs(self, node: NodeProto) -> list[AnyArray]:
        """Weights and constants of a node, those that have been computed left out."""
        found = (
            self.graph.weight(self.root(name)) for name in node.input if name and name in self.fixed
        )
        return [array for array in found if array is not None]


def signature(array: AnyArray) -> Signature | None:
    """What stays the same when an array is rearranged: its size and some moments.

    `None` for what is no float array or has values that are no numbers.
    """
    if array.dtype.kind != "f" or array.size == 0:
        return None
    x = array.astype(np.float64).ravel()
    if not np.abs(x).max() < INFINITE:
        return None
    squares = x * x
    scale = float(np.sqrt(squares.mean()))
    cube = np.cbrt(float(squares @ x) / x.size)
    moments = np.array([x.mean(), np.abs(x).mean(), x.min(), x.max(), cube, scale])
    return x.size, moments, scale


def alike(a: Signature | None, b: Signature | None) -> bool:
    """Whether two signatures can be of one array in two layouts."""
    if a is None or b is None or a[0] != b[0]:
        return False
    scale = max(a[2], b[2], 1e-30)
    moments = np.abs(a[1] - b[1])
    # The third moment's cube root is steep at 0, where noise of one part in 1e12 shows.
    moments[4] = min(moments[4], abs(a[1][4] ** 3 - b[1][4] ** 3) / scale**2)
    return bool(np.all(moments <= SIGNATURE_TOLERANCE * scale * 10))


def same_weights(ours: list[AnyArray], theirs: list[AnyArray]) -> bool:
    """Whether two nodes hold the same weights, in whatever layout and order.

    Masks, which have infinities, are the same where they are of one size.
    """
    a = [array for array in ours if array.dtype.kind == "f"]
    b = [array for array in theirs if array.dtype.kind == "f"]
    return len(a) == len(b) and all(any(_one_weight(x, y) for y in b) for x in a)


def _one_weight(a: AnyArray, b: AnyArray) -> bool:
    if a.size != b.size:
        return False
    x, y = signature(a), signature(b)
    return (x is None and y is None) or alike(x, y)


def same_sizes(ours: list[AnyArray], theirs: list[AnyArray]) -> bool:
    """Whether two nodes hold weights of the same sizes, scalars excepted."""
    a = sorted(array.size for array in ours if array.dtype.kind == "f")
    b = sorted(array.size for array in theirs if array.dtype.kind == "f")
    return a == b and bool(a) and a[0] > 1
