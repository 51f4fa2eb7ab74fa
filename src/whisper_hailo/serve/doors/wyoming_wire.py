"""Wyoming events off a connection, none of them larger than it may be."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from wyoming.event import Event

from whisper_hailo.serve.errors import TurnedAwayError
from whisper_hailo.serve.room import Lot

LINE_BYTES: Final = 64 << 10
_DATA_BYTES: Final = 1 << 20
_PAYLOAD_BYTES: Final = 4 << 20
"""Two minutes of sound; clients send fractions of a second."""

_PIECE_BYTES: Final = 64 << 10


class MalformedError(TurnedAwayError):
    """What came is no event."""

    kind, status = "malformed", 400


async def read_event(reader: asyncio.StreamReader, lot: Lot) -> Event | None:
    """The next event; `None` at the end of the connection.

    Wyoming's own function takes as many bytes as a client says, and ends at a line that is none as
    if the connection had.

    Args:
        reader: whose limit is `LINE_BYTES`.
        lot: takes the payload, piece by piece as it comes.

    Raises:
        MalformedError: what came is no event.
        BusyError: there is no room for it.
    """
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    except ValueError as error:
        raise MalformedError(f"a header has more than {LINE_BYTES} bytes") from error
    if not line.endswith(b"\n"):
        return None
    head = _object(line)
    kind = head.get("type")
    if not isinstance(kind, str):
        raise MalformedError("a header has no type")
    data = head.get("data") or {}
    if not isinstance(data, dict):
        raise MalformedError("the data of an event is no object")
    try:
        length = _length(head, "data_length", _DATA_BYTES)
        data |= _object(await reader.readexactly(length) or b"{}")
        payload = bytearray()
        left = _length(head, "payload_length", _PAYLOAD_BYTES)
        while left:
            payload += await reader.readexactly(min(left, _PIECE_BYTES))
            lot.take(min(left, _PIECE_BYTES))
            left -= min(left, _PIECE_BYTES)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Event(kind, data, bytes(payload) or None)


def _length(head: dict[str, Any], name: str, most: int) -> int:
    length = head.get(name) or 0
    if not isinstance(length, int) or not 0 <= length <= most:
        raise MalformedError(f"{name} is {str(length)[:40]}, expected 0 to {most}")
    return length


def _object(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode()  # half a character is no text
    except (ValueError, RecursionError) as error:
        raise MalformedError("what came is no JSON; this door speaks Wyoming") from error
    if not isinstance(content, dict):
        raise MalformedError("what came is no JSON object; this door speaks Wyoming")
    return content
