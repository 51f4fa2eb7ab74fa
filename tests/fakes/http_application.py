"""The HTTP application, behind a real socket and with a client in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.fakes.micro_service import SHORT, MicroService
from whisper_hailo.http.addresses import Listener
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.http.server import HttpServer
from whisper_hailo.serve.app import make_app
from whisper_hailo.serve.options import SafetyOptions
from whisper_hailo.serve.routes.realtime.protocol import MAX_MESSAGE_BYTES

TRANSCRIPTIONS = "/v1/audio/transcriptions"


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
