"""Writes HEF files with the real protobuf library: a second hand beside the product's own reader.

Message and field numbers follow the public `hef.proto` of HailoRT, and what is written is what real
files hold: networks for a Hailo-8L, and their names, lie only within each of their placements, and
bytes of weights belong to actions. HailoRT 4.23's own reader takes these files.
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
PLACEMENTS = {"hailo8l": (51, 204), "hailo15m": (51, 204)}
"""Chips whose networks come once per half of a larger chip: bits of its clusters."""

KINDS = {"u32": 13, "u64": 4, "bool": 8, "str": 9, "bytes": 12, "float": 2}
_CORE = "metadata 1 Metadata, contexts 3 Context*, sorted_outputs_order 4 str*, fused 5 Fused, "
_CORE += "networks_names 6 str*"
MESSAGES = {
    "Hef": "header 1 Header, network_groups 2 Group*, mapping 3 bytes, extensions 5 Extension*, "
    "optional_extensions 6 Extension*, resources 7 External*",
    "External": "offset 1 u64, size 2 u64, name 3 str, xxhash 4 u64",
    "Header": "hw_arch 1 u32, timestamp 2 u64, sdk_version 3 str, version 4 u64",
    "Extension": "type_index 1 u32, name 2 str",
    "Group": f"{_CORE}, placed 7 PlacedGroup*, ops 8 Op*",
    "PlacedGroup": "inner 1 Group, layout 2 Layout",
    "Op": "name 1 str, core 4 Core",
    "Core": f"{_CORE}, placed 7 PlacedCore*",
    "PlacedCore": "inner 1 Core, layout 2 Layout",
    "Layout": "clusters 1 u32",
    "Metadata": "name 1 str, transposed 3 bool",
    "Fused": "has 1 bool, names 2 str*",
    "Context": "index 1 u32, operations 2 Operation*, metadata 3 ContextMetadata",
    "Operation": "trigger 1 Trigger, actions 2 Action*",
    "Trigger": "none 3 Nothing",
    "Nothing": "",
    "Action": "ccw 3 Ccw, ccw_pointer 16 CcwPointer",
    "Ccw": "data 1 bytes",
    "CcwPointer": "offset 1 u64, size 2 u32",
    "ContextMetadata": "name 1 str, edges 2 Edge*, sorted_outputs_order 5 str*",
    "Edge": "direction 1 u32, type 2 u32, layer 3 Layer, mux 4 Mux, switch 5 Switch",
    "Switch": "connection 3 u32, connected 8 Connected*",
    "Connected": "index 1 u32",
    "Layer": "name 1 str, base 2 Base, numeric 3 Numeric, transposed 6 bool",
    "Mux": "name 1 str, base 2 Base, data 3 MuxData, predecessors 5 MuxEdge*",
    "MuxData": "n_predecessors 1 u32",
    "MuxEdge": "layer 1 Layer, mux 2 Mux",
    "Base": "height 1 u32, padded_height 2 u32, width 3 u32, padded_width 4 u32, features 5 u32, "
    "padded_features 6 u32, format 7 u32, bytes_per_buffer 9 u32, buffers_per_frame 10 u32, "
    "data_bytes 12 u32, buffers 13 Resource*",
    "Resource": "index 1 u32",
    "Numeric": "zero_point 1 float, scale 2 float",
}
"""Message to its fields: name, number, kind, and `*` where there may be several."""

_MULTI_NETWORK = 8
_NET_FLOW = 13
_PERIPHERY = 26
_CONTEXTS = 4
_RESOURCES = 31
"""Numbers of extensions."""

PADDING = 16
"""Bytes of the weights before which offsets of version 3 do not count."""

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

    `ops`: with operators, as networks whose last steps the host computes; `mapping`: a free field
    of the format, in which the stand-in keeps what it runs; `transposed`: shapes lie the other way
    round in the file, by a mark of each `layer` or of the whole `network`; `resources`: files
    behind the weights, which only version 3 has.
    """

    nets: list[Net]
    arch: str = "hailo8l"
    version: int = 0
    compiler: str = "3.33.0"
    ops: bool = False
    mapping: bytes = b""
    weights: bytes = field(default=b"\x5a" * 4096)
    mux: bool = False
    transposed: str = ""
    resources: dict[str, bytes] = field(default_factory=dict)


def hef_bytes(wish: Wish) -> bytes:
    """A HEF."""
    hef = classes()["Hef"]()
    hef.header.hw_arch = ARCH_CODES[wish.arch]
    hef.header.sdk_version = wish.compiler
    hef.header.timestamp = 1_700_000_000
    hef.header.version = 5
    hef.mapping = wish.mapping
    several = any(net.contexts > 1 for net in wish.nets)
    wanted = {_NET_FLOW: wish.ops, _CONTEXTS: several, _RESOURCES: bool(wish.resources)}
    for index in (_PERIPHERY, *(number for number, is_set in wanted.items() if is_set)):
        hef.extensions.add(type_index=index, name=f"extension {index}")
    hef.optional_extensions.add(type_index=_MULTI_NETWORK, name="several networks")
    for net in wish.nets:
        _fill(hef.network_groups.add(), net, wish)
    offset = len(wish.weights) - PADDING
    for name, content in wish.resources.items():
        hef.resources.add(
            name=name, offset=offset, size=len(content), xxhash=_xxh3(content)
        )
        offset += len(content)
    more = b"".join(wish.resources.values())
    return with_header(hef.SerializeToString(), wish.version, wish.weights, more)


def with_header(proto: bytes, version: int, weights: bytes, more: bytes = b"") -> bytes:
    """Header, description and, from version 1 on, weights; with resources from version 3 on."""
    body = proto if version == 0 else proto + weights + more
    common = struct.pack(">III", MAGIC, version, len(proto))
    if version == 0:
        return (
            common + bytes(4) + hashlib.md5(body, usedforsecurity=False).digest() + body
        )
    if version == 1:
        return common + struct.pack(">IQI", zlib.crc32(body), len(weights), 0) + body
    if version == 2:
        return common + struct.pack(">QQQQ", _xxh3(body), len(weights), 0, 0) + body
    hashes = _xxh3(body), _xxh3(proto)  # HailoRT 4 looks at the first, 5 at the second
    sizes = len(weights), PADDING, len(more)
    return common + struct.pack(">QQIQQQ", hashes[0], *sizes, hashes[1], 0) + body


def read_mapping(data: bytes) -> bytes:
    """The free field of a file that `hef_bytes` made."""
    sizes = {0: 32, 1: 28, 2: 44, 3: 56}
    _, version, size = struct.unpack_from(">III", data)
    hef = classes()["Hef"]()
    hef.ParseFromString(data[sizes[version] : sizes[version] + size])
    return bytes(hef.mapping)


def fields(message: str) -> list[tuple[str, int, str, bool]]:
    """Name, number, kind of each field, and whether there may be several."""
    found = []
    for entry in filter(None, MESSAGES[message].split(", ")):
        name, number, kind = entry.split()
        found.append((name, int(number), kind.removesuffix("*"), kind.endswith("*")))
    return found


@cache
def classes() -> dict[str, Any]:
    """Message classes of the format."""
    file = descriptor_pb2.FileDescriptorProto(
        name="standin_hef.proto", package="standin"
    )
    file.syntax = "proto3"
    for name in MESSAGES:
        message = file.message_type.add(name=name)
        for key, number, kind, repeated in fields(name):
            entry = message.field.add(
                name=key, number=number, label=3 if repeated else 1
            )
            entry.type = KINDS.get(kind, 11)
            if kind not in KINDS:
                entry.type_name = f".standin.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"standin.{name}")
        )
        for name in MESSAGES
    }


def _fill(group: Any, net: Net, wish: Wish) -> None:
    """A network: as it is, or once per placement; in an operator, or in the group itself."""
    core = group.ops.add(name="core").core if wish.ops else group
    placements = PLACEMENTS.get(wish.arch, ())
    if wish.ops:
        named = group.placed.add().inner if placements else group
        named.metadata.name = net.name
        group.sorted_outputs_order.extend(net.outputs)
    for clusters in placements:
        placed = core.placed.add()
        placed.layout.clusters = clusters
        _network(placed.inner, net, wish)
    if not placements:
        _network(core, net, wish)


def _network(place: Any, net: Net, wish: Wish) -> None:
    place.metadata.name = net.name
    place.metadata.transposed = wish.transposed == "network"
    place.networks_names.append(net.name)
    # Which count for nothing, as `has` is not set.
    place.fused.names.extend(net.outputs)
    if not wish.ops:
        place.sorted_outputs_order.extend(net.outputs)
    for index in range(net.contexts):
        context = place.contexts.add(index=index)
        _weights(context.operations.add(), wish)
        _edges(context.metadata.edges, index, net, wish)


def _weights(operation: Any, wish: Wish) -> None:
    """Within the description in version 0, behind it later."""
    operation.trigger.none.SetInParent()
    if wish.version == 0:
        operation.actions.add().ccw.data = wish.weights
    else:
        operation.actions.add().ccw_pointer.size = len(wish.weights)


def _edges(edges: Any, index: int, net: Net, wish: Wish) -> None:
    """First context has the inputs, the last the outputs, each an edge to its neighbour."""
    if index == 0:
        for name, shape in net.inputs.items():
            _layer(edges.add(direction=0).layer, name, shape, wish)
    else:
        _inner(edges.add(direction=0), f"{net.name}/inner{index - 1}", index - 1, wish)
    if index < net.contexts - 1:
        _inner(edges.add(direction=1), f"{net.name}/inner{index}", index + 1, wish)
        return
    outputs = list(net.outputs.items())[::-1]  # the file's order is not the sorted one
    if wish.mux:
        _mux(edges.add(direction=1, type=1).mux, outputs, wish)
    else:
        for name, shape in outputs:
            _layer(edges.add(direction=1).layer, name, shape, wish)


def _inner(edge: Any, name: str, neighbour: int, wish: Wish) -> None:
    edge.switch.connection = 1
    edge.switch.connected.add(index=neighbour)
    _layer(edge.layer, name, (1, 1, 8), wish)


def _mux(mux: Any, streams: list[tuple[str, Shape]], wish: Wish) -> None:
    mux.name = "mux"
    _base(mux.base, (1, 1, 8))
    mux.data.n_predecessors = len(streams)
    for name, shape in streams[:1]:
        inner = mux.predecessors.add().mux
        inner.name = "inner mux"
        inner.data.n_predecessors = 1
        _base(inner.base, (1, 1, 8))
        _layer(inner.predecessors.add().layer, name, shape, wish)
    for name, shape in streams[1:]:
        _layer(mux.predecessors.add().layer, name, shape, wish)


def _layer(layer: Any, name: str, shape: Shape, wish: Wish) -> None:
    layer.name = name
    layer.transposed = wish.transposed == "layer"
    height, width, features = shape
    _base(layer.base, (width, height, features) if wish.transposed else shape)
    layer.numeric.scale = 0.5
    layer.numeric.zero_point = 128.0


def _base(base: Any, shape: Shape) -> None:
    base.height, base.width, base.features = shape
    base.padded_height, base.padded_width, base.padded_features = shape
    base.data_bytes = 2
    base.bytes_per_buffer = 2 * base.features
    base.buffers_per_frame = base.height * base.width
    base.buffers.add(index=0)


def _xxh3(data: bytes) -> int:
    import xxhash

    return xxhash.xxh3_64_intdigest(data)
