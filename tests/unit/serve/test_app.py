"""Memory of clients that left: it is freed without the cyclic collector, by every protocol."""

from __future__ import annotations

import asyncio
import gc
import io
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import soundfile
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient

from tests.fakes.micro_service import DEMO, MicroService, RunningServer
from tests.fakes.page_server import connect, serve
from tests.fakes.speech_clients import BUFFER, pcm, talk, wyoming_server
from whisper_hailo.audio import load_audio
from whisper_hailo.http.connections import Connection
from whisper_hailo.live.sources.network import BrowserSource

pytestmark = pytest.mark.slow

MIB = 1 << 20
SENT_BYTES = 12 * MIB

LIMIT_BYTES = 4 * MIB
"""A window of live audio may stay until the next client, and what every first client brings."""

RETURN_S = 60.0
"""Six times what it may take: a busy machine must not decide."""


@contextmanager
def returned_memory() -> Iterator[None]:
    """Check that what a block allocates is freed soon after it, without the cyclic collector."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield
        deadline_s = time.monotonic() + RETURN_S
        while True:
            now, _ = tracemalloc.get_traced_memory()
            if now - before < LIMIT_BYTES:
                return
            assert time.monotonic() < deadline_s, f"{now - before} bytes are left"
            time.sleep(0.1)
    finally:
        tracemalloc.stop()
        gc.enable()


def upload(web: RunningServer, *, stream: bool, share: float = 1.0) -> None:
    """Send a share of an upload with large fields, and leave."""
    audio = np.tile(load_audio(DEMO), 10)
    file = io.BytesIO()
    soundfile.write(file, audio, 16_000, format="WAV")
    fields = [("model", b"whisper-1"), ("stream", str(stream).lower().encode())]
    fields += [("known_speaker_references[]", bytes(3 * MIB - 1))] * 3
    body = b"".join(
        b'--X\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
        % (name.encode(), value)
        for name, value in fields
    )
    body += (
        b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    )
    body += file.getvalue() + b"\r\n--X--\r\n"
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: multipart/form-data; boundary=X\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.sendall(head.encode() + body[: round(share * len(body))])
        time.sleep(0.3)


def talk_realtime(web: RunningServer) -> None:
    sound = pcm(np.tile(load_audio(DEMO), 20))[:SENT_BYTES]
    with talk(web) as said:
        said.update()
        said.append(sound, size=len(sound))
        said.say(BUFFER + "commit")
        time.sleep(0.3)


@pytest.mark.parametrize(
    "client",
    [
        lambda web: upload(web, stream=False, share=0.8),
        lambda web: upload(web, stream=False),
        lambda web: upload(web, stream=True),
        talk_realtime,
    ],
    ids=["upload cut", "upload", "events", "realtime"],
)
def test_http_departed_client_s_memory_returns(
    web: RunningServer, client: Callable[[RunningServer], None]
) -> None:
    client(web)
    with returned_memory():
        client(web)


@pytest.mark.parametrize("stops", [False, True])
def test_wyoming_departed_client_s_memory_returns(
    micro: MicroService, *, stops: bool
) -> None:
    samples = np.tile(load_audio(DEMO), 20)
    data = (samples * 32767).astype("<i2").tobytes()[:SENT_BYTES]

    async def talk_wyoming(port: int) -> None:
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(AudioStart(16_000, 2, 1).event())
            for begin in range(0, len(data), MIB):
                chunk = AudioChunk(16_000, 2, 1, audio=data[begin : begin + MIB])
                await client.write_event(chunk.event())
            if stops:
                await client.write_event(AudioStop().event())
                await asyncio.sleep(0.3)

    async def leave_twice() -> None:
        async with wyoming_server(micro) as port:
            await talk_wyoming(port)
            with returned_memory():
                await talk_wyoming(port)
                await asyncio.sleep(1.0)  # the server runs in this loop

    asyncio.run(leave_twice())


def count_connections() -> int:
    return sum(type(item) is Connection for item in gc.get_objects())


def test_captions_departed_client_s_connection_is_freed() -> None:
    """They send little, so that their objects are counted instead of their bytes."""
    with serve(browser=BrowserSource()) as view:
        gc.collect()
        gc.disable()
        try:
            n_before = count_connections()
            with connect(view, "events"), connect(view, "audio") as microphone:
                microphone.send(bytes(1 << 16))
                assert count_connections() > n_before
            deadline_s = time.monotonic() + RETURN_S
            while count_connections() > n_before:
                assert time.monotonic() < deadline_s
                time.sleep(0.1)
        finally:
            gc.enable()
