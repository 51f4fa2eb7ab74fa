"""A bounded reader of protobuf messages, which copies nothing.

Protobuf's own parser would copy what it does not know, in old HEFs all weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from whisper_hailo.core.errors import HefError

_VARINT: Final = 0
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
"""Wire types; of fixed ones their bytes: https://protobuf.dev/programming-guides/encoding/"""

_LONGEST_VARINT: Final = 10
_LONGEST_TEXT: Final = 4096


class Message:
    """One protobuf message, the fields of one level.

    All messages of a file take their fields from one `budget`: small fields in a large file would
    take for ever. Of several values of a field the last counts, if not all are asked for; a missing
    field is 0, or empty, as protobuf has it.

    Raises:
        HefError: more fields than the budget, or bytes that are no message.
    """

    def __init__(self, data: memoryview, budget: Iterator[int]) -> None:
        self._budget = budget
        self._fields: dict[int, list[int | memoryview]] = {}
        position = 0
        while position < len(data):
            if next(budget, None) is None:
                raise HefError("it has more fields than any such file needs")
            tag, position = _read_varint(data, position)
            field, wire_type = divmod(tag, 8)
            value, position = _read_value(data, position, wire_type)
            if field == 0:
                raise HefError("it has a field without a number")
            self._fields.setdefault(field, []).append(value)

    def count(self, field: int) -> int:
        """Return how many values a field has."""
        return len(self._fields.get(field, []))

    def number(self, field: int) -> int:
        """Return a field's number."""
        values = self._fields.get(field)
        if values is None:
            return 0
        value = values[-1]
        if not isinstance(value, int):
            raise HefError("it has bytes where a number belongs")
        return value

    def text(self, field: int) -> str:
        """Return a field's text."""
        texts = self.texts(field)
        return texts[-1] if texts else ""

    def texts(self, field: int) -> list[str]:
        """Return all texts of a field."""
        return [_read_text(piece) for piece in self._pieces(field)]

    def message(self, field: int) -> Message:
        """Return a field's message."""
        pieces = self._pieces(field)
        piece = pieces[-1] if pieces else memoryview(b"")
        return Message(piece, self._budget)

    def messages(self, field: int) -> list[Message]:
        """Return all messages of a field."""
        return [Message(piece, self._budget) for piece in self._pieces(field)]

    def _pieces(self, field: int) -> list[memoryview]:
        pieces = []
        for value in self._fields.get(field, []):
            if isinstance(value, int):
                raise HefError("it has a number where a message belongs")
            pieces.append(value)
        return pieces


def _read_value(
    data: memoryview, start: int, wire_type: int
) -> tuple[int | memoryview, int]:
    """Return the value that begins at `start`, and where it ends."""
    if wire_type == _VARINT:
        return _read_varint(data, start)
    if wire_type == _BYTES:
        length, start = _read_varint(data, start)
    elif wire_type in _FIXED:
        length = _FIXED[wire_type]
    else:
        raise HefError(f"it has a field of the unknown kind {wire_type}")
    end = start + length
    if end > len(data):
        raise HefError("a field goes on beyond its message's end")
    return data[start:end], end


def _read_varint(data: memoryview, start: int) -> tuple[int, int]:
    """Return the number that begins at `start`, and where it ends."""
    result = 0
    for index in range(_LONGEST_VARINT):
        position = start + index
        if position >= len(data):
            raise HefError("it ends in the middle of a number")
        byte = data[position]
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return result, position + 1
    raise HefError("it has a number that never ends")


def _read_text(piece: memoryview) -> str:
    if len(piece) > _LONGEST_TEXT:
        raise HefError(f"it has a name of {len(piece)} bytes")
    try:
        text = bytes(piece).decode("utf-8")
    except UnicodeDecodeError as error:
        raise HefError("it has a name that is not text") from error
    # Names are printed: control characters would reach the user's terminal.
    if not text.isprintable():
        raise HefError("it has a name with unprintable characters")
    return text
