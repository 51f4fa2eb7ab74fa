"""Uploads: their size, their speed, and the room that they take."""

from __future__ import annotations

import asyncio
import errno
import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.fakes.micro_service import TRANSCRIPTIONS, MicroService, client, transcribe
from whisper_hailo.serve import access
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.service import TranscriptionService


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


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


def test_upload_with_full_temporary_folder_is_507(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", full)
    files = {"file": ("a.wav", bytes(2 << 20))}
    answer = client(micro).post(TRANSCRIPTIONS, files=files)
    assert answer.status_code == 507
    assert answer.json()["error"]["message"]


def test_upload_too_large_is_413(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = LimitOptions(max_upload_mib=1)
    limited = TranscriptionService(micro.service.models, micro.metrics, limits)
    monkeypatch.setattr(micro, "service", limited)
    web = client(micro)
    files = {"file": ("a.wav", bytes(2 << 20))}
    answer = web.post(TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files)
    assert answer.status_code == 413
    assert "1 MiB" in answer.json()["error"]["message"]

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(1 << 16)

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = web.post(TRANSCRIPTIONS, content=endless(), headers=headers)
    assert answer.status_code == 413


@pytest.mark.parametrize("honest", [True, False])
def test_upload_small_file_of_long_audio_is_413(honest: bool) -> None:
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(16_000 * 90, np.int16), 16_000, format="FLAC")
    data = bytearray(silence.getvalue())
    assert len(data) < 20_000
    if not honest:  # the number of samples in its header: unknown
        data[21] &= 0xF0
        data[22:26] = bytes(4)
    with MicroService(limits=LimitOptions(max_audio_s=20.0)) as small:
        files = {"file": ("a.flac", bytes(data))}
        answer = client(small).post(
            TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files
        )
        assert answer.status_code == 413
        assert "20 s" in answer.json()["error"]["message"]
        assert transcribe(client(small)).status_code == 200


def test_upload_that_stalls_is_408(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "STALL_S", 0.05)
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(client(micro).app(_upload(), _never, send))
    assert sent[0]["status"] == 408


def test_upload_slower_than_the_minimum_is_408(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte every 8 s: none is late alone, but the fifth exceeds the slowest rate."""
    sent: list[dict[str, Any]] = []
    n_drops = 0
    monkeypatch.setattr(
        access, "time", SimpleNamespace(monotonic=lambda: 8.0 * n_drops)
    )

    async def drip() -> dict[str, Any]:
        nonlocal n_drops
        n_drops += 1
        await asyncio.sleep(0)
        head = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        )
        return {
            "type": "http.request",
            "body": head if n_drops == 1 else b".",
            "more_body": True,
        }

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(client(micro).app(_upload(), drip, send))
    assert sent[0]["status"] == 408
    assert n_drops == 5


def test_upload_beyond_stored_limit_is_503() -> None:
    with MicroService(limits=LimitOptions(max_stored_mib=3)) as micro:
        web = client(micro)
        files = {"file": ("a.wav", bytes(4 << 20))}
        answer = web.post(TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "3 MiB" in answer.json()["error"]["message"]
        assert micro.service.quota.n_bytes == 0
        for _ in range(3):
            assert transcribe(web).status_code == 200
        assert micro.service.quota.n_bytes == 0
