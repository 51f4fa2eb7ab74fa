"""The page over TLS: the same page, the same limits."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.page_server import (
    PATIENCE_S,
    completed,
    dial,
    serve,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.addresses import make_tls_context


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


def page_of(view: Any, certificate: tuple[Path, Path]) -> bytes:
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
        assert b'role="log"' in page_of(view, certificate)
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
        assert page_of(view, certificate).startswith(b"HTTP/1.1 200 ")
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
        assert page_of(view, certificate).startswith(b"HTTP/1.1 200 ")
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
