"""Time-outs for slow machines, and a page with the microphone of a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.fakes.page_server import PATIENCE_S, serve
from whisper_hailo.live.sources.network import BrowserSource

_FASTER = 20


class _Hasty:
    """`asyncio` with shorter sleeps, for code that polls."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / _FASTER)


@pytest.fixture(autouse=True)
def _time_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen a time-out that a busy machine exceeds; tests of it set their own."""
    monkeypatch.setattr("whisper_hailo.http.connections.IDLE_S", PATIENCE_S)


@pytest.fixture(autouse=True)
def _soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the polls that a server makes before it ends."""
    monkeypatch.setattr("whisper_hailo.serve.routes.captions.view.asyncio", _Hasty())
    monkeypatch.setattr(
        "whisper_hailo.serve.routes.captions.view.END_POLLS", 20 * _FASTER
    )
    if find_spec("uvicorn"):
        monkeypatch.setattr("uvicorn.server.asyncio", _Hasty())


@pytest.fixture
def served() -> Iterator[tuple[Any, BrowserSource]]:
    browser = BrowserSource()
    with serve(browser=browser) as view:
        yield view, browser
