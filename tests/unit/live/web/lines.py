"""Connections at a door, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

from whisper_hailo.live.web.connections import Door, Line

HERE = "127.0.0.1"
PATIENCE_S = 60
"""Ends what hangs, and decides nothing."""


class Transport:
    """A socket that notes what becomes of it; nobody reads what is written."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self.written = b""
        self.closing = False
        self.aborted = asyncio.Event()

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return self._peer, 50_000

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted.set()


class Inner(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.received = b""
        self.told: list[object] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.told.append("wait")

    def resume_writing(self) -> None:
        self.told.append("go on")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(exc)


def come(door: Door, peer: str = HERE, tls: Any = None) -> tuple[Line, Any]:
    """A new connection."""
    line, transport = Line(door, tls), Transport(peer)
    line.inner = Inner()
    line.connection_made(transport)  # type: ignore[arg-type]
    return line, transport
