"""The bundled model behind an engine, once for all tests of the listen, and a server of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.serve.house import House
from tests.unit.serve.running import Running, running
from whisper_hailo import Transcriber


@pytest.fixture(scope="package")
def transcriber() -> Iterator[Transcriber]:
    """What the texts of all APIs are compared with."""
    with Transcriber.from_model("micro", threads=1) as opened:
        yield opened


@pytest.fixture(scope="package")
def house() -> Iterator[House]:
    """An engine that is ready."""
    with House() as opened:
        yield opened


@pytest.fixture(scope="module")
def web(house: House) -> Iterator[Running]:
    """A server of it on a port; tests that ask in this process have one of their own."""
    with running(house) as opened:
        yield opened
