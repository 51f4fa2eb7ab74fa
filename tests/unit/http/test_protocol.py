"""What becomes of a connection on which something comes that is no request."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest


class Transport:
    """Notes what is written and whether it is closed."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


def refused(cycle: Any) -> bytes:
    """What is written when something is no request while another one is answered, or none is."""
    pytest.importorskip("uvicorn", reason="the web extra is not installed")
    from whisper_hailo.http.server import HttpProtocol

    protocol: Any = object.__new__(HttpProtocol)
    protocol.cycle, protocol.transport = cycle, Transport()
    protocol.send_400_response("Invalid HTTP request received.")
    assert protocol.transport.closed
    written: bytes = protocol.transport.written
    return written


def cycle(*, started: bool, complete: bool) -> Any:
    return SimpleNamespace(
        response_started=started,
        response_complete=complete,
        disconnected=False,
        message_event=asyncio.Event(),
    )


def test_what_is_no_request_is_refused_in_one_whole_answer() -> None:
    head, body = refused(None).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert (b"Content-Length: 0" in head, body) == (True, b"")


@pytest.mark.parametrize(
    ("started", "complete", "is_answered"),
    [(False, False, True), (True, False, False), (True, True, True)],
)
def test_an_answer_that_has_begun_is_cut_and_whoever_makes_it_knows(
    started: bool, complete: bool, is_answered: bool
) -> None:
    answering = cycle(started=started, complete=complete)
    assert bool(refused(answering)) is is_answered
    assert answering.disconnected
    assert answering.message_event.is_set(), "who waits for the rest of the request is woken"
