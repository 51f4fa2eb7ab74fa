"""Limits on connections: how many there are, in all and per client, and how long each may be idle.

A connection takes its place before TLS begins. It is idle until its request is complete, and idle
connections are closed after some seconds; when all places are taken, the one that has been idle
longest makes room for a newcomer. A client cannot make memory grow by not reading what it is sent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import socket
import ssl
from collections.abc import Collection
from typing import Any, Final, cast

from whisper_hailo.http.addresses import Network, normalize_address

logger = logging.getLogger(__name__)

MOST: Final = 256
"""Default limit of all connections; there are fewer where the system gives few descriptors."""

IDLE_S: Final = 10.0
"""From the beginning of a connection, or of a request, to the end of the request's head."""

STUCK_S: Final = 30.0
"""For a client to read what it was sent."""

LINGER_S: Final = 5.0
"""For a client to read the rest of what it was sent when the connection is closed."""

_DESCRIPTORS_EACH: Final = 4
"""One for the connection; the others for newcomers, for uploads and for the program itself."""

_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Retry-After: 1\r\nContent-Length: 34\r\n\r\ntoo many connections; retry later\n"
)

_N_UNACKNOWLEDGED: Final = slice(24, 28)
"""Segments that were sent and not acknowledged, in `tcp_info`."""

_TCP_INFO_BYTES: Final = 28

_PEER_CLOSED: Final = frozenset({7, 8, 9, 11})
"""States of TCP after the peer has closed: CLOSE, CLOSE_WAIT, LAST_ACK, CLOSING."""


def _affordable_connections(wanted: int) -> int:
    """Return how many connections there are descriptors for, after raising the limit if need be.

    Most systems limit a process to 1024, and let it raise the limit itself.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * _DESCRIPTORS_EACH
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, max(allowed, soft) // _DESCRIPTORS_EACH)


class ConnectionLimiter:
    """Counts connections, in all and per client.

    Args:
        most: limit of all connections.
        proxies: networks of trusted proxies, which stand for many clients.
        allowed: networks whose clients may connect; without any, all may.
    """

    def __init__(
        self,
        most: int | None = None,
        proxies: Collection[Network] = (),
        allowed: Collection[Network] = (),
    ) -> None:
        wanted = most or MOST
        self._most = min(wanted, _affordable_connections(wanted))
        if most and self._most < most:
            logger.warning(
                "at most %d connections instead of %d: the limit of open files is too low (ulimit "
                "-n)",
                self._most,
                most,
            )
        self._proxies = proxies
        self._allowed = allowed
        # Connections that may be accepted in one go.
        self.backlog = max(1, self._most // 4)
        self._clients: dict[Connection, str | None] = {}  # those idle longest first

    def __len__(self) -> int:
        return len(self._clients)

    def admit(self, connection: Connection, peer: str) -> bool:
        """Take a place for a connection; return whether there is one.

        One client has half of all places at most, except this machine and trusted proxies, which
        stand for many.
        """
        if self._allowed and not _is_within(peer, self._allowed):
            logger.warning(
                "a connection from an address that is not on the list was refused"
            )
            return False
        client = self._client_of(peer)
        same_client = [
            other for other, owner in self._clients.items() if owner == client
        ]
        most_of_client = max(1, self._most // 2)
        candidates: list[Connection] = []  # of which one must make room
        if client is not None and len(same_client) >= most_of_client:
            candidates = same_client
        elif len(self._clients) >= self._most:
            candidates = list(self._clients)
        if candidates:
            idle = next((other for other in candidates if other.is_idle), None)
            if idle is None:
                logger.warning("all connections are in use; new ones are refused")
                return False
            logger.warning("all connections are in use; idle ones are closed")
            idle.abort()
        self._clients[connection] = client
        return True

    def mark_idle(self, connection: Connection) -> None:
        """Put a connection behind those that have been idle for longer."""
        if connection in self._clients:
            self._clients[connection] = self._clients.pop(connection)

    def release(self, connection: Connection) -> None:
        """Give up the place of a connection, if it has one."""
        self._clients.pop(connection, None)

    def close(self, *, stuck_only: bool = False) -> None:
        """Abort all connections, or those whose client does not read."""
        for connection in list(self._clients):
            if connection.is_stuck or not stuck_only:
                connection.abort()

    def _client_of(self, peer: str) -> str | None:
        """Return what counts as one client: an IPv4 address, or an IPv6 network of 64 bits.

        A customer has a whole network of IPv6. `None` stands for many clients.
        """
        address = ipaddress.ip_address(normalize_address(peer))
        if address.is_loopback or _is_within(peer, self._proxies):
            return None
        prefix = 64 if address.version == 6 else 32
        return str(ipaddress.ip_network((address, prefix), strict=False))


def _is_within(peer: str, networks: Collection[Network]) -> bool:
    address = ipaddress.ip_address(normalize_address(peer))
    return any(address in network for network in networks)


class Connection(asyncio.Protocol):
    """One connection: the protocol of its socket, and the transport of what is spoken on it.

    Attributes:
        inner: speaks HTTP, WebSocket or Wyoming; set by the maker.
        is_idle: no request is under way, and it may be closed for a newcomer.
        is_stuck: the client does not read what it is sent.
    """

    inner: asyncio.Protocol

    def __init__(
        self,
        limiter: ConnectionLimiter,
        tls: ssl.SSLContext | None = None,
        refusal: bytes = _FULL,
    ) -> None:
        self.is_idle = True
        self.is_stuck = False
        # Sent when all places are taken.
        self._refusal = refusal if tls is None else b""
        self._limiter = limiter
        self._tls = tls
        self._transport: Any = None
        self._early = b""  # came before `inner` began
        self._protocol = asyncio.Protocol()  # ignores everything until `inner` begins
        self._timer: asyncio.TimerHandle | None = None
        self._reading_paused = False

    def set_busy(self) -> None:
        """Keep the connection: a request is under way."""
        self.is_idle = False
        self._set_timer(STUCK_S if self.is_stuck else None)

    def set_idle(self, seconds: float | None = None) -> None:
        """Close the connection unless a request begins in time."""
        if not self.is_idle:
            self.is_idle = True
            self._limiter.mark_idle(self)
        if not self._transport.is_closing():
            self._set_timer(IDLE_S if seconds is None else seconds)

    def abort(self) -> None:
        """Close the connection at once; what was written may not be sent."""
        self._limiter.release(self)
        self._transport.abort()

    @property
    def is_closed_by_peer(self) -> bool:
        """True if the client has left, which a paused transport does not notice (`tcp_info`)."""
        info = self._tcp_info()
        return info is None or info[0] in _PEER_CLOSED

    @property
    def has_unacknowledged_data(self) -> bool:
        """True if the client's machine has not acknowledged all that it was sent."""
        info = self._tcp_info()
        return info is None or any(info[_N_UNACKNOWLEDGED])

    def _tcp_info(self) -> bytes | None:
        """Return the beginning of `tcp_info`; `None` for a closed connection."""
        raw_socket = self._transport.get_extra_info("socket")
        try:
            info: bytes = raw_socket.getsockopt(
                socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES
            )
        except OSError:
            return None
        return info

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        address = transport.get_extra_info("peername")[0]
        if not self._limiter.admit(self, address):
            self._transport.write(self._refusal)
            self.close()
            return
        self.set_idle()
        if self._tls is None:
            self._start(transport)
        else:
            self._handshake = asyncio.ensure_future(
                self._start_tls(transport, self._tls)
            )

    async def _start_tls(self, transport: Any, tls: ssl.SSLContext) -> None:  # noqa: ANN401 - any of asyncio's
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(transport, self, tls, server_side=True)
        except OSError:  # no TLS, a certificate that the client rejects, or it has left
            secured = None
        if secured is None:
            self.abort()
        else:
            self._start(secured)

    def _start(self, transport: Any) -> None:  # noqa: ANN401 - any of asyncio's
        self._transport = transport
        self._protocol = self.inner
        self.inner.connection_made(cast(asyncio.Transport, self))
        if self._early:
            self.data_received(self._early)
            self._early = b""

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        """Hand the connection over from HTTP to WebSocket."""
        self.inner = self._protocol = protocol

    def close(self) -> None:
        """Close the connection when what was written is sent, or after some seconds."""
        if not self._transport.is_closing():
            self._set_timer(LINGER_S)
        self._transport.close()

    def pause_reading(self) -> None:
        self._reading_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, unless the client does not read either."""
        self._reading_paused = False
        if not self.is_stuck:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Pass data on; what comes with the end of the TLS handshake waits for `inner`."""
        if self._protocol is self.inner:
            self.inner.data_received(data)
        else:
            self._early += data

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read, and give it some seconds."""
        self.is_stuck = True
        self._transport.pause_reading()
        if not self.is_idle:
            self._set_timer(STUCK_S)
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self.is_stuck = False
        if not self._reading_paused:
            self._transport.resume_reading()
        if not self.is_idle:
            self._set_timer(None)
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None)
        self._limiter.release(self)
        self._protocol.connection_lost(exc)
        # It holds this connection as its transport: without the cycle both are freed at once.
        self.inner = self._protocol = asyncio.Protocol()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self.abort)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the transport
        return getattr(self._transport, name)
