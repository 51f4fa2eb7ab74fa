"""Clients of live speech: sessions of `/v1/realtime`, and a Wyoming server with its client."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np
import soxr
from websockets.sync.client import connect
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event

from tests.fakes.micro_service import MicroService, RunningServer
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import FloatArray
from whisper_hailo.http.addresses import Listener
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.serve.options import HomeAssistantOptions
from whisper_hailo.serve.routes.wyoming.server import WyomingServer

URL = "/v1/realtime?intent=transcription"
BUFFER = "input_audio_buffer."
TRANSCRIPTION = "conversation.item.input_audio_transcription."
PAUSE_S = 1.0


def pcm(audio: FloatArray, rate_hz: int = 24_000) -> bytes:
    """Return audio as 16-bit samples."""
    samples = soxr.resample(audio, 16_000, rate_hz)
    return (np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes()


def speech(*paths: Any) -> bytes:
    """Return recordings with a pause after each."""
    pause = np.zeros(round(PAUSE_S * 16_000), np.float32)
    return b"".join(pcm(np.concatenate([load_audio(path), pause])) for path in paths)


class Talk:
    """One session, and its events."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []

    def say(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def update(self, turns: Any = None, **of_input: Any) -> dict[str, Any]:
        """Change the session; `turns` of `None` leaves the commit to the client."""
        given = {"turn_detection": turns, **of_input}
        self.say(
            "session.update",
            session={"type": "transcription", "audio": {"input": given}},
        )
        return self.until("session.updated", "error")

    def append(self, raw: bytes, size: int = 9_600) -> None:
        for at in range(0, len(raw), size):
            text = base64.b64encode(raw[at : at + size]).decode()
            self.say(BUFFER + "append", audio=text)

    def next(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.socket.recv())
        self.events.append(event)
        return event

    def until(self, *kinds: str) -> dict[str, Any]:
        while (event := self.next())["type"] not in kinds:
            pass
        return event

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def deltas(self, item_id: str) -> str:
        return "".join(
            event["delta"]
            for event in self.events
            if event["type"] == TRANSCRIPTION + "delta" and event["item_id"] == item_id
        )


@contextmanager
def talk(web: RunningServer, url: str = URL, **given: Any) -> Iterator[Talk]:
    """A session with the bundled model."""
    with connect(f"ws://127.0.0.1:{web.port}{url}", **given) as socket:
        opened = Talk(socket)
        assert opened.next()["type"] == "session.created"
        yield opened


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


def read_pcm(path: Any) -> bytes:
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
