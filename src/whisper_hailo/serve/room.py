"""How much of clients' recordings may lie on the disk at once, of all of them together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from whisper_hailo.serve.errors import BusyError


class Room:
    """Bytes of what was sent and what was decoded of it, until the request is over.

    Args:
        most_bytes: of all clients.

    Attributes:
        n_bytes: that are taken.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._changing = threading.Lock()  # recordings are decoded on threads
        self.n_bytes = 0

    @contextmanager
    def lot(self) -> Iterator[Lot]:
        """A part of it, given back when the block ends."""
        lot = Lot(self)
        try:
            yield lot
        finally:
            lot.take(-lot.n_bytes)

    def take(self, n_bytes: int) -> None:
        """Take so much, or give it back where it is less than nothing.

        Raises:
            BusyError: there is not so much.
        """
        with self._changing:
            if n_bytes > 0 and self.n_bytes + n_bytes > self._most_bytes:
                raise BusyError(
                    f"recordings of {self.n_bytes >> 20} MiB wait already, expected "
                    f"{self._most_bytes >> 20} MiB at most; try again soon"
                )
            self.n_bytes += n_bytes


class Lot:
    """What one request takes of a room.

    Args:
        room: of which it is.

    Attributes:
        n_bytes: that it has taken.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self.n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Take more.

        Raises:
            BusyError: there is not so much.
        """
        self._room.take(n_bytes)
        self.n_bytes += n_bytes
