"""A caption page that is served, captions that run, and clients that control them."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.fakes.scripted_speech import Loudness, Speller, quick
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import BufferText
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial
from whisper_hailo.live.sources.source import Block, Pace
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.stream import CaptionStream, Controls
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import find_violations

PATIENCE_S = 300
"""For a machine that does much else; no wait is that long."""
TOKEN = "sesame-open-now"  # noqa: S105 - of these tests
_SILENCE_S = 0.01
"""Between blocks while nothing is said, so that the processor is left to the pages."""


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


class Spoken(Closing):
    """A live source that yields the audio it is given, as long as it is open."""

    pace = Pace.PULL
    endless = True
    name = "spoken"

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []
        self._said = threading.Condition()
        self._closed = False

    def say(self, audio: np.ndarray) -> None:
        """Yield audio, and wait until it was taken."""
        with self._said:
            self._pieces.append(audio)
            self._said.notify_all()
            self._said.wait_for(lambda: not self._pieces, PATIENCE_S)

    def blocks(self) -> Iterator[Block]:
        while not self._closed:
            with self._said:
                self._said.wait_for(lambda: self._pieces or self._closed, _SILENCE_S)
                audio = self._pieces[0] if self._pieces else np.empty(0, np.float32)
            yield Block(audio)
            if audio.size:
                with self._said:
                    self._pieces.pop(0)
                    self._said.notify_all()

    def close(self) -> None:
        with self._said:
            self._closed = True
            self._said.notify_all()


class InAnyLanguage(Speller):
    """A recogniser of every language but Klingon."""

    def with_language(self, language: str) -> Speller:
        if language == "tlh":
            raise OptionError("there is no such language")
        return InAnyLanguage(language=language)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        return super().transcribe(buffer, language or self.language)


@dataclass
class RunningCaptions:
    """Captions that run in a thread."""

    source: Spoken
    view: Any
    events: list[Event]


@contextmanager
def run_captions(
    token: str | None = TOKEN, host: str = "127.0.0.1", **options: Any
) -> Iterator[RunningCaptions]:
    needs_web()
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    source = Spoken()
    controls = Controls()
    captioner = Captioner(InAnyLanguage(), Loudness(), quick())
    stream = CaptionStream(source, captioner, controls=controls)
    place = PageAddress(host, 0, token=token)
    events = []
    with WebView(
        lambda: captioner.statistics,
        place,
        controls=controls,
        settings=captioner.settings,
        **options,
    ) as view:

        def caption() -> None:
            for event in stream.events():
                events.append(event)
                view.put(event)

        thread = threading.Thread(target=caption)
        thread.start()
        try:
            yield RunningCaptions(source, view, events)
        finally:
            source.close()
            thread.join(PATIENCE_S)
    assert list(find_violations(events)) == []


def heard(socket: Any) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
    return message


def until(socket: Any, event: str) -> dict[str, Any]:
    """Return the next message of a kind; keep those before it for later calls."""
    kept = vars(socket).setdefault("kept", [])
    while not any(message["event"] == event for message in kept):
        kept.append(heard(socket))
    index = next(at for at, message in enumerate(kept) if message["event"] == event)
    message: dict[str, Any] = kept.pop(index)
    return message


def ask(socket: Any, action: str, **fields: Any) -> dict[str, Any]:
    socket.send(json.dumps({"type": "control", "id": 7, "action": action, **fields}))
    told = until(socket, "answer")
    assert (told["id"], told["action"]) == (7, action)
    return told
