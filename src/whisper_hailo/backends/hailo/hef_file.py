"""What a HEF holds: chip, compiler, networks, their inputs and outputs.

Its description is a protobuf message. Protobuf's own parser would copy what it does not know, in
old files all weights; here nothing is copied, and all is counted.
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
from typing import Final, TypeAlias

import xxhash

from whisper_hailo.core.errors import HefError, display_path

MAGIC: Final = 0x01484546
_COMMON: Final = struct.Struct(">III")
_DISTINCT: Final = {
    0: struct.Struct(">I16s"),  # reserved, MD5
    1: struct.Struct(">IQI"),  # CRC-32, bytes of weights, reserved
    2: struct.Struct(">QQQQ"),  # XXH3, bytes of weights, reserved twice
    3: struct.Struct(">QQIQQQ"),  # XXH3, weights with padding, padding, more, description's XXH3
}
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
    rest = 0 if version == 0 else values[1] + (values[3] if version == 3 else 0)
    end, checked_end = start + size, start + size + rest
    n_digits = 8 if version == 1 else 16
    checksum = values[1].hex() if version == 0 else f"{values[0]:0{n_digits}x}"
    if len(data) != checked_end:
        raise HefError(f"it has {len(data)} bytes, its header says {checked_end}")
    if size == 0:
        raise HefError("it describes no network")
    if version == 3 and not values[0]:  # HailoRT 5 is content with the description's
        checksum, checked_end = f"{values[4]:016x}", end
    return Header(version, start, end, checked_end, checksum)


def check_sum(data: memoryview, header: Header) -> bool:
    """Return whether the file's content has the checksum of its header."""
    covered = data[header.start : header.checked_end]
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


StreamShapes: TypeAlias = dict[str, tuple[int, int, int]]
"""Streams by name, such as `net/input_layer1`: height, width, channels, as the host sees them."""


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
    """A HEF, as far as it tells; `arch` is the chip it was compiled for, or `unknown (N)`."""

    path: Path
    arch: str
    compiler_version: str
    groups: tuple[HefGroup, ...]


def read_hef(path: Path, *, verify: bool = True) -> HefFile:
    """Read a HEF without the vendor's binding.

    `verify` compares its checksum: a hundred megabytes take about a second.
    """
    try:
        data = _map_file(path)
        header = read_header(data)
        hef = _parse_file(path, data[header.start : header.end])
        if verify and not check_sum(data, header):
            raise HefError(f"its content does not have the {_CHECKSUMS[header.version]} it states")
    except OSError as error:
        raise HefError(
            f"{display_path(path)} cannot be read ({error.strerror or error})"
        ) from error
    except HefError as error:
        raise HefError(
            f"{display_path(path)} is broken or no HEF: {error}; fetch or compile it again"
        ) from error
    return hef


def _map_file(path: Path) -> memoryview:
    """A file's bytes, read only where they are looked at."""
    if path.is_fifo():
        raise HefError("it is a pipe, which would be waited for")
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise HefError("it is empty")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


_MOST_GROUPS: Final = 64
_MOST_FIELDS: Final = 1_000_000
"""Some seconds of reading; a base decoder has a few ten thousand in the messages that are read."""


def _parse_file(path: Path, description: memoryview) -> HefFile:
    message = Message(description, iter(range(_MOST_FIELDS)))
    head = message.message(1)
    if not message.count(1):
        raise HefError("its description does not say which chip it is for")
    if not 1 <= message.count(2) <= _MOST_GROUPS:
        raise HefError(f"it has {message.count(2)} networks, expected 1 to {_MOST_GROUPS}")
    code, stated = head.number(1), head.text(3)
    # Compilers 5 state `sdk-version: 5.3.0, git-branch: ...`.
    found = re.search(r"\d+\.\d+\.\d+\S*(?<!,)", stated)
    return HefFile(
        path=path,
        arch=ARCHES.get(code, f"unknown ({code})"),
        compiler_version=found.group() if found is not None else stated,
        groups=tuple(_read_group(group) for group in message.messages(2)),
    )


_INPUT: Final = 0
_BOUNDARY: Final = 0
"""Kind of connection; others lead from one context to the next."""


def _read_group(group: Message) -> HefGroup:
    """Read one network; what the host computes after it wraps it in a graph of operators."""
    core = next((op.message(4) for op in group.messages(8) if op.count(4)), group)
    placements = _find_placements(core)
    contexts = [placement.messages(3) for placement in placements]
    if not any(contexts):
        raise HefError("it has a network without a context")
    # Each stream once: contexts and placements repeat them.
    inputs: StreamShapes = {}
    outputs: StreamShapes = {}
    for placement, its_contexts in zip(placements, contexts, strict=True):
        transposed = bool(placement.message(1).number(3))
        edges = (edge for context in its_contexts for edge in context.message(3).messages(2))
        for edge in edges:
            if edge.message(5).number(3) != _BOUNDARY:
                continue
            found = inputs if edge.number(1) == _INPUT else outputs
            for layer in _read_layers(edge, 3, 4, 0):
                stream, shape = _read_stream(layer, transposed)
                found.setdefault(stream, shape)
    name = _find_placements(group)[0].message(1).text(1)
    if not name or not inputs or not outputs:
        raise HefError("it has a network without a name, an input or an output")
    order = [output for output in _sorted_outputs(group, core) if output in outputs]
    in_order = {output: outputs[output] for output in (*order, *outputs)}
    return HefGroup(name, max(map(len, contexts)), inputs, in_order)


def _find_placements(core: Message) -> list[Message]:
    """Return placements: a network for a Hailo-8L comes once for each, with the same streams."""
    return [part.message(1) for part in core.messages(7) if part.count(1)] or [core]


def _sorted_outputs(group: Message, core: Message) -> list[str]:
    """Return the order that HailoRT gives outputs in; it looks at four places."""
    fused = core.message(5)
    if fused.number(1):
        return fused.texts(2)
    placed = _find_placements(core)[0]
    for place in (placed, group) if core is group else (group,):
        if names := place.texts(4):
            return names
    return [name for last in placed.messages(3)[-1:] for name in last.message(3).texts(5)]


_DEEPEST_MUX: Final = 9


def _read_layers(part: Message, layer_field: int, mux_field: int, depth: int) -> Iterator[Message]:
    """Yield a layer, or the layers that share one stream (`mux`)."""
    if depth > _DEEPEST_MUX:
        raise HefError("its streams are nested without end")
    if part.count(layer_field):
        yield part.message(layer_field)
    else:
        for inner in part.message(mux_field).messages(5):
            yield from _read_layers(inner, 1, 2, depth + 1)


_FLAT: Final = 2
"""Order of axes: channels alone."""

_LARGEST_AXIS: Final = 1 << 24


def _read_stream(layer: Message, transposed: bool) -> tuple[str, tuple[int, int, int]]:
    name = layer.text(1)
    if not name or not layer.count(2):
        raise HefError("it has an input or output without a name or a shape")
    base = layer.message(2)
    height, width, channels = base.number(1), base.number(3), base.number(5)
    if (transposed or layer.number(6)) and base.number(7) != _FLAT:
        height, width = width, height
    shape = (height, width, channels)
    if not all(1 <= axis <= _LARGEST_AXIS for axis in shape):
        raise HefError(f"{name} has the shape {shape}")
    return name, shape


_VARINT, _BYTES = 0, 2
_FIXED: Final = {1: 8, 5: 4}
"""Wire types; of fixed ones their bytes: https://protobuf.dev/programming-guides/encoding/"""

_LONGEST_VARINT: Final = 10
_LONGEST_TEXT: Final = 4096


class Message:
    """One protobuf message, the fields of one level.

    All messages of a file take their fields from one `budget`: small fields in a large file would
    take for ever. Of several values of a field the last counts, if not all are wanted; a field that
    is not there is 0, or empty, as protobuf has it.
    """

    def __init__(self, data: memoryview, budget: Iterator[int]) -> None:
        self._budget = budget
        self._fields: dict[int, list[int | memoryview]] = {}
        at = 0
        while at < len(data):
            if next(budget, None) is None:
                raise HefError("it has more fields than any such file needs")
            tag, at = _read_varint(data, at)
            number, kind = divmod(tag, 8)
            value: int | memoryview
            if kind == _VARINT:
                value, at = _read_varint(data, at)
            elif kind == _BYTES or kind in _FIXED:
                length, at = _read_varint(data, at) if kind == _BYTES else (_FIXED[kind], at)
                if length > len(data) - at:
                    raise HefError("a field goes on beyond its message's end")
                value, at = data[at : at + length], at + length
            else:
                raise HefError(f"it has a field of the unknown kind {kind}")
            if number == 0:
                raise HefError("it has a field without a number")
            self._fields.setdefault(number, []).append(value)

    def count(self, field: int) -> int:
        return len(self._fields.get(field, []))

    def number(self, field: int) -> int:
        value = self._fields.get(field, [0])[-1]
        if not isinstance(value, int):
            raise HefError("it has bytes where a number belongs")
        return value

    def text(self, field: int) -> str:
        return "".join(self.texts(field)[-1:])

    def texts(self, field: int) -> list[str]:
        return [_read_text(piece) for piece in self._pieces(field)]

    def message(self, field: int) -> Message:
        return Message((self._pieces(field) or [memoryview(b"")])[-1], self._budget)

    def messages(self, field: int) -> list[Message]:
        return [Message(piece, self._budget) for piece in self._pieces(field)]

    def _pieces(self, field: int) -> list[memoryview]:
        values = self._fields.get(field, [])
        if any(isinstance(value, int) for value in values):
            raise HefError("it has a number where a message belongs")
        return [value for value in values if isinstance(value, memoryview)]


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    result = 0
    for i in range(_LONGEST_VARINT):
        if at + i >= len(data):
            raise HefError("it ends in the middle of a number")
        byte = data[at + i]
        result |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return result, at + i + 1
    raise HefError("it has a number that never ends")


def _read_text(piece: memoryview) -> str:
    if len(piece) > _LONGEST_TEXT:
        raise HefError(f"it has a name of {len(piece)} bytes")
    try:
        text = bytes(piece).decode("utf-8")
    except UnicodeDecodeError as error:
        raise HefError("it has a name that is no text") from error
    if not text.isprintable():
        raise HefError("it has a name with unprintable characters")
    return text
