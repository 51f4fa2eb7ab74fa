"""Writes HEF files with the real protobuf library: a second hand beside the product's own reader.

Message and field numbers follow the public `hef.proto` of HailoRT.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MAGIC = 0x01484546
ARCH_CODES = {
    "hailo8": 0,
    "hailo8l": 3,
    "hailo15m": 4,
    "hailo10h": 5,
    "hailo15l": 6,
    "hailo15h": 103,
}
_KINDS = {"u32": 13, "u64": 4, "bool": 8, "str": 9, "bytes": 12, "float": 2}
_MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Hef": {
        "header": (1, "Header", False),
        "network_groups": (2, "Group", True),
        "mapping": (3, "bytes", False),
        "extensions": (5, "Extension", True),
    },
    "Header": {
        "hw_arch": (1, "u32", False),
        "timestamp": (2, "u64", False),
        "sdk_version": (3, "str", False),
        "version": (4, "u64", False),
    },
    "Extension": {"type_index": (1, "u32", False), "name": (2, "str", False)},
    "Group": {
        "metadata": (1, "GroupMetadata", False),
        "contexts": (3, "Context", True),
        "sorted_outputs_order": (4, "str", True),
        "fused": (5, "Fused", False),
        "partial_groups": (7, "PartialGroup", True),
        "ops": (8, "Op", True),
        "name": (10, "str", False),
    },
    "GroupMetadata": {"name": (1, "str", False)},
    "Fused": {"has": (1, "bool", False), "names": (2, "str", True)},
    "PartialGroup": {"group": (1, "Group", False)},
    "Op": {"name": (1, "str", False), "core": (4, "Core", False)},
    "Core": {
        "contexts": (3, "Context", True),
        "sorted_outputs_order": (4, "str", True),
        "fused": (5, "Fused", False),
        "partial": (7, "Partial", True),
    },
    "Partial": {"core": (1, "Core", False), "layout": (2, "bytes", False)},
    "Context": {
        "index": (1, "u32", False),
        "operations": (2, "Operation", True),
        "metadata": (3, "ContextMetadata", False),
    },
    "Operation": {"data": (2, "bytes", False)},
    "ContextMetadata": {
        "name": (1, "str", False),
        "edges": (2, "Edge", True),
        "sorted_outputs_order": (5, "str", True),
    },
    "Edge": {
        "direction": (1, "u32", False),
        "type": (2, "u32", False),
        "layer": (3, "Layer", False),
        "mux": (4, "Mux", False),
        "switch": (5, "Switch", False),
    },
    "Switch": {"connection": (3, "u32", False)},
    "Layer": {
        "name": (1, "str", False),
        "base": (2, "Base", False),
        "numeric": (3, "Numeric", False),
    },
    "Mux": {
        "name": (1, "str", False),
        "base": (2, "Base", False),
        "predecessors": (5, "MuxEdge", True),
    },
    "MuxEdge": {"layer": (1, "Layer", False), "mux": (2, "Mux", False)},
    "Base": {
        "height": (1, "u32", False),
        "padded_height": (2, "u32", False),
        "width": (3, "u32", False),
        "features": (5, "u32", False),
        "format": (7, "u32", False),
        "data_bytes": (12, "u32", False),
    },
    "Numeric": {"zero_point": (1, "float", False), "scale": (2, "float", False)},
}

Shape = tuple[int, int, int]


@dataclass
class Net:
    """A network to write: names of streams to their shapes, outputs in sorted order."""

    name: str
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    contexts: int = 1


@dataclass
class Wish:
    """A HEF to write.

    `form`: `ops` (with operators), `legacy` (without) or `partial` (once per placement, as for the
    8L); `mapping`: a free field of the format, in which the stand-in keeps what it runs.
    """

    nets: list[Net]
    arch: str = "hailo8l"
    version: int = 0
    compiler: str = "3.33.0"
    form: str = "ops"
    mapping: bytes = b""
    weights: bytes = field(default=b"\x5a" * 4096)
    mux: bool = False


def hef_bytes(wish: Wish) -> bytes:
    """A HEF."""
    hef = classes()["Hef"]()
    hef.header.hw_arch = ARCH_CODES[wish.arch]
    hef.header.sdk_version = wish.compiler
    hef.header.timestamp = 1_700_000_000
    hef.mapping = wish.mapping
    hef.extensions.add(type_index=13, name="hailo_net_flow")
    for net in wish.nets:
        _fill(hef.network_groups.add(), net, wish)
    return with_header(hef.SerializeToString(), wish.version, wish.weights)


def with_header(proto: bytes, version: int, weights: bytes) -> bytes:
    """Header, description and, from version 1 on, weights."""
    body = proto if version == 0 else proto + weights
    common = struct.pack(">III", MAGIC, version, len(proto))
    if version == 0:
        return common + bytes(4) + hashlib.md5(body, usedforsecurity=False).digest() + body
    if version == 1:
        return common + struct.pack(">IQI", zlib.crc32(body), len(weights), 0) + body
    if version == 2:
        return common + struct.pack(">QQQQ", _xxh3(body), len(weights), 0, 0) + body
    own = _xxh3(proto)
    return common + struct.pack(">QQIQQQ", 0, len(weights), 16, 0, own, 0) + body


def read_mapping(data: bytes) -> bytes:
    """The free field of a file that `hef_bytes` made."""
    sizes = {0: 32, 1: 28, 2: 44, 3: 56}
    _, version, size = struct.unpack_from(">III", data)
    hef = classes()["Hef"]()
    hef.ParseFromString(data[sizes[version] : sizes[version] + size])
    return bytes(hef.mapping)


@cache
def classes() -> dict[str, Any]:
    """Message classes of the format."""
    file = descriptor_pb2.FileDescriptorProto(name="standin_hef.proto", package="standin")
    file.syntax = "proto3"
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for key, (number, kind, repeated) in fields.items():
            entry = message.field.add(name=key, number=number, label=3 if repeated else 1)
            entry.type = _KINDS.get(kind, 11)
            if kind not in _KINDS:
                entry.type_name = f".standin.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"standin.{name}"))
        for name in _MESSAGES
    }


def _fill(group: Any, net: Net, wish: Wish) -> None:
    if wish.form == "ops":
        group.name = net.name
        group.sorted_outputs_order.extend(net.outputs)
        _contexts(group.ops.add(name="core").core, net, wish)
    elif wish.form == "partial":
        group.name = net.name
        group.sorted_outputs_order.extend(net.outputs)
        core = group.ops.add(name="core").core
        for _ in range(2):
            _contexts(core.partial.add().core, net, wish)
    else:
        group.metadata.name = net.name
        group.sorted_outputs_order.extend(net.outputs)
        _contexts(group, net, wish)


def _contexts(place: Any, net: Net, wish: Wish) -> None:
    """First context has the inputs, the last the outputs, each an edge to its neighbour."""
    for index in range(net.contexts):
        context = place.contexts.add(index=index)
        context.operations.add(data=wish.weights)
        if index == 0:
            for name, shape in net.inputs.items():
                _edge(context.metadata.edges.add(direction=0), name, shape)
        if index == net.contexts - 1:
            outputs = list(net.outputs.items())[::-1]  # the file's order is not the sorted one
            if wish.mux:
                _mux(context.metadata.edges.add(direction=1, type=1), outputs)
            else:
                for name, shape in outputs:
                    _edge(context.metadata.edges.add(direction=1), name, shape)
        inner = context.metadata.edges.add(direction=index % 2)
        _edge(inner, f"{net.name}/inner{index}", (1, 1, 8))
        inner.switch.connection = 1


def _edge(edge: Any, name: str, shape: Shape) -> None:
    edge.switch.connection = 0
    _layer(edge.layer, name, shape)


def _mux(edge: Any, streams: list[tuple[str, Shape]]) -> None:
    edge.switch.connection = 0
    edge.mux.name = "mux"
    for name, shape in streams[:1]:
        _layer(edge.mux.predecessors.add().mux.predecessors.add().layer, name, shape)
    for name, shape in streams[1:]:
        _layer(edge.mux.predecessors.add().layer, name, shape)


def _layer(layer: Any, name: str, shape: Shape) -> None:
    layer.name = name
    layer.base.height, layer.base.width, layer.base.features = shape
    layer.base.data_bytes = 2
    layer.numeric.scale = 0.5
    layer.numeric.zero_point = 128.0


def _xxh3(data: bytes) -> int:
    from whisper_hailo.backends.hef.xxh3 import xxh3_64  # its own test has values from xxHash

    return xxh3_64(memoryview(data))
