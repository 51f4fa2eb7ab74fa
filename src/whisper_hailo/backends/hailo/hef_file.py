"""What a HEF holds: chip, compiler, networks, their inputs and outputs.

A header comes before the description, which is a protobuf message, and weights come behind it.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import xxhash

from whisper_hailo.backends.hailo import hef_fields as fields
from whisper_hailo.backends.hailo.protobuf import Message
from whisper_hailo.core.errors import HefError, display_path

MAGIC: Final = 0x01484546
_COMMON: Final = struct.Struct(">III")
"""Of every version: magic number, version, bytes of the description."""

_DISTINCT: Final = {
    0: struct.Struct(">I16s"),
    1: struct.Struct(">IQI"),
    2: struct.Struct(">QQQQ"),
    3: struct.Struct(">QQIQQQ"),
}
"""The rest of each version; `_read_distinct` names the values."""

_CHECKSUMS: Final = {0: "MD5", 1: "CRC-32", 2: "XXH3", 3: "XXH3"}


@dataclass(frozen=True, slots=True)
class Header:
    """What lies before the description, which goes from `start` to `end`.

    `checksum`, in hexadecimal, is that of the bytes from `start` to `checked_end`.
    """

    version: int
    start: int
    end: int
    checked_end: int
    checksum: str


def read_header(data: memoryview) -> Header:
    """Read and check a file's header.

    Raises:
        HefError: another format, an unknown version, or another length than the header states.
    """
    if len(data) < _COMMON.size:
        raise HefError(f"it has {len(data)} bytes, less than a HEF's header")
    magic, version, size = _COMMON.unpack_from(data)
    if magic != MAGIC:
        raise HefError(
            f"it is not a HEF: it begins with {magic:#010x}, a HEF with {MAGIC:#010x}"
        )
    if version not in _DISTINCT:
        raise HefError(f"its format has version {version}, this program reads 0 to 3")
    layout = _DISTINCT[version]
    start = _COMMON.size + layout.size
    if len(data) < start:
        raise HefError(f"it ends within its header, after {len(data)} bytes")
    distinct = _read_distinct(version, layout.unpack_from(data, _COMMON.size))
    end = start + size
    file_end = end + distinct.n_bytes_behind
    if len(data) != file_end:
        raise HefError(f"it has {len(data)} bytes, its header says {file_end}")
    if size == 0:
        raise HefError("it describes no network")
    checked_end = end if distinct.covers_description_only else file_end
    return Header(version, start, end, checked_end, distinct.checksum)


@dataclass(frozen=True, slots=True)
class _Distinct:
    """What the versions of the header state in different places.

    Attributes:
        checksum: in hexadecimal.
        n_bytes_behind: from the end of the description to the end of the file.
        covers_description_only: the checksum ends with the description.
    """

    checksum: str
    n_bytes_behind: int
    covers_description_only: bool = False


def _read_distinct(version: int, values: tuple[Any, ...]) -> _Distinct:
    if version == 0:
        _, md5 = values
        return _Distinct(md5.hex(), 0)
    if version == 1:
        crc, n_weights, _ = values
        return _Distinct(f"{crc:08x}", n_weights)
    if version == 2:
        xxh3, n_weights, _, _ = values
        return _Distinct(f"{xxh3:016x}", n_weights)
    # Weights count with their padding; external resources come behind them.
    xxh3, n_weights, _, n_resources, description_xxh3, _ = values
    n_bytes_behind = n_weights + n_resources
    if xxh3:
        return _Distinct(f"{xxh3:016x}", n_bytes_behind)
    # HailoRT 5 is content with the description's checksum, and so may its compilers be.
    return _Distinct(
        f"{description_xxh3:016x}", n_bytes_behind, covers_description_only=True
    )


def check_sum(data: memoryview, header: Header) -> bool:
    """Return whether the file's content has the checksum of its header."""
    covered = data[header.start : header.checked_end]
    if header.version == 0:
        checksum = hashlib.md5(covered, usedforsecurity=False).hexdigest()
    elif header.version == 1:
        checksum = f"{zlib.crc32(covered):08x}"
    else:
        checksum = xxhash.xxh3_64_hexdigest(covered)
    return checksum == header.checksum


ARCHES: Final = {
    # Early boards, of the same kind to HailoRT.
    **dict.fromkeys((0, 1, 2, 101, 102), "hailo8"),
    3: "hailo8l",
    4: "hailo15m",
    5: "hailo10h",
    6: "hailo15l",
    100: "hailo8_a0",
    **dict.fromkeys((103, 104, 105), "hailo15h"),  # also of compilers 5 for a Hailo-10H
    106: "hailo15l",
}
"""Number of a chip to its name; HailoRT, `device_internal.cpp`."""


StreamShape: TypeAlias = tuple[int, int, int]
"""Height, width and channels, as the host sees them."""

StreamShapes: TypeAlias = dict[str, StreamShape]
"""Streams by name, such as `net/input_layer1`."""


@dataclass(frozen=True, slots=True)
class HefGroup:
    """One network of a HEF; its outputs are in the order of `get_sorted_output_names()`.

    The chip is loaded `contexts` times within a run: with several, weights go over PCIe each time.
    """

    name: str
    contexts: int
    inputs: StreamShapes
    outputs: StreamShapes


@dataclass(frozen=True, slots=True)
class HefFile:
    """A HEF, as far as its description goes.

    `arch` is the chip it was compiled for, or `unknown (N)`.
    """

    path: Path
    arch: str
    compiler_version: str
    groups: tuple[HefGroup, ...]


def read_hef(path: Path, *, verify: bool = True) -> HefFile:
    """Read a HEF without the vendor's binding.

    `verify` compares its checksum: a hundred megabytes take about a second.

    Raises:
        HefError: no HEF, a damaged one, or one that cannot be read.
    """
    try:
        data = _map_file(path)
        header = read_header(data)
        hef = _parse_description(path, data[header.start : header.end])
        if verify and not check_sum(data, header):
            raise HefError(
                f"its content does not have the {_CHECKSUMS[header.version]} it states"
            )
    except OSError as error:
        raise HefError(
            f"{display_path(path)} cannot be read ({error.strerror or error})"
        ) from error
    except HefError as error:
        raise HefError(
            f"{display_path(path)} is broken or not a HEF: {error}; fetch or compile it again"
        ) from error
    return hef


def _map_file(path: Path) -> memoryview:
    """Map a file's bytes, which are read only where they are looked at."""
    if path.is_fifo():
        raise HefError("it is a pipe, expected a regular file")
    with path.open("rb") as file:
        # `mmap` refuses it with a message of its own.
        if os.fstat(file.fileno()).st_size == 0:
            raise HefError("it is empty")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


_MOST_GROUPS: Final = 64
_MOST_FIELDS: Final = 1_000_000
"""Some seconds of reading; a base decoder has a few ten thousand in the messages that are read."""


def _parse_description(path: Path, description: memoryview) -> HefFile:
    message = Message(description, iter(range(_MOST_FIELDS)))
    header = message.message(fields.Hef.HEADER)
    if not message.count(fields.Hef.HEADER):
        raise HefError("its description does not say which chip it is for")
    n_groups = message.count(fields.Hef.NETWORK_GROUPS)
    if not 1 <= n_groups <= _MOST_GROUPS:
        raise HefError(f"it has {n_groups} networks, expected 1 to {_MOST_GROUPS}")
    code = header.number(fields.Header.HW_ARCH)
    sdk_version = header.text(fields.Header.SDK_VERSION)
    # Compilers 5 state `sdk-version: 5.3.0, git-branch: ...`.
    match = re.search(r"\d+\.\d+\.\d+\S*(?<!,)", sdk_version)
    groups = message.messages(fields.Hef.NETWORK_GROUPS)
    return HefFile(
        path=path,
        arch=ARCHES.get(code, f"unknown ({code})"),
        compiler_version=match.group() if match else sdk_version,
        groups=tuple(_read_group(group) for group in groups),
    )


def _read_group(group: Message) -> HefGroup:
    """Read one network."""
    core = _find_core(group)
    placements = _find_placements(core)
    n_contexts = max(
        placement.count(fields.CoreOp.CONTEXTS) for placement in placements
    )
    if n_contexts == 0:
        raise HefError("it has a network without a context")
    inputs: StreamShapes = {}
    outputs: StreamShapes = {}
    for edge, is_transposed in _boundary_edges(placements):
        direction = edge.number(fields.EdgeLayer.DIRECTION)
        streams = inputs if direction == fields.Direction.HOST_TO_DEVICE else outputs
        for layer in _read_layers(edge, fields.EdgeLayer.LAYER, fields.EdgeLayer.MUX):
            name, shape = _read_stream(layer, is_transposed=is_transposed)
            streams.setdefault(name, shape)  # contexts and placements repeat streams
    first = _find_placements(group)[0].message(fields.CoreOp.METADATA)
    name = first.text(fields.NetworkMetadata.NAME)
    if not name or not inputs or not outputs:
        raise HefError("it has a network without a name, an input or an output")
    # The stated order may leave some out.
    order = [*_sorted_outputs(group, core), *outputs]
    in_order = {output: outputs[output] for output in order if output in outputs}
    return HefGroup(name, n_contexts, inputs, in_order)


def _find_core(group: Message) -> Message:
    """Return the part of a network that the chip computes, which from older compilers is all."""
    for op in group.messages(fields.NetworkGroup.OPS):
        if op.count(fields.Op.CORE_OP):
            return op.message(fields.Op.CORE_OP)
    return group


def _find_placements(core: Message) -> list[Message]:
    """Return placements: a network for a Hailo-8L comes once for each, with the same streams."""
    placements = [
        part.message(fields.Placement.CORE_OP)
        for part in core.messages(fields.CoreOp.PLACEMENTS)
        if part.count(fields.Placement.CORE_OP)
    ]
    return placements or [core]


def _boundary_edges(placements: list[Message]) -> Iterator[tuple[Message, bool]]:
    """Yield the inputs and outputs of all contexts, and whether their network is transposed."""
    for placement in placements:
        network = placement.message(fields.CoreOp.METADATA)
        is_transposed = bool(network.number(fields.NetworkMetadata.IS_TRANSPOSED))
        for context in placement.messages(fields.CoreOp.CONTEXTS):
            metadata = context.message(fields.Context.METADATA)
            for edge in metadata.messages(fields.ContextMetadata.EDGE_LAYERS):
                switch = edge.message(fields.EdgeLayer.CONTEXT_SWITCH)
                connection = switch.number(fields.ContextSwitch.CONNECTION_TYPE)
                if connection == fields.ConnectionType.BOUNDARY:
                    yield edge, is_transposed


def _sorted_outputs(group: Message, core: Message) -> list[str]:
    """Return the order that HailoRT gives outputs in: the first of four places that states one."""
    fused = core.message(fields.CoreOp.FUSED_LAYERS)
    if fused.number(fields.FusedLayers.HAS_FUSED_LAYERS):
        return fused.texts(fields.FusedLayers.SORTED_OUTPUTS)
    placement = _find_placements(core)[0]
    if core is group:  # without operators, the placements have an order of their own
        names = placement.texts(fields.CoreOp.SORTED_OUTPUTS)
        if names:
            return names
    names = group.texts(fields.NetworkGroup.SORTED_OUTPUTS)
    if names:
        return names
    # Very old compilers state it in the last context.
    contexts = placement.messages(fields.CoreOp.CONTEXTS)
    if not contexts:
        return []
    metadata = contexts[-1].message(fields.Context.METADATA)
    return metadata.texts(fields.ContextMetadata.SORTED_OUTPUTS)


_DEEPEST_MUX: Final = 9


def _read_layers(
    part: Message, layer_field: int, mux_field: int, depth: int = 0
) -> Iterator[Message]:
    """Yield a layer, or the layers that share one stream (`mux`)."""
    if depth > _DEEPEST_MUX:
        raise HefError("its streams are nested endlessly")
    if part.count(layer_field):
        yield part.message(layer_field)
        return
    mux = part.message(mux_field)
    for inner in mux.messages(fields.Mux.PREDECESSORS):
        yield from _read_layers(
            inner, fields.MuxPredecessor.LAYER, fields.MuxPredecessor.MUX, depth + 1
        )


_LARGEST_AXIS: Final = 1 << 24


def _read_stream(layer: Message, *, is_transposed: bool) -> tuple[str, StreamShape]:
    """Return a stream's name and shape."""
    name = layer.text(fields.Layer.NAME)
    if not name or not layer.count(fields.Layer.BASE):
        raise HefError("it has an input or output without a name or a shape")
    base = layer.message(fields.Layer.BASE)
    height = base.number(fields.LayerBase.HEIGHT)
    width = base.number(fields.LayerBase.WIDTH)
    channels = base.number(fields.LayerBase.FEATURES)
    is_flat = base.number(fields.LayerBase.FORMAT) == fields.Format.CHANNELS_ALONE
    is_transposed = is_transposed or bool(layer.number(fields.Layer.IS_TRANSPOSED))
    # The file has the chip's order of axes, the binding gives the host the model's.
    shape = (
        (width, height, channels)
        if is_transposed and not is_flat
        else (height, width, channels)
    )
    if not all(1 <= axis <= _LARGEST_AXIS for axis in shape):
        raise HefError(f"{name} has the shape {shape}")
    return name, shape
