"""Messages of a realtime client that wait to be processed, within the server's quota."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from whisper_hailo.core.protocols import Closing
from whisper_hailo.serve.errors import BusyError
from whisper_hailo.serve.quota import Quota, Reservation
from whisper_hailo.serve.routes.realtime.protocol import ClientMessage, MessageKind

PIECE_BYTES: Final = 256 << 10
"""Sound is transcribed in pieces of about this size; in between text is sent, and clients leave."""

_MAX_WAITING_BYTES: Final = 4 << 20
"""When so much waits, the next message is not read."""


class MessageQueue(Closing):
    """Messages in the order in which they arrived; sound joins the sound that waits."""

    def __init__(self, quota: Quota) -> None:
        self._messages: deque[ClientMessage] = deque()
        self._reservation = Reservation(quota)
        self._changed = asyncio.Condition()

    async def put(self, message: ClientMessage) -> None:
        """Add a message; one for which the server has no room is an error in its place."""
        try:
            self._reservation.take(message.n_bytes)
        except BusyError as error:
            message = ClientMessage(MessageKind.INVALID, message.event_id, error=error)
        async with self._changed:
            last = self._messages[-1] if self._messages else None
            if last is not None and _can_join(last, message):
                last.sound += message.sound
                last.n_bytes += message.n_bytes
            else:
                self._messages.append(message)
            self._changed.notify_all()

    async def get(self) -> ClientMessage:
        """Return the next message, which takes its room until `free`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._messages)
            return self._messages.popleft()

    async def free(self, message: ClientMessage) -> None:
        """Give back the room of a message that was processed."""
        async with self._changed:
            self._reservation.take(-message.n_bytes)
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no further message should be read."""
        return self._reservation.n_bytes >= _MAX_WAITING_BYTES

    async def wait_for_room(self, timeout_s: float) -> None:
        """Wait until the queue is not full, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: not self.is_full)

    def close(self) -> None:
        """Drop all messages."""
        self._messages.clear()
        self._reservation.close()


def _can_join(last: ClientMessage, message: ClientMessage) -> bool:
    is_sound = last.kind is message.kind is MessageKind.APPEND
    return is_sound and len(last.sound) < PIECE_BYTES
