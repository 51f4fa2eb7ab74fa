"""What a HEF holds: chip, compiler, networks, their inputs and outputs."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import xxhash

from whisper_hailo.backends.wire import Budget, Message, WireError, mapped
from whisper_hailo.core.errors import HefError, display_path

_BOUNDARY: Final = 0
"""Kind of connection; others lead from one context to the next."""

_INPUT: Final = 0
_DEEPEST_MUX = 9
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
        zero_point: integer that stands for 0.
    """

    name: str
    shape: tuple[int, int, int]
    order: str
    type: str
    scale: float
    zero_point: float


def _boundary_edges(context: Message) -> Iterator[Message]:
    """Yield edges of a context that lead to or from the host."""
    metadata = context.message(3)
    for edge in metadata.messages(2) if metadata is not None else []:
        switch = edge.message(5)
        if switch is None or switch.number(3) == _BOUNDARY:
            yield edge


def _layers(part: Message, layer_field: int, mux_field: int, depth: int) -> Iterator[Message]:
    """Yield a layer, or the layers that share one stream (`mux`)."""
    if depth > _DEEPEST_MUX:
        raise HefError("its streams are nested without end")
    layer, mux = part.message(layer_field), part.message(mux_field)
    if layer is not None:
        yield layer
    elif mux is not None:
        for inner in mux.messages(5):
            yield from _layers(inner, 1, 2, depth + 1)


def _stream(layer: Message, transposed: bool) -> HefStream:
    base = layer.message(2)
    numeric = layer.message(3)
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


MAGIC: Final = 0x01484546
_COMMON: Final = struct.Struct(">III")
_DISTINCT: Final = {
    0: struct.Struct(">I16s"),  # reserved, MD5
    1: struct.Struct(">IQI"),  # CRC-32, bytes of weights, reserved
    2: struct.Struct(">QQQQ"),  # XXH3, bytes of weights, reserved twice
    3: struct.Struct(">QQIQQQ"),  # XXH3, weights with padding, padding, more, description's XXH3
}
CHECKSUMS: Final = {0: "MD5", 1: "CRC-32", 2: "XXH3", 3: "XXH3"}


@dataclass(frozen=True, slots=True)
class Header:
    """What lies before the description.

    Attributes:
        rest_bytes: what follows it: weights, and other resources.
        checksum: the file's own checksum, in hexadecimal.
        whole: it covers everything behind the header, otherwise the description only.
        padding: bytes behind the description before offsets of resources count.
    """

    version: int
    start: int
    description_bytes: int
    rest_bytes: int
    checksum: str
    whole: bool
    padding: int


def read_header(data: memoryview) -> Header:
    """Read and check a file's header."""
    if len(data) < _COMMON.size:
        raise HefError(f"it has {len(data)} bytes, less than a HEF's header")
    magic, version, size = _COMMON.unpack_from(data)
    if magic != MAGIC:
        raise HefError(f"it is no HEF: it begins with {magic:#010x}, a HEF with {MAGIC:#010x}")
    if version not in _DISTINCT:
        raise HefError(f"its format has version {version}, this program reads 0 to 3")
    form = _DISTINCT[version]
    start = _COMMON.size + form.size
    if len(data) < start:
        raise HefError(f"it ends within its header, after {len(data)} bytes")
    values = form.unpack_from(data, _COMMON.size)
    rest, padding, whole = 0, 0, True
    if version == 0:
        checksum = values[1].hex()
    elif version == 1:
        checksum, rest = f"{values[0]:08x}", values[1]
    elif version == 2:
        checksum, rest = f"{values[0]:016x}", values[1]
    else:
        # HailoRT 5 is content with a checksum of the description alone, which is behind this one.
        found, weights, padding, more, own, _ = values
        checksum, rest, whole = f"{found or own:016x}", weights + more, found != 0
    header = Header(version, start, size, rest, checksum, whole, padding)
    expected = start + size + header.rest_bytes
    if len(data) != expected:
        raise HefError(f"it has {len(data)} bytes, its header says {expected}")
    if size == 0:
        raise HefError("it describes no network")
    return header


def check_sum(data: memoryview, header: Header) -> bool:
    """Return whether the file's content has the checksum of its header."""
    end = len(data) if header.whole else header.start + header.description_bytes
    covered = data[header.start : end]
    if header.version == 0:
        found = hashlib.md5(covered, usedforsecurity=False).hexdigest()
    elif header.version == 1:
        found = f"{zlib.crc32(covered):08x}"
    else:
        found = xxhash.xxh3_64_hexdigest(covered)
    return found == header.checksum


ARCHES: Final = {
    **dict.fromkeys((0, 1, 2, 101, 102), "hailo8"),  # early boards, of the same kind to HailoRT
    3: "hailo8l",
    4: "hailo15m",
    5: "hailo10h",
    6: "hailo15l",
    100: "hailo8_a0",
    **dict.fromkeys((103, 104, 105), "hailo15h"),  # what a compiler 5 makes for a Hailo-10H, too
    106: "hailo15l",
}
"""Number of a chip to its name; HailoRT, `device_internal.cpp`."""

LARGEST_BYTES: Final = 2 << 30
"""Whisper large would be smaller; language models, the largest there are, may be larger."""

_MOST_GROUPS = 64


@dataclass(frozen=True, slots=True)
class HefGroup:
    """One network of a HEF.

    Attributes:
        contexts: how many times the chip is loaded within one run; more than one means that
            weights go over PCIe at every run.
        outputs: in the order of `get_sorted_output_names()`.
    """

    name: str
    contexts: int
    inputs: tuple[HefStream, ...]
    outputs: tuple[HefStream, ...]


@dataclass(frozen=True, slots=True)
class HefResource:
    """A file within a HEF, such as the configuration of the vendor's own server.

    Attributes:
        start: where it begins in the HEF, in bytes.
        checksum: its XXH3; 0: not stated.
    """

    name: str
    start: int
    bytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class HefFile:
    """A HEF, as far as its header and description tell.

    Attributes:
        arch: chip it was compiled for, or `unknown (N)`.
        checksum: kind and value, such as `MD5 0123...`.
    """

    path: Path
    bytes: int
    version: int
    arch: str
    compiler_version: str
    checksum: str
    groups: tuple[HefGroup, ...]
    resources: tuple[HefResource, ...] = ()


def read_hef(path: Path, *, verify: bool = True) -> HefFile:
    """Read a HEF without the vendor's binding.

    `verify` compares its checksum: a hundred megabytes take about a second.
    """
    try:
        data = mapped(path, LARGEST_BYTES)
        header = read_header(data)
        hef = _parse(path, data, header)
        if verify and not check_sum(data, header):
            raise HefError(f"its content does not have the {CHECKSUMS[header.version]} it states")
    except OSError as error:
        raise HefError(
            f"{display_path(path)} cannot be read ({error.strerror or error})"
        ) from error
    except (HefError, WireError) as error:
        raise HefError(
            f"{display_path(path)} is broken or no HEF: {error}; fetch or compile it again"
        ) from error
    return hef


def is_hef(path: Path) -> bool:
    """Return whether a file begins as a HEF does."""
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC.to_bytes(4, "big")
    except OSError:
        return False


def _parse(path: Path, data: memoryview, header: Header) -> HefFile:
    budget = Budget()
    proto = data[header.start : header.start + header.description_bytes]
    message = Message(proto, budget)
    head = message.message(1)
    if head is None:
        raise HefError("its description does not say which chip it is for")
    if not 1 <= message.count(2) <= _MOST_GROUPS:
        raise HefError(f"it has {message.count(2)} networks, expected 1 to {_MOST_GROUPS}")
    code = head.number(1)
    return HefFile(
        path=path,
        bytes=len(data),
        version=header.version,
        arch=ARCHES.get(code, f"unknown ({code})"),
        compiler_version=_version(head.text(3)),
        checksum=f"{CHECKSUMS[header.version]} {header.checksum}",
        groups=tuple(_group(group) for group in message.messages(2)),
        resources=_resources(message, header),
    )


def _resources(message: Message, header: Header) -> tuple[HefResource, ...]:
    base = header.start + header.description_bytes + header.padding
    if header.version == 0:
        base = 0  # as HailoRT counts
    return tuple(
        HefResource(entry.text(3), base + entry.number(1), entry.number(2), entry.number(4))
        for entry in message.messages(7)
    )


def read_resource(hef: HefFile, name: str, largest: int) -> bytes | None:
    """Return a file within a HEF; `None`: it has none of this name."""
    found = next((entry for entry in hef.resources if entry.name == name), None)
    if found is None:
        return None
    if found.bytes > largest or found.start + found.bytes > hef.bytes:
        raise HefError(
            f"{display_path(hef.path)} says that its {display_path(name)} has {found.bytes} bytes "
            f"at {found.start}, expected at most {largest} within the file; fetch it again"
        )
    try:
        data = bytes(mapped(hef.path, LARGEST_BYTES)[found.start : found.start + found.bytes])
    except (OSError, WireError) as error:
        raise HefError(f"{display_path(hef.path)} cannot be read ({error})") from error
    if found.checksum not in {0, xxhash.xxh3_64_intdigest(data)}:
        raise HefError(
            f"{display_path(name)} in {display_path(hef.path)} was changed; fetch the file again"
        )
    return data


def _group(group: Message) -> HefGroup:
    """Read one network; what the host computes after it wraps it in a graph of operators."""
    ops = [op.message(4) for op in group.messages(8)]
    core = next((op for op in ops if op is not None), group)
    placements = _placements(core)
    contexts = [placement.messages(3) for placement in placements]
    if not any(contexts):
        raise HefError("it has a network without a context")
    # Each stream once: contexts and placements repeat them.
    inputs: dict[str, HefStream] = {}
    outputs: dict[str, HefStream] = {}
    for placement, its_contexts in zip(placements, contexts, strict=True):
        metadata = placement.message(1)
        transposed = metadata is not None and bool(metadata.number(3))
        for edge in (edge for context in its_contexts for edge in _boundary_edges(context)):
            found = inputs if edge.number(1) == _INPUT else outputs
            for layer in _layers(edge, 3, 4, 0):
                stream = _stream(layer, transposed)
                found.setdefault(stream.name, stream)
    metadata = _placements(group)[0].message(1)
    name = metadata.text(1) if metadata is not None else ""
    if not name or not inputs or not outputs:
        raise HefError("it has a network without a name, an input or an output")
    place = {output: index for index, output in enumerate(_sorted_outputs(group, core))}
    in_order = sorted(outputs.values(), key=lambda stream: place.get(stream.name, len(place)))
    return HefGroup(name, max(map(len, contexts)), tuple(inputs.values()), tuple(in_order))


def _version(text: str) -> str:
    """`5.3.0` of `sdk-version: 5.3.0, git-branch: ...`, as compilers 5 have it."""
    found = re.search(r"\d+\.\d+\.\d+\S*(?<!,)", text)
    return found.group() if found is not None else text


def _placements(core: Message) -> list[Message]:
    """Return placements: a network for a Hailo-8L comes once for each, with the same streams."""
    wrapped = [part.message(1) for part in core.messages(7)]
    return [part for part in wrapped if part is not None] or [core]


def _sorted_outputs(group: Message, core: Message) -> list[str]:
    """Return the order that HailoRT gives outputs in; it looks at four places."""
    fused = core.message(5)
    if fused is not None and fused.number(1):
        return fused.texts(2)
    placed = _placements(core)[0]
    for place in (placed, group) if core is group else (group,):
        if names := place.texts(4):
            return names
    for context in placed.messages(3)[-1:]:
        metadata = context.message(3)
        if metadata is not None:
            return metadata.texts(5)
    return []
