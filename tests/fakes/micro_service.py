"""A service with the bundled model, its HTTP application behind a socket, and a client of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from starlette.testclient import TestClient

from whisper_hailo import Transcriber
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import (
    DecodingOptions,
    SearchOptions,
    rising_temperatures,
)
from whisper_hailo.http.addresses import Listener
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.http.server import HttpServer
from whisper_hailo.serve.app import make_app
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.serve.options import LimitOptions, SafetyOptions
from whisper_hailo.serve.request import Caller, Choices, RequestDefaults
from whisper_hailo.serve.routes.realtime.protocol import MAX_MESSAGE_BYTES
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo_lab.clip_archives import unpack_clips

ROOT = Path(__file__).parents[2]
DATA = unpack_clips()
DEMO = ROOT / "src" / "whisper_hailo" / "assets" / "demo.flac"
DEMO_TEXT = DEMO.with_suffix(".txt").read_text(encoding="utf-8").strip()
GERMAN = sorted((DATA / "german").glob("*.ogg"))
LONG = sorted((DATA / "long").glob("*.ogg"))
SHORT = DATA / "seen" / "seen-021.ogg"
"""Three seconds: for what does not depend on what is said."""
PHRASES = sorted((DATA / "phrases").glob("*.ogg"))
OPTIONS = DecodingOptions(
    language="auto", search=SearchOptions(rising_temperatures(0.0, 0.2))
)
"""Those of the command by default, for the bundled model."""
TRANSCRIPTIONS = "/v1/audio/transcriptions"


class MicroService(Closing):
    """A service with the bundled model."""

    def __init__(
        self,
        long: LongOptions | None = None,
        limits: LimitOptions | None = None,
        **of_model: Any,
    ) -> None:
        self.metrics = Metrics()
        transcriber = Transcriber.from_model("micro", threads=1)
        self.model = ServedModel(
            transcriber,
            RequestDefaults(OPTIONS, long or LongOptions()),
            self.metrics,
            ModelMemory(),
            **of_model,
        )
        self.model.languages = ("en", "de")
        self.service = TranscriptionService(
            [self.model], self.metrics, limits or LimitOptions()
        )

    def open(self) -> Self:
        self.model.open()
        return self

    def close(self) -> None:
        self.model.close()

    async def text(self, audio: FloatArray, client: str = "me", **choices: Any) -> str:
        """Return the text of audio."""
        chosen = Choices(**choices)
        with self.service.submit(audio, chosen, caller(client)) as ticket:
            return (await ticket.result()).text


def caller(client: str = "me") -> Caller:
    """Return a client of some API."""
    return Caller(client, "test")


@dataclass
class RunningServer:
    """A server in another thread.

    Attributes:
        port: at which it listens.
        loop: that it runs on.
    """

    port: int
    loop: asyncio.AbstractEventLoop


@contextmanager
def run_server(
    micro: MicroService,
    connections: int | None = None,
    safety: SafetyOptions | None = None,
) -> Iterator[RunningServer]:
    """Serve, until the block ends."""
    safety = safety or SafetyOptions()
    listener = Listener("127.0.0.1", 0, "http", "try again")
    listener.listen()
    port = listener.port
    app = make_app(micro.service, "127.0.0.1", safety)
    server = HttpServer(
        app,
        ConnectionLimiter(connections),
        safety.tls(),
        message_bytes=MAX_MESSAGE_BYTES,
        pong_s=300.0,
    )
    opened: list[asyncio.AbstractEventLoop] = []
    ready = threading.Event()

    async def serve() -> None:
        opened.append(asyncio.get_running_loop())
        ready.set()
        await server.serve(sockets=[listener])

    # Each loop has one.
    before, micro.service.ending = (micro.service.ending, asyncio.Event())
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield RunningServer(port, opened[0])
    finally:
        server.should_exit = True
        thread.join()
        micro.service.ending = before


def client(micro: MicroService, safety: SafetyOptions | None = None) -> TestClient:
    """Return a client of a service."""
    safety = safety or SafetyOptions()
    app = make_app(micro.service, "127.0.0.1", safety)
    return TestClient(app, "http://127.0.0.1:8000", raise_server_exceptions=False)


def transcribe(
    web: TestClient, path: Path = SHORT, url: str = TRANSCRIPTIONS, /, **fields: Any
) -> Any:
    """Return the answer to an upload."""
    headers = fields.pop("headers", None)
    data = {"model": "whisper-1", **fields}
    with path.open("rb") as file:
        return web.post(
            url, data=data, files={"file": (path.name, file)}, headers=headers
        )
