"""The bundled model, served once for all tests of the room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.micro_service import MicroService, RunningServer, run_server
from whisper_hailo import Transcriber


@pytest.fixture(scope="package")
def transcriber() -> Iterator[Transcriber]:
    """Return the transcriber that the texts of all APIs are compared with."""
    with Transcriber.from_model("micro", threads=1) as opened:
        yield opened


@pytest.fixture(scope="package")
def micro() -> Iterator[MicroService]:
    """Return a service whose model is ready."""
    with MicroService() as opened:
        yield opened


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[RunningServer]:
    """Return an HTTP server of the service at a port."""
    with run_server(micro) as opened:
        yield opened
