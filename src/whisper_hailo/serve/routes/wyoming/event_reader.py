"""Events of Wyoming clients, read with bounds."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from wyoming.event import Event

from whisper_hailo.core.strict_json import MismatchError, parse_json_object
from whisper_hailo.serve.errors import RejectedError
from whisper_hailo.serve.quota import Quota, Reservation

MAX_LINE_BYTES: Final = 64 << 10
_MAX_DATA_BYTES: Final = 1 << 20
# Two minutes of sound; clients send fractions of a second.
_MAX_PAYLOAD_BYTES: Final = 4 << 20
_PIECE_BYTES: Final = 64 << 10


class MalformedError(RejectedError):
    """Bytes that are no event, or an event with wrong values."""

    kind = "malformed"
    status = 400


class EventReader:
    """Reads the events of a connection, one ahead where that is asked for.

    Payloads count against the quota until `free`.
    """

    def __init__(self, stream: asyncio.StreamReader, quota: Quota) -> None:
        self._stream = stream
        self._reservation = Reservation(quota)
        self._ahead: asyncio.Task[Event | None] | None = None

    async def read(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; `None` at the end of the connection.

        Raises:
            TimeoutError: none arrived in time.
            MalformedError: what arrived is no event.
        """
        reading = self._read_ahead()
        self._ahead = None
        async with asyncio.timeout(timeout_s):
            return await reading

    async def peek(self) -> Event | None:
        """Return the next event, which the next `read` returns too.

        Raises:
            MalformedError: what arrived is no event; the next `read` raises it too.
        """
        return await asyncio.shield(self._read_ahead())

    async def has_next(self, timeout_s: float) -> bool:
        """Return whether the next event arrives in time."""
        reading = self._read_ahead()
        await asyncio.wait({reading}, timeout=timeout_s)
        return reading.done()

    async def drop(self) -> None:
        """Read an event that was peeked at, and free it."""
        event = await self.read()
        if event is not None:
            self.free(event)

    def free(self, event: Event) -> None:
        """Give back the room of an event that was processed."""
        self._reservation.take(-len(event.payload or b""))

    async def close(self) -> None:
        """Stop reading, and give back all room."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)
        self._reservation.close()

    def _read_ahead(self) -> asyncio.Task[Event | None]:
        """Return the task that reads the next event."""
        if self._ahead is None:
            self._ahead = asyncio.create_task(
                _read_event(self._stream, self._reservation)
            )
        return self._ahead


async def _read_event(
    stream: asyncio.StreamReader, reservation: Reservation
) -> Event | None:
    """Return the next event; `None` at the end of the connection.

    Wyoming's own function reads as many bytes as a client announces, and takes a line that is no
    event for the end of the connection.
    """
    try:
        line = await stream.readline()
        if not line.endswith(b"\n"):
            return None
        header = _parse_object(line)
        kind = header.get("type")
        data = header.get("data") or {}
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise MalformedError("a header has no type, or its data is not an object")
        n_data = _parse_length(header, "data_length", _MAX_DATA_BYTES)
        data |= _parse_object(await stream.readexactly(n_data) or b"{}")
        n_payload = _parse_length(header, "payload_length", _MAX_PAYLOAD_BYTES)
        payload = await _read_payload(stream, n_payload, reservation)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except ValueError as error:  # asyncio's, of a line without an end
        raise MalformedError(
            f"a header has more than {MAX_LINE_BYTES} bytes"
        ) from error
    return Event(kind, data, payload or None)


async def _read_payload(
    stream: asyncio.StreamReader, n_bytes: int, reservation: Reservation
) -> bytes:
    """Return a payload; what has arrived of it counts, not what is announced."""
    payload = bytearray()
    while len(payload) < n_bytes:
        n_left = n_bytes - len(payload)
        piece = await stream.readexactly(min(n_left, _PIECE_BYTES))
        reservation.take(len(piece))
        payload += piece
    return bytes(payload)


def _parse_length(header: dict[str, Any], name: str, max_length: int) -> int:
    length = header.get(name) or 0
    if not isinstance(length, int) or not 0 <= length <= max_length:
        raise MalformedError(
            f"{name} is {str(length)[:40]}, expected 0 to {max_length}"
        )
    return length


def _parse_object(text: bytes) -> dict[str, Any]:
    try:
        return parse_json_object(text)
    except MismatchError as error:
        raise MalformedError(
            f"the client sent {error}; this server speaks Wyoming"
        ) from error
