"""HTTP and WebSocket, as far as uvicorn leaves them to us."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest


class HttpTransport:
    """Notes what is written and whether it is closed."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


def refused(cycle: Any) -> bytes:
    """What is written when something is no request while another one is answered, or none is."""
    pytest.importorskip("uvicorn", reason="the web extra is not installed")
    from whisper_hailo.http.server import HttpProtocol

    protocol: Any = object.__new__(HttpProtocol)
    protocol.cycle, protocol.transport = cycle, HttpTransport()
    protocol.send_400_response("Invalid HTTP request received.")
    assert protocol.transport.closed
    written: bytes = protocol.transport.written
    return written


def cycle(*, started: bool, complete: bool) -> Any:
    return SimpleNamespace(
        response_started=started,
        response_complete=complete,
        disconnected=False,
        message_event=asyncio.Event(),
    )


def test_what_is_no_request_is_refused_in_one_whole_answer() -> None:
    head, body = refused(None).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert (b"Content-Length: 0" in head, body) == (True, b"")


@pytest.mark.parametrize(
    ("started", "complete", "is_answered"),
    [(False, False, True), (True, False, False), (True, True, True)],
)
def test_answer_that_has_begun_is_cut_and_whoever_makes_it_knows(
    started: bool, complete: bool, is_answered: bool
) -> None:
    answering = cycle(started=started, complete=complete)
    assert bool(refused(answering)) is is_answered
    assert answering.disconnected
    assert answering.message_event.is_set(), (
        "who waits for the rest of the request is woken"
    )


pytest.importorskip("uvicorn", reason="the web extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

GOING_AWAY, RESTARTS = 1001, 1012


class Transport(asyncio.Transport):
    """Notes what is written and whether it is closed; nobody hangs up."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = self.is_aborted = False
        self.has_unacknowledged_data = False
        self.set_busy = Mock()

    def abort(self) -> None:
        self.is_aborted = True

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


def ask(app: Any) -> tuple[Any, Any, Transport]:
    """A server's end, its client without a socket, and what lies between."""
    from uvicorn.config import Config
    from uvicorn.server import ServerState
    from websockets.client import ClientProtocol
    from websockets.uri import parse_uri

    from whisper_hailo.http.server import WebSocket

    config = Config(app, lifespan="off", log_config=None, ws_ping_interval=None)
    config.load()
    server, transport = WebSocket(config, ServerState(), {}), Transport()
    server.connection_made(transport)
    client = ClientProtocol(parse_uri("ws://localhost/"))
    client.send_request(client.connect())
    server.data_received(b"".join(client.data_to_send()))
    return server, client, transport


async def opened() -> tuple[Any, Any, Transport]:
    """What is accepted, and waits for what the client says."""

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(ACCEPT)
        await receive()

    server, client, transport = ask(app)
    while not server.handshake_complete:
        await asyncio.sleep(0)
    hear(client, transport)
    return server, client, transport


ACCEPT = {"type": "websocket.accept"}
CLOSE = {"type": "websocket.close", "code": 1008}
SAY = {"type": "websocket.send", "text": "hello"}
REFUSE = [
    {"type": "websocket.http.response.start", "status": 421, "headers": []},
    {"type": "websocket.http.response.body", "body": b"ask for ", "more_body": True},
    {"type": "websocket.http.response.body", "body": b"this page"},
]


@pytest.mark.parametrize(
    ("messages", "is_gone", "catches", "written"),
    [
        (REFUSE, False, False, "HTTP/1.1 421 .*\r\n\r\nask for this page"),
        ([CLOSE], False, False, "HTTP/1.1 403 "),
        ([ACCEPT, CLOSE, SAY], False, False, "HTTP/1.1 101 "),
        ([ACCEPT, SAY], True, False, ""),
        ([ACCEPT, SAY], True, True, ""),
    ],
    ids=[
        "an answer",
        "a refusal",
        "said after the end",
        "gone",
        "gone, and the page knows",
    ],
)
def test_what_is_in_order_is_no_error(
    messages: list[Any],
    is_gone: bool,
    catches: bool,
    written: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        with suppress(OSError if catches else ()):
            for message in messages:
                await send(message)

    async def end() -> bytes:
        server, _, transport = ask(app)
        transport.is_closed = is_gone
        while server.tasks:
            await asyncio.sleep(0)
        return transport.written

    said = asyncio.run(end()).decode("latin-1")
    assert re.match(written, said, re.DOTALL)
    assert bool(said) is bool(written), "nobody is there who could be told"
    assert caplog.messages == []


def hear(client: Any, transport: Transport) -> None:
    client.receive_data(transport.written)
    transport.written = b""


def test_open_one_is_told_that_the_server_ends() -> None:
    async def end() -> None:
        server, client, transport = await opened()
        server.shutdown()
        hear(client, transport)
        assert client.close_rcvd.code == RESTARTS
        assert transport.is_closed

    asyncio.run(end())


def test_who_is_leaving_is_left_alone() -> None:
    async def end() -> None:
        server, client, transport = await opened()
        client.send_close(GOING_AWAY)
        server.data_received(b"".join(client.data_to_send()))
        hear(client, transport)
        assert client.close_rcvd.code == GOING_AWAY  # it is answered
        server.shutdown()
        assert transport.written == b""
        assert transport.is_closed

    asyncio.run(end())


def test_server_end_aborts_an_unfinished_handshake() -> None:
    async def end() -> None:
        from uvicorn.config import Config
        from uvicorn.server import ServerState

        from whisper_hailo.http.server import WebSocket

        config = Config(ask, lifespan="off", log_config=None)
        config.load()
        server, transport = WebSocket(config, ServerState(), {}), Transport()
        server.connection_made(transport)
        server.data_received(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        )
        server.shutdown()
        assert transport.is_aborted

    asyncio.run(end())


@pytest.mark.parametrize(
    ("is_acknowledged", "waited_s", "is_closed"),
    [(True, 25.0, False), (True, 301.0, True), (False, 25.0, True)],
    ids=["a client that is not read", "one that hangs", "one that is gone"],
)
def test_keepalive_closes_only_clients_that_are_gone(
    is_acknowledged: bool, waited_s: float, is_closed: bool
) -> None:
    async def time_out() -> bool:
        server, _, transport = await opened()
        transport.has_unacknowledged_data = not is_acknowledged
        server._pong_s = 300.0
        server.ping_sent_at = server.loop.time() - waited_s
        server.keepalive_timeout()
        server.stop_keepalive()
        return bool(server.close_sent)

    assert asyncio.run(time_out()) is is_closed
