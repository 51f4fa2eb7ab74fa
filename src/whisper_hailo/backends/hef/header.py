"""The fixed header of a HEF, four versions of it, and the checksum that each carries.

Facts from the public HailoRT sources (`hef_internal.hpp`): all numbers big-endian; version 0 has an
MD5, version 1 a CRC-32, versions 2 and 3 an XXH3, each over everything behind the header.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

import xxhash

from whisper_hailo.core.errors import HefError

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
        version: of the file format.
        start: where the description begins.
        description_bytes: its length.
        rest_bytes: what follows it: weights, and other resources.
        checksum: the file's own checksum, in hexadecimal.
        whole: it covers everything behind the header, otherwise the description only.
    """

    version: int
    start: int
    description_bytes: int
    rest_bytes: int
    checksum: str
    whole: bool


def read_header(data: memoryview) -> Header:
    """Read and check a file's header.

    Raises:
        HefError: no HEF, one of an unknown version, or one cut short.
    """
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
    header = _header(version, start, size, values)
    expected = start + size + header.rest_bytes
    if len(data) != expected:
        raise HefError(f"it has {len(data)} bytes, its header says {expected}")
    if size == 0:
        raise HefError("it describes no network")
    return header


def check_sum(data: memoryview, header: Header) -> bool:
    """Whether the file's content has the checksum of its header."""
    end = len(data) if header.whole else header.start + header.description_bytes
    covered = data[header.start : end]
    if header.version == 0:
        found = hashlib.md5(covered, usedforsecurity=False).hexdigest()
    elif header.version == 1:
        found = f"{zlib.crc32(covered):08x}"
    else:
        found = xxhash.xxh3_64_hexdigest(covered)
    return found == header.checksum


def _header(version: int, start: int, size: int, values: tuple[Any, ...]) -> Header:
    if version == 0:
        _, md5 = values
        return Header(0, start, size, 0, md5.hex(), whole=True)
    if version == 1:
        crc, rest, _ = values
        return Header(1, start, size, rest, f"{crc:08x}", whole=True)
    if version == 2:
        found, rest, _, _ = values
        return Header(2, start, size, rest, f"{found:016x}", whole=True)
    # HailoRT 5 is content with a checksum of the description alone, which is behind this one.
    found, weights, _, more, own, _ = values
    return Header(3, start, size, weights + more, f"{found or own:016x}", whole=found != 0)
