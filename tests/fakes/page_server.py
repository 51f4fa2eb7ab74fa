"""A caption page that is served, its events, and clients over real sockets."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from whisper_hailo.live.events import CaptionWord, Completed, Partial
from whisper_hailo.live.statistics import CaptionStatistics

PATIENCE_S = 300
"""For a machine that does much else; no wait is that long."""


def completed(index: int, text: str = "said") -> Completed:
    words = (CaptionWord(f" {text}{index}", 0.5),)
    return Completed(
        segment_id=index,
        start_s=index,
        end_s=index + 1.0,
        words=words,
        reason="silence",
        heard_s=index + 1.0,
        at_s=0.0,
    )


def partial(index: int, text: str) -> Partial:
    return Partial(
        segment_id=index,
        start_s=index,
        end_s=index + 0.5,
        committed=(),
        tentative=(CaptionWord(text),),
        heard_s=index + 0.5,
        at_s=0.0,
    )


def needs_web() -> None:
    for module in ("starlette", "uvicorn", "websockets"):
        pytest.importorskip(module, reason="the web extra is not installed")


@contextmanager
def serve(
    host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, **options: Any
) -> Iterator[Any]:
    needs_web()
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    with WebView(CaptionStatistics, PageAddress(host, 0, tls=tls), **options) as view:
        yield view


def dial(view: Any) -> socket.socket:
    place = urlsplit(view.address)
    return socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S)


def connect(view: Any, path: str, **options: Any) -> Any:
    from websockets.sync.client import connect as websocket

    address = view.address.replace("http", "ws") + path
    return websocket(address, open_timeout=PATIENCE_S, **options)


def told(page: Any, event: str) -> dict[str, Any]:
    """Return the next message of a kind."""
    messages: Iterator[dict[str, Any]] = map(json.loads, page)
    return next(message for message in messages if message["event"] == event)
