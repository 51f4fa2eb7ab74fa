"""Messages of which one says all."""

from __future__ import annotations

import logging

import pytest

from whisper_hailo.live.web.log_once import only_once


def complain(logger: logging.Logger, error: Exception) -> None:
    """As a server does of a task that failed."""
    try:
        raise error
    except type(error):
        logger.exception("Exception in %s", "callback")


def test_each_kind_is_told_once_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    one, other = logging.getLogger("of one"), logging.getLogger("of another")
    with only_once(one, other):
        for number in range(3):
            one.warning("%d connections\n  were cut", number)
            complain(other, OSError(f"no way to {number}"))
            complain(one, ValueError("odd"))
            one.error("ASGI callable returned without completing handshake.")
    assert caplog.messages == [
        "the page: 0 connections were cut (told once)",
        "the page: Exception in callback (OSError: no way to 0) (told once)",
        "the page: Exception in callback (ValueError: odd) (told once)",
    ]
    assert not any(record.exc_info for record in caplog.records)
    one.warning("and %s", "on")
    assert caplog.messages[-1] == "and on", "afterwards they are as they were"
