"""Node by node along the data path: where two graphs first drift apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
from onnx import NodeProto

from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.validate.difference import Difference, difference
from whisper_hailo.validate.inner import InnerGraph
from whisper_hailo.validate.limits import Limit
from whisper_hailo.validate.match import Matching, Pair, match_graphs
from whisper_hailo.validate.topology import Topology


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """One node and its counterpart.

    Attributes:
        node: name of our node.
        operator: its operator.
        other: the other graph's value.
        how: how the counterpart was found: `name`, `operator`, `value`, or `operator, other
            weights`.
        found: how far both are apart.
        healed: on every way on from this node a later one agrees again: the same is computed in
            another way, such as with a factor folded into other weights.
    """

    node: str
    operator: str
    other: str
    how: str
    found: Difference
    healed: bool = False

    def to_dict(self) -> dict[str, Any]:
        named = {"node": self.node, "operator": self.operator, "other": self.other, "how": self.how}
        return named | self.found.to_dict() | {"healed": self.healed}


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """Two graphs node by node.

    Attributes:
        ours: label of our graph.
        theirs: label of the other.
        limit: what each node was held to.
        nodes: those that both graphs have, in the order of our data path.
        n_alone: our computing nodes that have no counterpart.
        n_theirs_alone: their computing nodes that have none.
        first_alone: the first of ours after which nothing corresponds any more, if there is one.
    """

    ours: str
    theirs: str
    limit: Limit
    nodes: tuple[NodeDifference, ...]
    n_alone: int = 0
    n_theirs_alone: int = 0
    first_alone: str | None = None

    @property
    def first(self) -> NodeDifference | None:
        """The first node that is not within the limit, and what follows it neither."""
        apart = (node for node in self.nodes if not self.limit.holds(node.found))
        return next((node for node in apart if not node.healed), None)

    def to_dict(self) -> dict[str, Any]:
        first = self.first
        how = [node.how for node in self.nodes]
        return {
            "ours": self.ours,
            "theirs": self.theirs,
            "limit": self.limit.text,
            "matched": {kind: how.count(kind) for kind in dict.fromkeys(how)},
            "alone": self.n_alone,
            "theirs_alone": self.n_theirs_alone,
            "first_difference": None if first is None else first.to_dict(),
            "first_alone": self.first_alone,
            "nodes": [node.to_dict() for node in self.nodes],
        }


def compare_by_name(
    ours: InnerGraph, theirs: InnerGraph, target: str, limit: Limit
) -> NodeComparison:
    """Compare two graphs of ours whose values have the same names, such as before and after.

    Args:
        ours: the graph before.
        theirs: the graph after.
        target: value whose data path is looked at; side outputs are not.
        limit: what each node is held to.

    Raises:
        ModelError: one of them does not run.
    """
    mine, others = (_path_to(Topology.of(graph), target) for graph in (ours, theirs))
    made = {name for node in others for name in node.output}
    known = {name for node in mine for name in node.output}
    pairs = [
        Pair(node, name, name, "name") for node in mine for name in node.output if name in made
    ]
    return NodeComparison(
        ours.label,
        theirs.label,
        limit,
        nodes=tuple(_with_factors(mine, list(_differences(ours, theirs, pairs)), limit)),
        n_alone=sum(made.isdisjoint(node.output) for node in mine),
        n_theirs_alone=sum(known.isdisjoint(node.output) for node in others),
    )


def _with_factors(
    path: Sequence[NodeProto], nodes: Sequence[NodeDifference], limit: Limit
) -> Iterable[NodeDifference]:
    """Mark nodes that differ although all that takes their value agrees.

    So it is with a factor that moves from keys to queries. A sum does not count: what is larger
    in it hides what has drifted.
    """
    agrees = {node.node: node.operator != "Add" and limit.holds(node.found) for node in nodes}
    takers: dict[str, list[str]] = {}
    for node in path:
        for name in node.input:
            takers.setdefault(name, []).append(node.name or node.output[0])
    for found in nodes:
        taken_by = takers.get(found.other, ())
        healed = bool(taken_by) and all(agrees.get(label, False) for label in taken_by)
        yield replace(found, healed=healed and not limit.holds(found.found))


def _path_to(topology: Topology, target: str) -> list[NodeProto]:
    """Computing nodes that a value is made of, in order."""
    needed = {target}
    for node in reversed(topology.graph.nodes):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
    return [node for node in topology.computing() if not needed.isdisjoint(node.output)]


def compare_by_topology(
    ours: InnerGraph, theirs: InnerGraph, inputs: dict[str, str], limit: Limit
) -> NodeComparison:
    """Compare with a graph of any origin; `inputs` maps our graph inputs to its.

    Raises:
        ModelError: one of them does not run.
    """
    matching = match_graphs(ours, theirs, inputs)
    nodes = list(_differences(ours, theirs, matching.pairs))
    return NodeComparison(
        ours.label,
        theirs.label,
        limit,
        nodes=tuple(_with_healed(ours, nodes, limit)),
        n_alone=len(matching.alone),
        n_theirs_alone=matching.n_theirs_alone,
        first_alone=_parting(ours, matching),
    )


def _with_healed(
    ours: InnerGraph, nodes: Sequence[NodeDifference], limit: Limit
) -> Iterable[NodeDifference]:
    """Mark nodes that differ although all that is made of them agrees."""
    harmless = _harmless(ours, {node.node: limit.holds(node.found) for node in nodes})
    for node in nodes:
        differs = not limit.holds(node.found)
        yield replace(node, healed=True) if differs and node.node in harmless else node


def _harmless(graph: InnerGraph, agrees: dict[str, bool]) -> set[str]:
    """Labels of nodes whose result agrees, or comes to agree on every way that leads on from it.

    One way is not enough: what is added to a residual stream goes on beside every attention that
    does not mind it.

    Args:
        graph: nodes in the order in which they run.
        agrees: whether those that were compared do, by label.
    """
    found: set[str] = set()
    # Of values: whether all nodes so far, from the end, that take one are harmless.
    fine: dict[str, bool] = {}
    for node in reversed(graph.nodes):
        label = node.name or node.output[0]
        taken = [fine[name] for name in node.output if name in fine]
        good = agrees.get(label, False) or (bool(taken) and all(taken))
        if good:
            found.add(label)
        for name in node.input:
            fine[name] = fine.get(name, True) and good
    return found


def _parting(ours: InnerGraph, matching: Matching) -> str | None:
    """Our first node behind the last one that has a counterpart, where the output has none."""
    paired = {pair.ours for pair in matching.pairs}
    if not paired.isdisjoint(ours.outputs) or not matching.alone:
        return None
    order = {node.output[0]: index for index, node in enumerate(ours.nodes)}
    last = max((order[pair.node.output[0]] for pair in matching.pairs), default=-1)
    behind = (node for node in matching.alone if order[node.output[0]] > last)
    node = next(behind, matching.alone[0])
    return node.name or node.output[0]


def _differences(
    ours: InnerGraph, theirs: InnerGraph, pairs: Sequence[Pair]
) -> Iterable[NodeDifference]:
    """Differences of pairs, few values in memory at a time."""
    by_ours = {pair.ours: pair for pair in pairs}
    for batch in ours.batches([pair.ours for pair in pairs]):
        mine = ours.run(batch)
        wanted = list(dict.fromkeys(by_ours[name].theirs for name in batch))
        others = {n: a for part in theirs.values(wanted) for n, a in part.items()}
        for name in batch:
            pair = by_ours[name]
            got, expected = others[pair.theirs], mine[name]
            if got.size != expected.size or got.dtype.kind != "f":
                continue
            label = pair.node.name or pair.ours
            found = difference(aligned(got, expected), expected)
            yield NodeDifference(label, pair.node.op_type, pair.theirs, pair.how, found)


def aligned(got: AnyArray, expected: AnyArray) -> AnyArray:
    """`got` with its axes in the order of `expected`'s, as far as shapes and values tell."""
    if got.shape == expected.shape:
        return got
    target = tuple(axis for axis in expected.shape if axis != 1)
    source = got.reshape([axis for axis in got.shape if axis != 1])
    if source.shape == target:
        return source.reshape(expected.shape)
    best, least = None, np.inf
    for order in permutations(range(source.ndim)):
        turned = source.transpose(order)
        if turned.shape != target:
            continue
        apart = float(np.abs(turned - expected.reshape(target)).max())
        if apart < least:
            best, least = turned, apart
    if best is not None:
        return best.reshape(expected.shape)
    # Heads apart and heads merged: no turn of axes leads from one to the other, sorting does.
    order_of = np.argsort(expected, axis=None, kind="stable")
    sorted_got = np.empty(expected.size, got.dtype)
    sorted_got[order_of] = np.sort(got, axis=None)
    return sorted_got.reshape(expected.shape)
