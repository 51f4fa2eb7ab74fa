"""The part of a graph that the compiler sees: from the start nodes to the end nodes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.names import shown
from whisper_hailo.hailo_tools.check.graph import OnnxGraph


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
        foldable: indices of nodes whose result is a constant once shapes are numbers.
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
    by_start = {name: _entering(graph, name, "--start") for name in starts}
    entries = tuple(dict.fromkeys(value for values in by_start.values() for value in values))
    nodes, reached = _ancestors(graph, [_ending(graph, name) for name in ends], set(entries))
    unused = tuple(name for name, values in by_start.items() if not reached & set(values))
    strays = tuple(name for name in graph.inputs if name in reached and name not in entries)
    foldable = _foldable(graph, nodes)
    return Section(nodes, starts, ends, entries, strays, unused, foldable)


def _named(graph: OnnxGraph, name: str) -> int | None:
    return next((i for i, node in enumerate(graph.nodes) if node.name == name), None)


def _entering(graph: OnnxGraph, name: str, option: str) -> tuple[str, ...]:
    """The values at which the section is cut off."""
    index = _named(graph, name)
    if index is not None:
        return tuple(x for x in graph.nodes[index].input if x and x not in graph.weights)
    if name in graph.inputs or name in graph.producers:
        return (name,)
    raise _no_such(graph, name, option)


def _ending(graph: OnnxGraph, name: str) -> int:
    index = _named(graph, name)
    if index is None:
        index = graph.producers.get(name)
    if index is None:
        raise _no_such(graph, name, "--end")
    return index


def _no_such(graph: OnnxGraph, name: str, option: str) -> OptionError:
    known = [node.name for node in graph.nodes if node.name] + list(graph.inputs)
    close = difflib.get_close_matches(name, known, n=3) or known[:3]
    return OptionError(
        f"{option} {name}: {shown(graph.path.name)} has no such node or value; "
        f"did you mean one of: {', '.join(close)}"
    )


def _ancestors(
    graph: OnnxGraph, ends: Sequence[int], entries: set[str]
) -> tuple[tuple[int, ...], set[str]]:
    """Nodes that the ends depend on, not looking beyond `entries`; and all values they read."""
    found: set[int] = set()
    reached: set[str] = set()
    waiting = list(ends)
    while waiting:
        index = waiting.pop()
        if index in found:
            continue
        found.add(index)
        for value in graph.nodes[index].input:
            reached.add(value)
            if value not in entries and value in graph.producers:
                waiting.append(graph.producers[value])
    return tuple(sorted(found)), reached


def _foldable(graph: OnnxGraph, nodes: Sequence[int]) -> frozenset[int]:
    """Nodes that a simplifier turns into constants."""
    constants = set(graph.weights)
    folded: set[int] = set()
    for index in nodes:
        node = graph.nodes[index]
        of_shape = node.op_type == "Shape" and graph.tensor(node.input[0]).static
        if of_shape or all(value in constants for value in node.input if value):
            folded.add(index)
            constants.update(node.output)
    return frozenset(folded)
