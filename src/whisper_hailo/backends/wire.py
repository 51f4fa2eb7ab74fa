"""A reader of protobuf's wire format for files from strangers: nothing is copied, all is counted.

Protobuf's own parser would copy what it does not know, in old HEFs all weights.
Format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from whisper_hailo.core.errors import ModelError

Value: TypeAlias = int | memoryview

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_LONGEST_TEXT = 4096


class WireError(ModelError):
    """Bytes are not the message that they should be; the reader of the file says which it is."""


def mapped(path: Path) -> memoryview:
    """A file's bytes, read only where they are looked at."""
    if path.is_fifo():
        raise WireError("it is a pipe, which would be waited for")
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise WireError("it is empty")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


class Message:
    """One protobuf message, the fields of one level.

    All messages of a file take their fields from one `budget`: small fields in a large file would
    take for ever. A field that is not there is 0, or empty, as protobuf has it.
    """

    def __init__(self, data: memoryview, budget: Iterator[int]) -> None:
        self._budget = budget
        self._fields: dict[int, list[Value]] = {}
        at = 0
        while at < len(data):
            if next(budget, None) is None:
                raise WireError("it has more fields than any such file needs")
            tag, at = _varint(data, at)
            number, kind = tag >> 3, tag & 7
            value, at = _value(data, at, kind)
            if number == 0:
                raise WireError("it has a field without a number")
            self._fields.setdefault(number, []).append(value)

    def count(self, field: int) -> int:
        """Return how often a field occurs."""
        return len(self._fields.get(field, []))

    def number(self, field: int) -> int:
        """The last value of a whole-number field."""
        value = self._fields.get(field, [0])[-1]
        if not isinstance(value, int):
            raise WireError("it has bytes where a number belongs")
        return value

    def text(self, field: int) -> str:
        """The last value of a text field."""
        return "".join(self.texts(field)[-1:])

    def texts(self, field: int) -> list[str]:
        """All values of a repeated text field."""
        return [_text(_bytes(value)) for value in self._fields.get(field, [])]

    def message(self, field: int) -> Message:
        """The last value of a message field."""
        return Message(_bytes(self._fields.get(field, [memoryview(b"")])[-1]), self._budget)

    def messages(self, field: int) -> list[Message]:
        """All values of a repeated message field."""
        return [Message(_bytes(value), self._budget) for value in self._fields.get(field, [])]


def _value(data: memoryview, at: int, kind: int) -> tuple[Value, int]:
    """The value that begins at `at`, and where the next field begins."""
    if kind == _VARINT:
        return _varint(data, at)
    if kind == _BYTES:
        length, at = _varint(data, at)
    elif kind in (_FIXED64, _FIXED32):
        length = 8 if kind == _FIXED64 else 4
    else:
        raise WireError(f"it has a field of the unknown kind {kind}")
    if length > len(data) - at:
        raise WireError("a field goes on beyond its message's end")
    piece = data[at : at + length]
    return (piece if kind == _BYTES else int.from_bytes(piece, "little")), at + length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = 0
    for i in range(_LONGEST_VARINT):
        if at + i >= len(data):
            raise WireError("it ends in the middle of a number")
        byte = data[at + i]
        result |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return result, at + i + 1
    raise WireError("it has a number that never ends")


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise WireError("it has a number where a message belongs")
    return value


def _text(raw: memoryview) -> str:
    if len(raw) > _LONGEST_TEXT:
        raise WireError(f"it has a name of {len(raw)} bytes")
    try:
        text = bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("it has a name that is no text") from error
    if not text.isprintable():
        raise WireError("it has a name with unprintable characters")
    return text
