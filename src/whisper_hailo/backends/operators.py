"""Refuses graphs that can go on for ever, before they are loaded.

Whisper's graphs have a fixed number of steps: nothing in them loops. A branch (`If`) is what
Optimum's merged decoders are made of; what this program writes has none of these.
Field numbers: onnx.proto.
"""

from __future__ import annotations

from typing import Final

from whisper_hailo.backends.wire import Budget, Message, WireError
from whisper_hailo.core.errors import ModelError

LOOPS: Final = frozenset({"Loop", "Scan", "SequenceMap"})
BRANCHES: Final = frozenset({"If"})

_GRAPH, _FUNCTIONS = 7, 25
_GRAPH_NODES, _FUNCTION_NODES = 1, 7
_OPERATOR, _ATTRIBUTES = 4, 5
_SUBGRAPH, _SUBGRAPHS = 6, 11


def refuse_operators(data: memoryview, name: str, refused: frozenset[str], advice: str) -> None:
    """Look at all operators of an ONNX graph, weights passed over.

    Args:
        data: its bytes.
        name: what to call it in messages.
        refused: operators that it must not have.
        advice: what to do about one.

    Raises:
        ModelError: it has one of them, or is no graph.
    """
    try:
        found = refused & _operators(data, inner=not refused >= BRANCHES)
    except WireError as error:
        raise ModelError(f"{name} is no ONNX graph ({error}); {advice}") from error
    if found:
        raise ModelError(
            f"{name} has the operator {min(found)}, which can go on for ever and which no Whisper "
            f"needs; {advice}"
        )


def _operators(data: memoryview, *, inner: bool) -> set[str]:
    """Names of all operators, those of functions and, where asked for, of inner graphs, too."""
    budget, found = Budget(), set()
    wanted = frozenset({_OPERATOR, _ATTRIBUTES} if inner else {_OPERATOR})
    model = Message(data, budget, frozenset({_GRAPH, _FUNCTIONS}))
    waiting = [
        *_scopes(model, _GRAPH, _GRAPH_NODES),
        *_scopes(model, _FUNCTIONS, _FUNCTION_NODES),
    ]
    while waiting:
        scope, field = waiting.pop()
        for node in scope.messages(field, wanted):
            found.add(node.text(_OPERATOR))
            for attribute in node.messages(_ATTRIBUTES, frozenset({_SUBGRAPH, _SUBGRAPHS})):
                waiting += _scopes(attribute, _SUBGRAPH, _GRAPH_NODES)
                waiting += _scopes(attribute, _SUBGRAPHS, _GRAPH_NODES)
    return found


def _scopes(message: Message, field: int, nodes: int) -> list[tuple[Message, int]]:
    """Graphs or functions in a message, each with the number of the field that holds its nodes."""
    return [(scope, nodes) for scope in message.messages(field, frozenset({nodes}))]
