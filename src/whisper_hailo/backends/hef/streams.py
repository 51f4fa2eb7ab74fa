"""Inputs and outputs of a network: the edges between chip and host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whisper_hailo.backends.wire import Message
from whisper_hailo.core.errors import HefError

_BOUNDARY: Final = 0
"""Kind of connection; others lead from one context to the next."""

_INPUT: Final = 0
_METADATA_FIELDS = frozenset({2})
_EDGE_FIELDS = frozenset({1, 3, 4, 5})
_LAYER_FIELDS = frozenset({1, 2, 3, 6})
_MUX_FIELDS = frozenset({5})
_BASE_FIELDS = frozenset({1, 3, 5, 7, 12})
_DEEPEST_MUX = 8
_LARGEST_AXIS = 1 << 24

_ORDERS: Final = ("NHWC", "NHCW", "NC", "FCR", "BAYER_RGB", "NHW", "NMS", "F8CR")
_FLAT: Final = _ORDERS.index("NC")
_TYPES: Final = {0: "uint8", 1: "uint8", 2: "uint16"}


@dataclass(frozen=True, slots=True)
class HefStream:
    """One input or output.

    Attributes:
        name: such as `net/input_layer1`.
        shape: height, width, channels; the host sees these, in that order.
        order: how the chip lays them out, such as `NHWC` or `FCR`.
        type: `uint8` or `uint16` on the chip.
        scale: of the chip's quantisation, for the whole stream.
        zero_point: likewise.
    """

    name: str
    shape: tuple[int, int, int]
    order: str
    type: str
    scale: float
    zero_point: float


@dataclass(frozen=True, slots=True)
class Directions:
    """The streams of one context."""

    inputs: tuple[HefStream, ...]
    outputs: tuple[HefStream, ...]


def boundary_streams(context: Message, *, transposed: bool) -> Directions:
    """Streams of a context that lead to or from the host.

    Args:
        context: of a network.
        transposed: the whole network has height and width the other way round in the file.
    """
    inputs: list[HefStream] = []
    outputs: list[HefStream] = []
    metadata = context.message(3, _METADATA_FIELDS)
    for edge in metadata.messages(2, _EDGE_FIELDS) if metadata is not None else []:
        switch = edge.message(5, frozenset({3}))
        if switch is not None and switch.number(3) != _BOUNDARY:
            continue
        (inputs if edge.number(1) == _INPUT else outputs).extend(_edge(edge, transposed))
    return Directions(tuple(inputs), tuple(outputs))


def _edge(edge: Message, transposed: bool) -> list[HefStream]:
    """A layer, or the layers that share one stream (`mux`)."""
    layer = edge.message(3, _LAYER_FIELDS)
    if layer is not None:
        return [_stream(layer, transposed)]
    mux = edge.message(4, _MUX_FIELDS)
    return _joined(mux, transposed, 0) if mux is not None else []


def _joined(mux: Message, transposed: bool, depth: int) -> list[HefStream]:
    if depth > _DEEPEST_MUX:
        raise HefError("its streams are nested without end")
    found: list[HefStream] = []
    for part in mux.messages(5, frozenset({1, 2})):
        layer = part.message(1, _LAYER_FIELDS)
        if layer is not None:
            found.append(_stream(layer, transposed))
        elif (inner := part.message(2, _MUX_FIELDS)) is not None:
            found += _joined(inner, transposed, depth + 1)
    return found


def _stream(layer: Message, transposed: bool) -> HefStream:
    base = layer.message(2, _BASE_FIELDS)
    numeric = layer.message(3, frozenset({1, 2}))
    name = layer.text(1)
    if base is None or not name:
        raise HefError("it has an input or output without a name or a shape")
    order, kind = base.number(7), base.number(12)
    height, width, channels = base.number(1), base.number(3), base.number(5)
    if (transposed or layer.number(6)) and order != _FLAT:
        height, width = width, height
    shape = (height, width, channels)
    if not all(1 <= axis <= _LARGEST_AXIS for axis in shape):
        raise HefError(f"{name} has the shape {shape}")
    return HefStream(
        name=name,
        shape=shape,
        order=_ORDERS[order] if order < len(_ORDERS) else f"unknown ({order})",
        type=_TYPES.get(kind, f"{kind} bytes"),
        scale=numeric.real(2) if numeric is not None else 0.0,
        zero_point=numeric.real(1) if numeric is not None else 0.0,
    )
