"""Limits on connections, without sockets."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from whisper_hailo.http import connections
from whisper_hailo.http.connections import MOST, Connection, ConnectionLimiter

HERE = "127.0.0.1"
PATIENCE_S = 60
"""Ends a hanging test, and decides nothing."""


class Transport:
    """A socket that records what is done to it."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self.written = b""
        self.closing = False
        self.reading = True
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

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class InnerProtocol(asyncio.Protocol):
    """Records its events."""

    def __init__(self) -> None:
        self.received = b""
        self.events: list[object] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def eof_received(self) -> bool:
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(exc)


def connect(
    limiter: ConnectionLimiter, peer: str = HERE, tls: Any = None, *, busy: bool = False
) -> tuple[Connection, Any, Any]:
    """Return a new connection, its transport and its inner protocol."""
    connection = Connection(limiter, tls)
    transport = Transport(peer)
    connection.inner = inner = InnerProtocol()
    connection.connection_made(transport)  # type: ignore[arg-type]
    if busy:
        connection.set_busy()
    return connection, transport, inner


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def test_limiter_full_closes_the_longest_idle(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(3)
        busy = connect(limiter, busy=True)
        first = connect(limiter)
        second = connect(limiter)
        first[0].set_busy()
        first[0].set_idle()  # for a shorter time than the second
        connect(limiter)
        assert not busy[1].aborted.is_set()
        assert not first[1].aborted.is_set()
        assert second[1].aborted.is_set()

    run(main)
    assert "idle" in caplog.text


def test_limiter_full_of_busy_connections_refuses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(2)
        busy = [connect(limiter, busy=True) for _ in range(2)]
        late, transport, inner = connect(limiter)
        head, body = transport.written.split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert f"Content-Length: {len(body)}".encode() in head
        assert transport.closing
        late.data_received(b"GET / HTTP/1.1\r\n")
        assert inner.received == b""
        late.connection_lost(None)
        busy[0][0].connection_lost(None)
        assert connect(limiter)[1].written == b""

    run(main)
    assert "refused" in caplog.text


def test_limiter_full_refuses_tls_without_an_answer() -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(1)
        connect(limiter, busy=True)
        _, transport, _ = connect(limiter, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        assert transport.closing
        assert transport.written == b""

    run(main)


@pytest.mark.parametrize(
    ("first", "same_client", "other_client"),
    [
        ("192.168.1.7", "192.168.1.7", "192.168.1.8"),
        ("192.168.1.7", "::ffff:192.168.1.7", "::ffff:192.168.1.8"),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:2", "2001:db8:0:1::1"),
        ("fe80::1%eth0", "fe80::2%eth1", "fe80:0:0:1::1"),
    ],
)
def test_limiter_client_gets_half_of_all_places(
    first: str, same_client: str, other_client: str
) -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(4)
        for _ in range(2):
            assert not connect(limiter, first, busy=True)[1].closing
        assert connect(limiter, same_client)[1].closing
        assert not connect(limiter, other_client)[1].closing

    run(main)


def test_limiter_client_with_half_loses_its_idle_one() -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(4)
        addresses = (8, 7, 7)
        held = [connect(limiter, f"192.168.1.{number}")[1] for number in addresses]
        connect(limiter, "192.168.1.7")
        assert [transport.aborted.is_set() for transport in held] == [
            False,
            True,
            False,
        ]

    run(main)


@pytest.mark.parametrize(
    "peer", [HERE, "127.0.0.9", "::1", "::ffff:127.0.0.1", "10.0.0.2"]
)
def test_limiter_this_machine_and_proxies_get_all_places(peer: str) -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(4, [ipaddress.ip_network("10.0.0.0/30")])
        for _ in range(4):
            assert not connect(limiter, peer, busy=True)[1].closing

    run(main)


@pytest.mark.parametrize(
    ("peer", "is_admitted"),
    [("10.0.0.2", True), ("::ffff:10.0.0.2", True), (HERE, False)],
)
def test_limiter_admits_only_listed_addresses(peer: str, is_admitted: bool) -> None:
    async def main() -> None:
        limiter = ConnectionLimiter(4, allowed=[ipaddress.ip_network("10.0.0.0/30")])
        assert connect(limiter, peer)[1].closing is not is_admitted

    run(main)


@pytest.mark.parametrize(
    ("limits", "most", "backlog", "raised"),
    [
        ((128, 128), None, 8, []),
        ((128, 400), None, 25, [(400, 400)]),
        ((1_000_000, 1_000_000), None, MOST // 4, []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 80, 20, []),
        ((3, 3), None, 1, []),
        ((1024, 524_288), 1000, 250, [(4000, 524_288)]),
        ((1024, resource.RLIM_INFINITY), 1000, 250, [(4000, resource.RLIM_INFINITY)]),
    ],
)
def test_limiter_size_follows_the_descriptors(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    most: int | None,
    backlog: int,
    raised: list[tuple[int, int]],
) -> None:
    new_limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: new_limits.append(new))
    assert ConnectionLimiter(most).backlog == backlog
    assert new_limits == raised


def test_connection_idle_is_closed_and_busy_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.01)

    async def main() -> None:
        limiter = ConnectionLimiter()
        _, kept, _ = connect(limiter, busy=True)
        slow, transport, _ = connect(limiter)
        slow.data_received(b"GET / HTTP/1.1\r\n")
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)
        assert not kept.aborted.is_set()
        assert len(limiter) == 1

    run(main)


def test_connection_with_unread_answer_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "STUCK_S", 0.01)

    async def main() -> None:
        connection, transport, inner = connect(ConnectionLimiter(), busy=True)
        connection.pause_writing()
        assert not transport.reading
        inner.transport.resume_reading()
        assert not transport.reading, "answers to more would wait in memory"
        connection.resume_writing()
        assert transport.reading
        inner.transport.pause_reading()
        connection.pause_writing()
        connection.resume_writing()
        assert not transport.reading, "the application reads no more"
        assert inner.events == ["pause", "resume"] * 2
        connection.pause_writing()
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)

    run(main)


def test_connection_close_waits_for_its_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        _, transport, inner = connect(ConnectionLimiter(), busy=True)
        for linger_s in (0.01, 10 * PATIENCE_S):
            monkeypatch.setattr(connections, "LINGER_S", linger_s)
            inner.transport.close()
        assert transport.closing
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)

    run(main)


@pytest.mark.parametrize("stuck_only", [False, True])
def test_limiter_close_aborts_all_or_the_stuck(stuck_only: bool) -> None:
    async def main() -> None:
        limiter = ConnectionLimiter()
        _, reading_transport, _ = connect(limiter)
        stuck, stuck_transport, _ = connect(limiter)
        stuck.pause_writing()
        limiter.close(stuck_only=stuck_only)
        assert reading_transport.aborted.is_set() is not stuck_only
        assert stuck_transport.aborted.is_set()

    run(main)


def test_connection_inner_protocol_can_be_replaced() -> None:
    async def main() -> None:
        connection, _, http = connect(ConnectionLimiter())
        assert connection.eof_received() is True
        websocket = InnerProtocol()
        http.transport.set_protocol(websocket)
        connection.data_received(b"frame")
        assert http.received == b""
        assert websocket.received == b"frame"
        gone = ConnectionResetError()
        connection.connection_lost(gone)
        assert websocket.events == [gone]

    run(main)


def test_connection_data_after_tls_handshake_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        secured = Transport(HERE)
        connection = Connection(
            ConnectionLimiter(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        )
        connection.inner = inner = InnerProtocol()

        async def shake(*_: Any, **__: Any) -> Transport:
            connection.data_received(b"GE")
            connection.data_received(b"T /")
            assert inner.received == b"", "nothing is spoken on it yet"
            return secured

        monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", shake)
        connection.connection_made(Transport(HERE))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.data_received(b" HTTP/1.1")
        inner.transport.write(b"200")
        assert inner.received == b"GET / HTTP/1.1"
        assert secured.written == b"200"

    run(main)


@pytest.mark.parametrize("error", [ConnectionResetError(), ssl.SSLError("no TLS")])
def test_connection_failed_tls_handshake_aborts(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise error

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", refuse)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        connection, transport, inner = connect(ConnectionLimiter(), tls=tls)
        assert connection.eof_received() is None
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)
        assert inner.transport is None

    run(main)
