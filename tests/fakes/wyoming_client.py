"""A Wyoming server, and a client that streams a recording and reads the text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event

from tests.fakes.micro_service import MicroService
from whisper_hailo.audio import load_audio
from whisper_hailo.http.addresses import Listener
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.serve.options import HomeAssistantOptions
from whisper_hailo.serve.routes.wyoming.server import WyomingServer


@asynccontextmanager
async def wyoming_server(
    micro: MicroService,
    most: int = 16,
    *,
    finds_end: bool = True,
    home: HomeAssistantOptions | None = None,
) -> AsyncIterator[int]:
    """Serve Wyoming and give the port."""
    limiter = ConnectionLimiter(most)
    opened = WyomingServer(micro.service, limiter, home, finds_end=finds_end)
    server = await opened.serve(Listener("127.0.0.1", 0, "tcp", "try again"))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await opened.close()


def pcm(path: Any) -> bytes:
    """Return 16-bit samples at 16 kHz."""
    return (load_audio(path) * 32767).round().astype("<i2").tobytes()


async def say(
    client: AsyncTcpClient,
    data: bytes,
    *,
    sizes: Sequence[int] = (2048,),
    form: tuple[int, int, int] = (16_000, 2, 1),
    **asked: Any,
) -> list[Event]:
    """Send a recording in chunks of some sizes; return the events of the answer."""
    await client.write_event(Transcribe(**asked).event())
    await client.write_event(AudioStart(*form).event())
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        await client.write_event(AudioChunk(*form, audio=data[at : at + size]).event())
        at, number = at + size, number + 1
    await client.write_event(AudioStop().event())
    events: list[Event] = []
    while not events or events[-1].type not in {"transcript-stop", "error"}:
        event = await client.read_event()
        assert event is not None
        events.append(event)
    return events


def heard(events: list[Event]) -> str:
    """Return the text of an answer."""
    (whole,) = [event for event in events if event.type == "transcript"]
    chunks = [
        event.data["text"] for event in events if event.type == "transcript-chunk"
    ]
    assert "".join(chunks) == whole.data["text"]
    return str(whole.data["text"])
