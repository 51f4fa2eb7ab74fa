"""Finds layer norms that are written out node by node, as graphs of opset 13 have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import NodeProto

_CHAIN = ("Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add")
"""What follows `Sub(x, ReduceMean(x))`, one after the other."""


def written_out_norms(
    nodes: Sequence[NodeProto], section: Iterable[int], weights: set[str]
) -> dict[int, tuple[int, ...]]:
    """Norms of the form ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add.

    Args:
        nodes: the graph's.
        section: indices of the nodes to look at.
        weights: names of its initializers.

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
    """The node of this operator that reads what another one gives."""
    value = nodes[at].output[0]
    return next((i for i in readers.get(value, []) if nodes[i].op_type == operator), None)
