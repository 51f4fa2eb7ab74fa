"""Who may ask, how often, and how much."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

from tests.unit.serve.house import House
from tests.unit.serve.running import running
from tests.unit.serve.web import TRANSCRIPTIONS, client, transcribe
from whisper_hailo.core.errors import OptionError
from whisper_hailo.http import connections
from whisper_hailo.serve import access
from whisper_hailo.serve.options import LimitOptions, SafetyOptions
from whisper_hailo.serve.service import TranscriptionService


def test_a_key_is_needed_where_there_are_some(house: House) -> None:
    web = client(house, safety=SafetyOptions(api_key=("first", "second")))
    for headers in ({}, {"Authorization": "Bearer third"}, {"Authorization": "Basic first"}):
        answer = transcribe(web, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"
    for headers in ({"Authorization": "Bearer second"}, {"X-API-Key": "first"}):
        assert transcribe(web, headers=headers).status_code == 200
    assert web.get("/health").status_code == 200
    assert web.get("/ready").json() == {"status": "ready", "models": {"micro": "ready"}}
    assert web.get("/metrics").status_code == 401


def test_the_server_is_asked_for_by_its_own_names_only(house: House) -> None:
    web = client(house, safety=SafetyOptions(allow_host=("home.example",)))
    for host, status in (("evil.example", 421), ("home.example", 200), ("localhost", 200)):
        assert web.get("/v1/models", headers={"Host": host}).status_code == status
        assert web.get("/health", headers={"Host": host}).status_code == 200


def test_foreign_name_is_told_how_to_allow_it(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    web = client(house)
    with caplog.at_level(logging.INFO):
        answer = web.get("/v1/models", headers={"Host": "whisper:8000"})
    assert answer.status_code == 421
    assert "--allow-host whisper" in answer.json()["error"]["message"]
    assert "--allow-host whisper" in caplog.text


def test_allowed_suffix_stands_for_all_names_below(house: House) -> None:
    web = client(house, safety=SafetyOptions(allow_host=("*.lan", "*.fritz.box")))
    for host, status in (("pi.lan", 200), ("a.fritz.box:80", 200), ("lan", 421), ("x.plan", 421)):
        assert web.get("/v1/models", headers={"Host": host}).status_code == status


def test_trusted_proxy_speaks_for_its_clients(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    safety = SafetyOptions(allow_host=("speech.example",), trusted_proxy=("10.0.0.0/8",))
    forwarded = {
        "X-Forwarded-For": "192.0.2.7",
        "X-Forwarded-Proto": "https",
        "Origin": "https://speech.example",
        "Host": "speech.example",
    }
    app = client(house, safety=safety).app
    for peer, counted in (("10.1.2.3", "192.0.2.7"), ("192.0.2.9", "192.0.2.9")):
        web = TestClient(app, "http://127.0.0.1:8000", client=(peer, 5))
        with caplog.at_level(logging.INFO):
            assert web.post("/nowhere", headers=forwarded).status_code == 404
        assert f" client={counted} " in caplog.text


@pytest.mark.parametrize("proxy", ["nginx", "10.0.0.1/8", ""])
def test_trusted_proxy_is_an_address(proxy: str) -> None:
    with pytest.raises(OptionError, match="trusted-proxy"):
        SafetyOptions(trusted_proxy=(proxy,))


def test_refused_requests_are_logged(house: House, caplog: pytest.LogCaptureFixture) -> None:
    web = client(house, safety=SafetyOptions(api_key=("k",)))
    key = {"Authorization": "Bearer k"}
    with caplog.at_level(logging.INFO):
        web.get("/v1/models")
        web.get("/no%0Awhere", headers=key)
        web.post(TRANSCRIPTIONS, headers=key)
        transcribe(web, language="xx", headers=key)
    refused = [r.getMessage() for r in caplog.records if r.name.endswith("refusals")]
    assert [line.split("status=")[1][:3] for line in refused] == ["401", "404", "400", "400"]
    assert "\n" not in "".join(refused)


def test_full_temporary_folder_is_507(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", full)
    files = {"file": ("a.wav", bytes(2 << 20))}
    answer = client(house).post(TRANSCRIPTIONS, files=files)
    assert answer.status_code == 507
    assert "temporary folder" in answer.json()["error"]["message"]


def test_pages_of_others_may_not_ask(house: House) -> None:
    web = client(house)
    foreign = {"Origin": "http://evil.example"}
    assert transcribe(web, headers=foreign).status_code == 403
    assert transcribe(web, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200
    answer = web.get("/health", headers=foreign)
    assert "access-control-allow-origin" not in answer.headers


def test_pages_that_are_listed_may(house: House) -> None:
    home = {"Origin": "http://home.example"}
    web = client(house, safety=SafetyOptions(allow_origin=("http://home.example",)))
    answer = transcribe(web, headers=home)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "http://home.example"
    asked = {**home, "Access-Control-Request-Method": "POST"}
    assert web.options(TRANSCRIPTIONS, headers=asked).status_code == 200
    assert transcribe(web, headers={"Origin": "http://evil.example"}).status_code == 403


def test_an_upload_has_a_size_at_most(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LimitOptions(max_upload_mib=1)
    limited = TranscriptionService(house.service.models, house.metrics, limits)
    monkeypatch.setattr(house, "service", limited)
    web = client(house)
    files = {"file": ("a.wav", bytes(2 << 20))}
    answer = web.post(TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files)
    assert answer.status_code == 413
    assert "larger than 1 MiB" in answer.json()["error"]["message"]

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(1 << 16)

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = web.post(TRANSCRIPTIONS, content=endless(), headers=headers)
    assert answer.status_code == 413


@pytest.mark.parametrize("honest", [True, False])
def test_a_small_file_that_is_a_long_recording_is_stopped(honest: bool) -> None:
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(16_000 * 90, np.int16), 16_000, format="FLAC")
    data = bytearray(silence.getvalue())
    assert len(data) < 20_000
    if not honest:  # the number of samples in its header: unknown
        data[21] &= 0xF0
        data[22:26] = bytes(4)
    with House(limits=LimitOptions(max_audio_s=20.0)) as small:
        files = {"file": ("a.flac", bytes(data))}
        answer = client(small).post(TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files)
        assert answer.status_code == 413
        assert "expected 20 s at most" in answer.json()["error"]["message"]
        assert transcribe(client(small)).status_code == 200


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n two and three \n")
    assert SafetyOptions(api_key=("zero",), api_key_file=file).keys() == (
        "zero",
        "one",
        "two and three",
    )
    file.write_text("\n")
    with pytest.raises(OptionError, match="holds no key"):
        SafetyOptions(api_key_file=file).keys()
    with pytest.raises(OptionError, match="cannot be read"):
        SafetyOptions(api_key_file=tmp_path / "nowhere").keys()


def test_metrics_tell_what_was_done_and_what_failed(house: House) -> None:
    web = client(house)
    transcribe(web)
    transcribe(web, language="xx")
    page = web.get("/metrics").text
    assert 'whisper_hailo_requests_total{api="openai",outcome="done"}' in page
    assert 'whisper_hailo_errors_total{kind="OptionError"}' in page
    assert 'whisper_hailo_state{model="micro",state="ready"} 1.0' in page
    assert "whisper_hailo_queue_depth 0.0" in page
    assert 'whisper_hailo_stage_seconds_total{stage="decode"}' in page


def test_a_client_that_stalls_in_the_middle_is_sent_away(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "STALL_S", 0.05)
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(client(house).app(_upload(), _never, send))
    assert sent[0]["status"] == 408


def test_client_that_sends_drop_by_drop_is_sent_away_in_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight seconds a drop: none alone is late, and of the fifth nothing is waited for."""
    sent: list[dict[str, Any]] = []
    n_drops = 0
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: 8.0 * n_drops))

    async def drip() -> dict[str, Any]:
        nonlocal n_drops
        n_drops += 1
        await asyncio.sleep(0)
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        return {"type": "http.request", "body": head if n_drops == 1 else b".", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(client(house).app(_upload(), drip, send))
    assert sent[0]["status"] == 408
    assert n_drops == 5


def test_what_all_clients_send_has_room_or_is_refused() -> None:
    with House(limits=LimitOptions(max_stored_mib=3)) as house:
        web = client(house)
        files = {"file": ("a.wav", bytes(4 << 20))}
        answer = web.post(TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "expected 3 MiB at most" in answer.json()["error"]["message"]
        assert house.service.quota.n_bytes == 0
        for _ in range(3):
            assert transcribe(web).status_code == 200
        assert house.service.quota.n_bytes == 0


@pytest.mark.parametrize(
    "said",
    [pytest.param(b"", marks=pytest.mark.slow), b"GET /health HTTP/1.1\r\nHost: loc", b"GET /"],
)
def test_a_head_that_does_not_end_is_not_waited_for(
    house: House, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.3)
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(house) as web:
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
    "body", [b"Content-Length: 9\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
def test_websocket_upgrade_with_a_body_is_400(house: House, body: bytes) -> None:
    with running(house) as web, socket.create_connection(("127.0.0.1", web.port), 30) as talk:
        talk.sendall(_UPGRADE + body)
        assert talk.recv(1 << 12).startswith(b"HTTP/1.1 400 ")
        assert talk.recv(1) == b""


def test_idle_sockets_make_room_for_requests(house: House) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(house, connections=4) as web, ExitStack() as held:
        for _ in range(40):
            held.enter_context(socket.create_connection(("127.0.0.1", web.port), 30))
        with socket.create_connection(("127.0.0.1", web.port), 30) as talk:
            talk.sendall(whole)
            assert b"200 OK" in talk.recv(1 << 12)


def test_a_server_that_ends_is_not_ready_and_takes_nothing() -> None:
    with House() as ending:
        web = client(ending)
        assert web.get("/ready").status_code == 200
        ending.service.stop()
        answer = web.get("/ready")
        assert (answer.status_code, answer.json()["status"]) == (503, "ending")
        answer = transcribe(web)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "about to end" in answer.json()["error"]["message"]


def test_who_only_reads_needs_no_place() -> None:
    with House(limits=LimitOptions(queue=1, queue_each=1)) as house:
        _only_readers_are_answered(client(house))


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
    """The beginning of a request that sends something."""
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
