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
    """Records what is written and whether it is closed."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


def answer_malformed_request(cycle: Any) -> bytes:
    """Return the answer to a malformed request; `cycle` is the one under way, if any."""
    pytest.importorskip("uvicorn", reason="the web extra is not installed")
    from whisper_hailo.http.server import HttpProtocol

    protocol: Any = object.__new__(HttpProtocol)
    protocol.cycle = cycle
    protocol.transport = HttpTransport()
    protocol.send_400_response("Invalid HTTP request received.")
    assert protocol.transport.closed
    written: bytes = protocol.transport.written
    return written


def make_cycle(*, started: bool, complete: bool) -> Any:
    return SimpleNamespace(
        response_started=started,
        response_complete=complete,
        disconnected=False,
        message_event=asyncio.Event(),
    )


def test_http_protocol_malformed_request_is_400() -> None:
    head, body = answer_malformed_request(None).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"Content-Length: 0" in head
    assert body == b""


@pytest.mark.parametrize(
    ("started", "complete", "is_answered"),
    [(False, False, True), (True, False, False), (True, True, True)],
)
def test_http_protocol_malformed_request_cuts_begun_answer(
    started: bool, complete: bool, is_answered: bool
) -> None:
    answering = make_cycle(started=started, complete=complete)
    assert bool(answer_malformed_request(answering)) is is_answered
    assert answering.disconnected
    assert answering.message_event.is_set(), (
        "the application must not wait for the rest of the request"
    )


pytest.importorskip("uvicorn", reason="the web extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

GOING_AWAY = 1001
RESTARTS = 1012


class Transport(asyncio.Transport):
    """Records what is written and whether it is closed; the client stays."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = self.is_aborted = False
        self.has_unacknowledged_data = False
        self.is_paused = False
        self.set_busy = Mock()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.is_aborted = True

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


def connect_websocket(app: Any) -> tuple[Any, Any, Transport]:
    """Return a WebSocket server, its client and the transport between them."""
    from uvicorn.config import Config
    from uvicorn.server import ServerState
    from websockets.client import ClientProtocol
    from websockets.uri import parse_uri

    from whisper_hailo.http.server import WebSocket

    config = Config(app, lifespan="off", log_config=None, ws_ping_interval=None)
    config.load()
    server = WebSocket(config, ServerState(), {})
    transport = Transport()
    server.connection_made(transport)
    client = ClientProtocol(parse_uri("ws://localhost/"))
    client.send_request(client.connect())
    server.data_received(b"".join(client.data_to_send()))
    return server, client, transport


async def open_websocket() -> tuple[Any, Any, Transport]:
    """Return a WebSocket that is accepted and waits for a message."""

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(ACCEPT)
        await receive()

    server, client, transport = connect_websocket(app)
    while not server.handshake_complete:
        await asyncio.sleep(0)
    read_answer(client, transport)
    return server, client, transport


ACCEPT = {"type": "websocket.accept"}
CLOSE = {"type": "websocket.close", "code": 1008}
SAY = {"type": "websocket.send", "text": "hello"}
REFUSE = [
    {"type": "websocket.http.response.start", "status": 421, "headers": []},
    {
        "type": "websocket.http.response.body",
        "body": b"ask for ",
        "more_body": True,
    },
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
        "message after the end",
        "gone",
        "gone, and the page knows",
    ],
)
def test_websocket_regular_end_logs_nothing(
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
        server, _, transport = connect_websocket(app)
        transport.is_closed = is_gone
        while server.tasks:
            await asyncio.sleep(0)
        return transport.written

    answer = asyncio.run(end()).decode("latin-1")
    assert re.match(written, answer, re.DOTALL)
    assert bool(answer) is bool(written), "a client that left gets no answer"
    assert caplog.messages == []


def read_answer(client: Any, transport: Transport) -> None:
    client.receive_data(transport.written)
    transport.written = b""


def test_websocket_open_gets_1012_at_shutdown() -> None:
    async def end() -> None:
        server, client, transport = await open_websocket()
        server.shutdown()
        read_answer(client, transport)
        assert client.close_rcvd.code == RESTARTS
        assert transport.is_closed

    asyncio.run(end())


def test_websocket_closing_gets_no_second_close() -> None:
    async def end() -> None:
        server, client, transport = await open_websocket()
        client.send_close(GOING_AWAY)
        server.data_received(b"".join(client.data_to_send()))
        read_answer(client, transport)
        assert client.close_rcvd.code == GOING_AWAY  # it is answered
        server.shutdown()
        assert transport.written == b""
        assert transport.is_closed

    asyncio.run(end())


def test_websocket_unfinished_handshake_is_aborted() -> None:
    async def end() -> None:
        from uvicorn.config import Config
        from uvicorn.server import ServerState

        from whisper_hailo.http.server import WebSocket

        config = Config(connect_websocket, lifespan="off", log_config=None)
        config.load()
        server = WebSocket(config, ServerState(), {})
        transport = Transport()
        server.connection_made(transport)
        server.data_received(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        )
        server.shutdown()
        assert transport.is_aborted

    asyncio.run(end())


@pytest.mark.parametrize(
    ("is_acknowledged", "is_paused", "received_s", "waited_s", "is_closed"),
    [
        (True, True, 30.0, 25.0, False),
        (True, False, 1.0, 25.0, False),
        (True, False, 30.0, 25.0, True),
        (True, True, 30.0, 301.0, True),
        (False, True, 1.0, 25.0, True),
    ],
    ids=["not read", "sends", "silent", "hangs", "gone"],
)
def test_websocket_keepalive_closes_only_lost_clients(
    is_acknowledged: bool,
    is_paused: bool,
    received_s: float,
    waited_s: float,
    is_closed: bool,
) -> None:
    async def time_out() -> bool:
        server, _, transport = await open_websocket()
        now_s = server.loop.time()
        transport.has_unacknowledged_data = not is_acknowledged
        server.read_paused = is_paused
        server._received_at = now_s - received_s
        server._pong_s = 300.0
        server.ping_sent_at = now_s - waited_s
        server.keepalive_timeout()
        server.stop_keepalive()
        return bool(server.close_sent)

    assert asyncio.run(time_out()) is is_closed


def test_websocket_many_frames_leave_others_their_turn() -> None:
    n_frames = 20_000
    ping = b"\x89\x80" + bytes(4)
    pong = b"\x8a\x00"

    async def flood() -> int:
        server, _, transport = await open_websocket()
        n_turns = 0
        server.data_received(ping * n_frames)
        while len(transport.written) < len(pong) * n_frames:
            assert transport.is_paused
            n_turns += 1
            await asyncio.sleep(0)
        assert transport.written == pong * n_frames
        assert not transport.is_paused
        return n_turns

    assert asyncio.run(flood()) >= 5


def test_websocket_closed_within_many_frames_takes_no_more() -> None:
    async def flood() -> None:
        server, client, transport = await open_websocket()
        client.send_close(GOING_AWAY)
        server.data_received(b"".join(client.data_to_send()) + b"\x89\x80" * 50_000)
        assert transport.is_closed
        n_bytes = len(transport.written)
        await asyncio.sleep(0.01)
        assert len(transport.written) == n_bytes
        assert not server._unread

    asyncio.run(flood())


def test_websocket_message_of_many_pieces_is_whole() -> None:
    text = "x" * 200_000
    messages: list[Any] = []

    async def receive_all() -> None:
        async def app(_scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send(ACCEPT)
            messages.append(await receive())
            await receive()

        server, client, transport = connect_websocket(app)
        while not server.handshake_complete:
            await asyncio.sleep(0)
        read_answer(client, transport)
        client.send_text(text.encode())
        server.data_received(b"".join(client.data_to_send()))
        while not messages:
            await asyncio.sleep(0)
        server.shutdown()

    asyncio.run(receive_all())
    assert messages[0]["text"] == text
