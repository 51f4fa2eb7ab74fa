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


def test_network_log_passes_each_kind_once(caplog: pytest.LogCaptureFixture) -> None:
    asyncio_logger = logging.getLogger("asyncio")
    other = logging.getLogger("uvicorn.error")

    async def log() -> None:
        with rate_limited_network_log():
            for number in range(3):
                asyncio_logger.warning("%d connections", number)
                fail(other, OSError(f"no way to {number}"))
                fail(asyncio_logger, ValueError("odd\nINFO a line of a stranger"))
                asyncio_logger.error(
                    "ASGI callable returned without completing handshake."
                )

    asyncio.run(log())
    assert caplog.messages == [
        "0 connections",
        "Exception in callback (OSError: no way to 0)",
        "Exception in callback (ValueError: odd INFO a line of a stranger)",
    ]
    assert not any(record.exc_info for record in caplog.records)
    asyncio_logger.warning("and %s", "on")
    assert caplog.messages[-1] == "and on", "afterwards they are as they were"


def test_rate_limit_next_period_begins_again() -> None:
    clock = [0.0]
    limit = RateLimit(2, lambda: clock[0])

    def passes() -> bool:
        record = logging.LogRecord(
            "x", logging.INFO, "", 0, "refused %s", ("it",), None
        )
        return limit.filter(record)

    for _ in range(2):
        assert [passes() for _ in range(5)] == [True, True, False, False, False]
        clock[0] += PERIOD_S


def test_rate_limit_tells_how_many_were_left_out() -> None:
    clock = [0.0]
    limit = RateLimit(1, lambda: clock[0])

    def told() -> str:
        record = logging.LogRecord("x", logging.INFO, "", 0, "refused", (), None)
        return record.getMessage() if limit.filter(record) else ""

    assert [told() for _ in range(3)] == ["refused", "", ""]
    clock[0] += PERIOD_S
    assert [told(), told()] == ["refused left_out=2", ""]
