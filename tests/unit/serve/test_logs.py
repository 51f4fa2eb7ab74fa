"""Rate limits of log messages."""

from __future__ import annotations

import asyncio
import logging

import pytest

from whisper_hailo.serve.logs import (
    PERIOD_S,
    RateLimit,
    rate_limited_network_log,
)


def fail(logger: logging.Logger, error: Exception) -> None:
    """Log an error as a server logs that of a task."""
    try:
        raise error
    except type(error):
        logger.exception("Exception in %s", "callback")


def test_each_kind_passes_once_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    one, other = logging.getLogger("asyncio"), logging.getLogger("uvicorn.error")

    async def log() -> None:
        with rate_limited_network_log():
            for number in range(3):
                one.warning("%d connections\n  were cut", number)
                fail(other, OSError(f"no way to {number}"))
                fail(one, ValueError("odd"))
                one.error("ASGI callable returned without completing handshake.")

    asyncio.run(log())
    assert caplog.messages == [
        "0 connections were cut",
        "Exception in callback (OSError: no way to 0)",
        "Exception in callback (ValueError: odd)",
    ]
    assert not any(record.exc_info for record in caplog.records)
    one.warning("and %s", "on")
    assert caplog.messages[-1] == "and on", "afterwards they are as they were"


def test_next_period_says_how_many_were_dropped() -> None:
    clock = [0.0]
    limit = RateLimit(2, lambda: clock[0])

    def passes() -> str | None:
        record = logging.LogRecord("x", logging.INFO, "", 0, "refused %s", ("it",), None)
        return record.getMessage() if limit.filter(record) else None

    assert [passes() for _ in range(5)] == ["refused it", "refused it", None, None, None]
    clock[0] = PERIOD_S
    later = passes()
    assert later is not None
    assert later.startswith("refused it (3 more")
    assert passes() == "refused it"
