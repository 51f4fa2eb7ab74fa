"""The page over the network: attacks and faults, and TLS."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import socket
import ssl
import struct
import subprocess
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.fakes.page_server import (
    PATIENCE_S,
    completed,
    connect,
    dial,
    needs_web,
    serve,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.addresses import make_tls_context
from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.sources.network import BrowserSource

TEXT = 1
CLOSED = b"\x88"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - who may ask is what is tested


def answer(view: Any, request: bytes) -> bytes:
    """Return the first answer, with its whole body."""
    with dial(view) as client:
        client.sendall(request)
        said = b""
        while came := client.recv(65_536):
            said += came
            head, _, body = said.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            if length is not None and len(body) >= int(length[1]):
                break
        return said


def upgrade(path: str = "/events", *headers: str) -> bytes:
    lines = [
        f"GET {path} HTTP/1.1",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def frame(opcode: int, data: bytes = b"", *, end: bool = True) -> bytes:
    """Return a WebSocket frame with a mask of zeros."""
    head = bytes([(0x80 if end else 0) | opcode])
    size = (
        bytes([0x80 | len(data)])
        if len(data) < 126
        else b"\xfe" + struct.pack(">H", len(data))
    )
    return head + size + bytes(4) + data


def wait_for_end(client: socket.socket) -> None:
    """Read until the other side has closed; a reset is an end, too."""
    with suppress(ConnectionError):
        while client.recv(65_536):
            pass


def wait_for_goodbye(client: socket.socket) -> None:
    """Read until the server closes the WebSocket."""
    said = b""
    while CLOSED not in said:
        said += (came := client.recv(65_536))
        assert came, "it closed without a word"


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def page_of(view: Any) -> int:
    with urllib.request.urlopen(view.address, timeout=PATIENCE_S) as response:  # noqa: S310
        return int(response.status)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert not any(record.exc_info for record in caplog.records)
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno > logging.INFO
    ]


def test_page_answers_beside_200_half_open_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("whisper_hailo.http.connections.MOST", 16)
    with serve() as view, connect(view, "events") as before, ExitStack() as clients:
        before.recv()
        first = clients.enter_context(dial(view))
        for index in range(200):
            client = clients.enter_context(dial(view))
            client.sendall(b"GET / HTTP/1.1\r\nHost: " if index % 2 else b"")
            if index % 50 == 0:
                assert page_of(view) == 200
        wait_for_end(first)
        with connect(view, "events") as page:
            assert page.recv()
        assert before.ping().wait(PATIENCE_S)
    assert told(caplog) == ["all connections are in use; idle ones are closed"]


def test_page_slow_clients_are_disconnected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow = (
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-",
        upgrade("/events", "Host: localhost").replace(b"GET", b"PUT"),
    )
    with serve() as view, connect(view, "events") as page:
        page.recv()
        monkeypatch.setattr("whisper_hailo.http.connections.IDLE_S", 0.2)
        with ExitStack() as stack:
            clients = [stack.enter_context(dial(view)) for _ in slow]
            for client, request in zip(clients, slow, strict=True):
                client.sendall(request)
            for client in clients:
                wait_for_end(client)
        assert page.ping().wait(PATIENCE_S)
    assert told(caplog) == []


def test_page_request_with_body_is_413() -> None:
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    with serve() as view:
        assert answer(view, request).startswith(b"HTTP/1.1 413 ")


CHUNKED = b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


BAD = {
    "no request": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "no host, long ago": b"GET / HTTP/1.0\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    "half a host": b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "host of letters": b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    "an address as target": b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a star as target": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "endless header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000,
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 4000,
    "a broken body": CHUNKED + b"zz\r\n",
    "a body that breaks": CHUNKED + b"5\r\nabcdeXX\r\n",
    "a broken end": CHUNKED + b"0\r\n\x00:bad\r\n\r\n",
    "a broken body that is not asked for": CHUNKED.replace(b"GET", b"HEAD") + b"zz\r\n",
    "half a host of a socket": upgrade("/events", "Host: [::1"),
    "no host of a socket": upgrade("/audio"),
    "an address as target of a socket": upgrade(
        "http://localhost/events", "Host: localhost"
    ),
}


@pytest.mark.parametrize("request_bytes", BAD.values(), ids=BAD.keys())
def test_page_malformed_request_is_400_without_traceback(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(browser=BrowserSource()) as view:
        for _ in range(3):
            assert answer(view, request_bytes).startswith(b"HTTP/1.1 400 ")
        assert page_of(view) == 200
    assert set(told(caplog)) <= {"Invalid HTTP request received."}
    assert len(told(caplog)) <= 1


def test_network_log_reports_each_fault_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with --verbose."""
    needs_web()
    from whisper_hailo.http.server import WebSocket

    opened: list[str] = []

    class Noted(WebSocket):
        """Notes which WebSockets are opened."""

        def start_keepalive(self) -> None:
            opened.append(self.scope["path"])
            super().start_keepalive()

    monkeypatch.setattr("whisper_hailo.http.server.WebSocket", Noted)

    def fail(_level_db: float) -> None:
        raise ValueError("no sound")

    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    caplog.set_level(logging.INFO)
    with serve(browser=BrowserSource()) as view:
        monkeypatch.setattr(view.broadcast, "put_level", fail)
        assert page_of(view) == 200
        with connect(view, "events") as page:
            page.recv()
        assert caplog.messages == []
        assert opened == ["/events"]
        for _ in range(2):
            assert answer(view, BAD["no request"]).startswith(b"HTTP/1.1 400 ")
            view.put_audio(np.zeros(2000, np.float32))
        assert page_of(view) == 200
    bad, failed = sorted(caplog.messages, key=len)
    assert bad == "Invalid HTTP request received."
    assert failed.startswith("Exception in callback ")
    assert "handle" not in failed, "asyncio says it twice"
    assert failed.endswith(" (ValueError: no sound)")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", EVERYWHERE, "::"])
def test_page_foreign_host_or_origin_is_refused_anywhere(host: str) -> None:
    if host == "::" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    address = {"::": "[::1]", EVERYWHERE: "127.0.0.1"}.get(host, host)
    with serve(host=host, browser=BrowserSource()) as serving:
        port = urlsplit(serving.address).port
        view = SimpleNamespace(address=f"http://{address}:{port}/")
        page = f"GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n".encode()
        assert answer(view, page).startswith(b"HTTP/1.1 421 ")
        for path in ("/events", "/audio"):
            foreign_host = f"evil.example:{port}"
            rebound = upgrade(
                path, f"Host: {foreign_host}", f"Origin: http://{foreign_host}"
            )
            assert answer(view, rebound).startswith(b"HTTP/1.1 421 ")
            foreign = upgrade(
                path, f"Host: {address}:{port}", "Origin: http://evil.example"
            )
            assert answer(view, foreign).startswith(b"HTTP/1.1 403 ")
        with dial(view) as client:
            origin = f"Origin: http://{address}:{port}"
            client.sendall(upgrade("/events", f"Host: {address}:{port}", origin))
            assert client.recv(12) == b"HTTP/1.1 101"


def test_event_socket_text_message_closes_it() -> None:
    with serve() as view, dial(view) as client:
        client.sendall(upgrade("/events", "Host: localhost") + b"")
        assert client.recv(12) == b"HTTP/1.1 101"
        client.sendall(frame(TEXT, b"hello"))
        wait_for_goodbye(client)


def test_view_close_cuts_pages_that_do_not_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("whisper_hailo.serve.routes.captions.view.END_POLLS", 1)
    long = (CaptionWord("x" * 10_000, 0.5),)
    with socket.socket() as client:
        with serve() as view:
            url = urlsplit(view.address)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect((url.hostname, url.port))
            client.sendall(upgrade("/events", "Host: localhost"))
            assert client.recv(12) == b"HTTP/1.1 101"
            for index in range(2000):
                view.put(
                    Completed(
                        segment_id=index,
                        start_s=index,
                        end_s=index,
                        words=long,
                        reason="silence",
                        heard_s=index,
                        at_s=index,
                    )
                )
            with connect(
                view, "events", max_size=None
            ) as page:  # by now there is too much
                assert page.recv()
        wait_for_end(client)
    assert told(caplog) == []


def test_websocket_compression_is_not_offered() -> None:
    offer = "Sec-WebSocket-Extensions: permessage-deflate"
    with serve() as view, dial(view) as client:
        client.sendall(upgrade("/events", "Host: localhost", offer))
        assert b"deflate" not in client.recv(4096)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    cert = folder / "cert.pem"
    key = folder / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-keyout", key, "-out", cert, "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return cert, key


def read_page_over_tls(view: Any, certificate: tuple[Path, Path]) -> bytes:
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with trusting.wrap_socket(dial(view), server_hostname="127.0.0.1") as client:
        client.sendall(
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        )
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_page_and_events_over_tls_are_served(certificate: tuple[Path, Path]) -> None:
    """Uses an asyncio client: until Python 3.13, the two threads of the other one race."""
    from websockets.asyncio.client import connect

    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with serve(tls=make_tls_context(*certificate)) as view:
        assert view.address.startswith("https://")
        assert b'role="log"' in read_page_over_tls(view, certificate)
        address = view.address.replace("https", "wss") + "events"
        origin = view.address.rstrip("/")

        async def kinds() -> list[str]:
            async with connect(
                address, ssl=trusting, origin=origin, open_timeout=PATIENCE_S
            ) as page:
                first = [json.loads(await page.recv())["event"] for _ in range(2)]
                view.put(completed(0))
                return [*first, json.loads(await page.recv())["event"]]

        assert asyncio.run(kinds()) == ["hello", "snapshot", "completed"]


@pytest.mark.slow
def test_tls_without_handshake_is_disconnected(
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("whisper_hailo.http.connections.MOST", 8)
    with serve(tls=make_tls_context(*certificate)) as view, ExitStack() as clients:
        first = clients.enter_context(dial(view))
        for _ in range(50):
            clients.enter_context(dial(view))
        assert read_page_over_tls(view, certificate).startswith(b"HTTP/1.1 200 ")
        assert first.recv(1) == b""
        monkeypatch.setattr("whisper_hailo.http.connections.IDLE_S", 0.2)
        late = clients.enter_context(dial(view))
        assert late.recv(1) == b""
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01"]
)
def test_tls_plain_text_is_disconnected(
    certificate: tuple[Path, Path], said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(tls=make_tls_context(*certificate)) as view:
        with dial(view) as client:
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while client.recv(4096):
                    pass
        assert read_page_over_tls(view, certificate).startswith(b"HTTP/1.1 200 ")
    assert not any(record.exc_info for record in caplog.records)


def test_make_tls_context_with_wrong_key_raises(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key = certificate
    with pytest.raises(OptionError, match="--tls-cert"):
        make_tls_context(cert, None)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no key")
    for files in ((cert, wrong), (key, cert), (cert, tmp_path / "none.pem")):
        with pytest.raises(OptionError, match="web-cert and web-key"):
            make_tls_context(*files, "web-cert and web-key")
    assert make_tls_context(None, None) is None
