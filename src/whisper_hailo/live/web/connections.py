"""Connections to the page: how many there may be, and how long each may take to ask.

Whoever connects has to ask for something soon; when all places are taken, those that have not done
so yet make room for newcomers. A page that is open keeps its place. Nobody makes memory grow:
neither by sending what never becomes a message, nor by not reading the answers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import ssl
from collections.abc import Callable
from typing import Any, Final

from whisper_hailo.http.hosts import address_of

MOST: Final = 256
"""Connections in all; fewer where the system gives few descriptors."""

ASK_S: Final = 10.0
"""From the beginning of a connection to the end of its answer, or to an open WebSocket."""

LINGER_S: Final = 5.0
"""For what is left to send to one that is being closed."""

_DESCRIPTORS_EACH: Final = 4
"""One is used; the others are for those on their way in or out, and for the program itself."""

_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 27\r\n\r\nfull; please try again soon"
)


class Door:
    """Counts who is inside.

    Args:
        complain: told of what happens, in one line.
        most: connections in all; `None` goes by the descriptors that the system gives.

    Attributes:
        at_once: how many may be accepted in one go; those of the last few have no place yet.
    """

    def __init__(self, complain: Callable[[str], None], most: int | None = None) -> None:
        self.complain = complain
        self._most = most or _most_connections()
        self.at_once = max(1, self._most // 4)
        self._lines: dict[Line, str | None] = {}

    def enter(self, line: Line, peer: str) -> bool:
        """Take a place for a connection, if there is one or somebody makes room.

        Nobody has more than half of all places, but for this machine, where a proxy may stand for
        many.
        """
        whose = _network_of(peer)
        same = [other for other, theirs in self._lines.items() if theirs == whose]
        crowd: list[Line] = []
        if whose is not None and len(same) >= max(1, self._most // 2):
            crowd = same
        elif len(self._lines) >= self._most:
            crowd = list(self._lines)
        if crowd:
            waiting = next((other for other in crowd if not other.is_open), None)
            if waiting is None:
                self.complain("all places are taken by open pages; others are sent away")
                return False
            waiting.cut("all places are taken; those who have not asked for anything make room")
        self._lines[line] = whose
        return True

    def leave(self, line: Line) -> None:
        self._lines.pop(line, None)

    def close(self, *, unread_only: bool = False) -> None:
        """Cut all that are left, or those that do not read what they are told."""
        for line in list(self._lines):
            if line.is_stuck or not unread_only:
                line.cut()


class Line(asyncio.Protocol):
    """One connection, between its socket and the protocol that speaks on it.

    It has its place before anything is encrypted, and what is counted is what was decrypted.

    Args:
        door: which it comes through.
        tls: what is said is encrypted with this.

    Attributes:
        inner: speaks HTTP, and WebSocket after that.
        is_open: it is a page that is looked at, and may stay.
        is_stuck: too much waits to be read by the other side.
    """

    inner: asyncio.Protocol

    def __init__(self, door: Door, tls: ssl.SSLContext | None = None) -> None:
        self.is_open = False
        self.is_stuck = False
        self._door = door
        self._transport: Any = None
        self._is_in = False
        self._tls = tls
        self._securing: asyncio.Task[None] | None = None
        self._early = b""
        self._has_asked = False  # something came; a browser's spare connection is no trouble
        self._timer: asyncio.TimerHandle | None = None
        self._n_unheard = 0
        self._most_unheard = 0

    def stay(self, most_unheard: int) -> None:
        """It is a page's WebSocket and may stay.

        Args:
            most_unheard: bytes that may come before a message of them is `heard`.
        """
        self.is_open, self._n_unheard, self._most_unheard = True, 0, most_unheard
        self._set_timer(None)

    def heard(self) -> None:
        """What came was a message; more may come, unless the answers to it are not read."""
        if not self.is_stuck:
            self._n_unheard = 0

    def cut(self, why: str = "") -> None:
        if why:
            self._door.complain(why)
        self._door.leave(self)
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, or say that there is none."""
        self._transport = transport
        if not self._door.enter(self, transport.get_extra_info("peername")[0]):
            if self._tls is None:
                self._transport.write(_FULL)
            self.close()
            return
        self._set_timer(ASK_S)
        if self._tls is None:
            self._let_in(transport)
        else:
            self._securing = asyncio.ensure_future(self._secure(transport, self._tls))

    async def _secure(self, transport: Any, tls: ssl.SSLContext) -> None:  # noqa: ANN401 - any of asyncio's
        """Agree on a key with the other side; what they say comes here behind that."""
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(transport, self, tls, server_side=True)
        except OSError:  # it speaks no TLS, does not know the certificate, or left
            secured = None
        if secured is None:
            self.cut()
        else:
            self._let_in(secured)

    def _let_in(self, transport: Any) -> None:  # noqa: ANN401 - any of asyncio's
        self._transport, self._is_in = transport, True
        wire: Any = _Wire(transport, self)  # as much of a transport as is needed
        self.inner.connection_made(wire)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def close(self) -> None:
        """Send what is left, in time."""
        if not self._transport.is_closing():
            self._set_timer(LINGER_S)
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass it on, unless it is too much."""
        self._has_asked = True
        if not self._is_in:
            if self._securing is not None:
                self._early += data  # it came with the last word of the handshake
            return
        self._n_unheard += len(data)
        if self.is_open and self._n_unheard > self._most_unheard:
            self.cut("some pages sent much that was no message and were cut")
            return
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received() if self._is_in else None

    def pause_writing(self) -> None:
        """Too much waits to be read by the other side."""
        self.is_stuck = True
        if self._is_in:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.is_stuck = False
        if self._is_in:
            self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None)
        self._door.leave(self)
        if self._is_in:
            self.inner.connection_lost(exc)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self._run_out)

    def _run_out(self) -> None:
        is_slow = self._has_asked and not self._transport.is_closing()
        self.cut("some connections asked for nothing in time and were cut" if is_slow else "")


class _Wire:
    """What the inner protocol takes for its transport."""

    def __init__(self, transport: Any, line: Line) -> None:  # noqa: ANN401 - any of asyncio's
        self._transport = transport
        self._line = line

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        """HTTP hands over to WebSocket."""
        self._line.inner = protocol

    def close(self) -> None:
        self._line.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the transport
        return getattr(self._transport, name)


def _most_connections() -> int:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return MOST
    return max(1, min(MOST, descriptors // _DESCRIPTORS_EACH))


def _network_of(peer: str) -> str | None:
    """Whose an address is: itself, or the 64 bits that one customer has; `None` is this machine."""
    address = ipaddress.ip_address(address_of(peer))
    if address.is_loopback:
        return None
    whole = 64 if address.version == 6 else 32
    return str(ipaddress.ip_network((address, whole), strict=False))
