"""Pages that wait for slow machines, and one with the microphone of a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.live.web.serving import PATIENCE_S, serve
from whisper_hailo.live.sources.browser import BrowserSource


@pytest.fixture(autouse=True)
def _time_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds are none where a machine does much else; who tests them sets his own."""
    monkeypatch.setattr("whisper_hailo.live.web.connections.ASK_S", PATIENCE_S)


@pytest.fixture
def served() -> Iterator[tuple[Any, BrowserSource]]:
    browser = BrowserSource()
    with serve(browser=browser) as view:
        yield view, browser
