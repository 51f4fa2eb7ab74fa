"""Keys, hosts, origins and limits of HTTP requests."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.fakes.micro_service import (
    TRANSCRIPTIONS,
    MicroService,
    client,
    run_server,
    transcribe,
)
from whisper_hailo.http import connections
from whisper_hailo.serve.options import LimitOptions, SafetyOptions


def test_access_with_keys_needs_one(micro: MicroService) -> None:
    web = client(micro, safety=SafetyOptions(api_key=("first", "second")))
    for headers in (
        {},
        {"Authorization": "Bearer third"},
        {"Authorization": "Basic first"},
    ):
        answer = transcribe(web, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"
    for headers in ({"Authorization": "Bearer second"}, {"X-API-Key": "first"}):
        assert transcribe(web, headers=headers).status_code == 200
    assert web.get("/health").status_code == 200
    assert web.get("/ready").json() == {"status": "ready", "models": {"micro": "ready"}}
    assert web.get("/metrics").status_code == 401


def test_access_foreign_host_is_421(micro: MicroService) -> None:
    web = client(micro, safety=SafetyOptions(allow_host=("home.example",)))
    for host, status in (
        ("evil.example", 421),
        ("home.example", 200),
        ("localhost", 200),
    ):
        assert web.get("/v1/models", headers={"Host": host}).status_code == status
        assert web.get("/health", headers={"Host": host}).status_code == 200


def test_access_address_of_another_machine_is_answered(micro: MicroService) -> None:
    """As behind a published port of a container."""
    answer = client(micro).get("/v1/models", headers={"Host": "192.168.1.5:8000"})
    assert answer.status_code == 200


@pytest.mark.parametrize(("key", "status"), [("k", 200), ("other", 421)])
def test_access_foreign_host_with_valid_key_is_answered(
    micro: MicroService, key: str, status: int
) -> None:
    web = client(micro, safety=SafetyOptions(api_key=("k",)))
    headers = {"Host": "speech.example", "Authorization": f"Bearer {key}"}
    assert web.get("/v1/models", headers=headers).status_code == status


def test_access_foreign_host_message_names_the_option(
    micro: MicroService, caplog: pytest.LogCaptureFixture
) -> None:
    web = client(micro)
    with caplog.at_level(logging.INFO):
        answer = web.get("/v1/models", headers={"Host": "whisper:8000"})
    assert answer.status_code == 421
    assert "--allow-host whisper" in answer.json()["error"]["message"]
    assert "--allow-host whisper" in caplog.text


def test_allow_host_suffix_allows_all_names_below(micro: MicroService) -> None:
    web = client(micro, safety=SafetyOptions(allow_host=("*.lan", "*.fritz.box")))
    for host, status in (
        ("pi.lan", 200),
        ("a.fritz.box:80", 200),
        ("lan", 421),
        ("x.plan", 421),
    ):
        assert web.get("/v1/models", headers={"Host": host}).status_code == status


def test_trusted_proxy_names_its_clients(
    micro: MicroService, caplog: pytest.LogCaptureFixture
) -> None:
    safety = SafetyOptions(
        allow_host=("speech.example",), trusted_proxy=("10.0.0.0/8",)
    )
    forwarded = {
        "X-Forwarded-For": "192.0.2.7",
        "X-Forwarded-Proto": "https",
        "Origin": "https://speech.example",
        "Host": "speech.example",
    }
    app = client(micro, safety=safety).app
    for peer, counted in (("10.1.2.3", "192.0.2.7"), ("192.0.2.9", "192.0.2.9")):
        web = TestClient(app, "http://127.0.0.1:8000", client=(peer, 5))
        with caplog.at_level(logging.INFO):
            assert web.post("/nowhere", headers=forwarded).status_code == 404
        assert f" client={counted} " in caplog.text


@pytest.mark.parametrize(
    ("forwarded", "counted"),
    [
        ("203.0.113.5, 192.0.2.7", "192.0.2.7"),
        ("192.0.2.7, 10.9.9.9", "192.0.2.7"),
        ("[2001:db8::1]:55", "2001:db8::1"),
        (", ,", "10.1.2.3"),
        ('a" status=200', '"a\\" status=200"'),
    ],
    ids=["forged by the client", "two proxies", "with a port", "empty", "no address"],
)
def test_trusted_proxy_counts_the_last_address_that_is_no_proxy(
    micro: MicroService,
    caplog: pytest.LogCaptureFixture,
    forwarded: str,
    counted: str,
) -> None:
    app = client(micro, safety=SafetyOptions(trusted_proxy=("10.0.0.0/8",))).app
    web = TestClient(app, "http://127.0.0.1:8000", client=("10.1.2.3", 5))
    with caplog.at_level(logging.INFO):
        answer = web.post("/nowhere", headers={"X-Forwarded-For": forwarded})
    assert answer.status_code == 404
    assert f" client={counted} " in caplog.text


def test_access_refusals_are_logged_in_one_line(
    micro: MicroService, caplog: pytest.LogCaptureFixture
) -> None:
    web = client(micro, safety=SafetyOptions(api_key=("k",)))
    key = {"Authorization": "Bearer k"}
    with caplog.at_level(logging.INFO):
        web.get("/v1/models")
        web.get("/no%0Awhere", headers=key)
        web.post(TRANSCRIPTIONS, headers=key)
        transcribe(web, language="xx", headers=key)
    refused = [r.getMessage() for r in caplog.records if r.name.endswith("refusals")]
    assert [line.split("status=")[1][:3] for line in refused] == [
        "401",
        "404",
        "400",
        "400",
    ]
    assert "\n" not in "".join(refused)


def test_access_foreign_origin_is_403(micro: MicroService) -> None:
    web = client(micro)
    foreign = {"Origin": "http://evil.example"}
    assert transcribe(web, headers=foreign).status_code == 403
    assert (
        transcribe(web, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200
    )
    answer = web.get("/health", headers=foreign)
    assert "access-control-allow-origin" not in answer.headers


def test_access_allowed_origin_is_answered(micro: MicroService) -> None:
    home = {"Origin": "http://home.example"}
    web = client(micro, safety=SafetyOptions(allow_origin=("http://home.example",)))
    answer = transcribe(web, headers=home)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "http://home.example"
    asked = {**home, "Access-Control-Request-Method": "POST"}
    assert web.options(TRANSCRIPTIONS, headers=asked).status_code == 200
    assert transcribe(web, headers={"Origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", marks=pytest.mark.slow),
        b"GET /health HTTP/1.1\r\nHost: loc",
        b"GET /",
    ],
)
def test_request_head_without_end_is_disconnected(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.3)
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with run_server(micro) as web:
        for before in (b"", whole):  # the second request of a connection, too
            with socket.create_connection(("127.0.0.1", web.port), 30) as talk:
                talk.sendall(before)
                if before:
                    assert b"200 OK" in talk.recv(1 << 12)
                with suppress(ConnectionError):
                    for byte in said:
                        talk.sendall(bytes([byte]))
                        time.sleep(0.01)
                    while talk.recv(1 << 12):
                        pass


_UPGRADE = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 9\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
)
def test_websocket_upgrade_with_a_body_is_400(micro: MicroService, body: bytes) -> None:
    with (
        run_server(micro) as web,
        socket.create_connection(("127.0.0.1", web.port), 30) as talk,
    ):
        talk.sendall(_UPGRADE + body)
        assert talk.recv(1 << 12).startswith(b"HTTP/1.1 400 ")
        assert talk.recv(1) == b""


def test_connections_idle_ones_make_room(micro: MicroService) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with run_server(micro, connections=4) as web, ExitStack() as connections:
        for _ in range(40):
            connections.enter_context(
                socket.create_connection(("127.0.0.1", web.port), 30)
            )
        with socket.create_connection(("127.0.0.1", web.port), 30) as talk:
            talk.sendall(whole)
            assert b"200 OK" in talk.recv(1 << 12)


def test_service_stopped_is_not_ready_and_refuses() -> None:
    with MicroService() as ending:
        web = client(ending)
        assert web.get("/ready").status_code == 200
        ending.service.stop()
        answer = web.get("/ready")
        assert answer.status_code == 503
        assert answer.json()["status"] == "ending"
        answer = transcribe(web)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"]["message"]


def test_access_get_request_needs_no_place() -> None:
    with MicroService(limits=LimitOptions(queue=1, queue_each=1)) as micro:
        _only_readers_are_answered(client(micro))


def _only_readers_are_answered(web: TestClient) -> None:
    app = web.app
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        uploading = asyncio.create_task(app(_upload(), _never, send))
        await asyncio.sleep(0)
        await app(_upload(), _never, send)
        assert sent[0]["status"] == 503
        await app({**_upload(), "method": "GET", "path": "/health"}, _never, send)
        assert sent[2]["status"] == 200
        uploading.cancel()
        await asyncio.gather(uploading, return_exceptions=True)

    asyncio.run(ask())
    assert transcribe(web).status_code == 200


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


def _upload() -> dict[str, Any]:
    """Return the scope of an upload."""
    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"multipart/form-data; boundary=x"),
        (b"content-length", b"1000"),
    ]
    return {
        "type": "http", "method": "POST", "path": TRANSCRIPTIONS, "raw_path": b"",
        "query_string": b"", "headers": headers, "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8000), "scheme": "http", "http_version": "1.1", "root_path": "",
    }  # fmt: skip
