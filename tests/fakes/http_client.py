"""A client of the HTTP application in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.fakes.micro_service import SHORT, MicroService
from whisper_hailo.serve.app import make_app
from whisper_hailo.serve.options import SafetyOptions

TRANSCRIPTIONS = "/v1/audio/transcriptions"


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
