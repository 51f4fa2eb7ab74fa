"""Finds which value of another graph each of ours is, by topology and not by name.

Our nodes are walked along the data path. A node of theirs is its counterpart where operator,
inputs and weights correspond. Exporters fuse and split nodes in their own ways; past such places
the walk finds its way again by value: two tensors of one size whose moments agree are one tensor,
however it is laid out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from onnx import NodeProto

from whisper_hailo.validate.inner import InnerGraph
from whisper_hailo.validate.topology import (
    COMMUTATIVE,
    Signature,
    Topology,
    alike,
    same_sizes,
    same_weights,
    signature,
)

BY_OPERATOR: Final = "operator"
BY_VALUE: Final = "value"
OTHER_WEIGHTS: Final = "operator, other weights"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two values that are one.

    Attributes:
        node: ours, which makes it.
        ours: the value.
        theirs: the value of the other graph.
        how: `operator`, `value`, or `operator, other weights`.
    """

    node: NodeProto
    ours: str
    theirs: str
    how: str


@dataclass(slots=True)
class Matching:
    """What was found.

    Attributes:
        pairs: in the order of our data path.
        alone: our computing nodes without a counterpart, in that order.
        n_theirs: their computing nodes.
        n_theirs_alone: those without a counterpart.
    """

    pairs: list[Pair] = field(default_factory=list)
    alone: list[NodeProto] = field(default_factory=list)
    n_theirs: int = 0
    n_theirs_alone: int = 0


def match_graphs(ours: InnerGraph, theirs: InnerGraph, inputs: dict[str, str]) -> Matching:
    """Match two graphs.

    Args:
        ours: our graph, with its feeds.
        theirs: the other, fed with the same numbers.
        inputs: our graph inputs to theirs.

    Raises:
        ModelError: one of them does not run.
    """
    return _Walk(Topology.of(ours), Topology.of(theirs), inputs).walk()


class _Walk:
    """One walk along our data path."""

    def __init__(self, ours: Topology, theirs: Topology, inputs: dict[str, str]) -> None:
        self._ours, self._theirs = ours, theirs
        self._mine = _signatures(ours)
        self._others = _signatures(theirs)
        self._by_size: dict[int, list[str]] = {}
        for name, sign in self._others.items():
            if sign is not None:
                self._by_size.setdefault(sign[0], []).append(name)
        self._known: dict[str, str] = dict(inputs)
        self._taken: set[str] = set()

    def walk(self) -> Matching:
        found = Matching()
        for node in self._ours.computing():
            pairs = list(self._pairs_of(node))
            for pair in pairs:
                self._known[pair.ours] = pair.theirs
                self._taken.add(pair.theirs)
            found.pairs += pairs
            if not pairs and any(self._mine.get(name) is not None for name in node.output):
                found.alone.append(node)
        nodes = [n for n in self._theirs.computing() if any(self._others.get(o) for o in n.output)]
        found.n_theirs = len(nodes)
        found.n_theirs_alone = sum(self._taken.isdisjoint(node.output) for node in nodes)
        return found

    def _pairs_of(self, node: NodeProto) -> Iterable[Pair]:
        single = node.output[0] if len(node.output) == 1 else ""
        exact = self._counterpart(node, exact=True) if single else None
        if exact is not None:
            return [Pair(node, single, exact, BY_OPERATOR)]
        values = [(name, self._same_value(name)) for name in node.output]
        pairs = [Pair(node, name, other, BY_VALUE) for name, other in values if other is not None]
        if pairs or not single:
            return pairs
        near = self._counterpart(node, exact=False)
        return [] if near is None else [Pair(node, single, near, OTHER_WEIGHTS)]

    def _counterpart(self, node: NodeProto, *, exact: bool) -> str | None:
        """Their node with our operator on the same inputs, and the same weights if `exact`."""
        inputs = [self._known.get(name) for name in self._ours.moving_inputs(node)]
        if not inputs or None in inputs:
            return None
        wanted = [name for name in inputs if name is not None]
        held = self._ours.held_inputs(node)
        for other in self._theirs.consumers.get(wanted[0], ()):
            if other.op_type != node.op_type or other.output[0] in self._taken:
                continue
            got = self._theirs.moving_inputs(other)
            if node.op_type in COMMUTATIVE:
                got, wanted = sorted(got), sorted(wanted)
            if got != wanted or not self._same_size(node.output[0], other.output[0]):
                continue
            theirs = self._theirs.held_inputs(other)
            if same_weights(held, theirs) if exact else same_sizes(held, theirs):
                return str(other.output[0])
        return None

    def _same_size(self, ours: str, theirs: str) -> bool:
        a, b = self._mine.get(ours), self._others.get(theirs)
        return a is None or b is None or a[0] == b[0]

    def _same_value(self, name: str) -> str | None:
        """Their first value, not yet taken, that is ours in some layout."""
        mine = self._mine.get(name)
        if mine is None:
            return None
        candidates = self._by_size.get(mine[0], ())
        return next(
            (
                other
                for other in candidates
                if other not in self._taken and alike(mine, self._others[other])
            ),
            None,
        )


def _signatures(topology: Topology) -> dict[str, Signature | None]:
    """Signature of every computed value, some values in memory at a time."""
    names = [name for node in topology.computing() for name in node.output if name]
    return {
        name: signature(array)
        for values in topology.graph.values(names)
        for name, array in values.items()
    }
