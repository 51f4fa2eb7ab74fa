"""Logs of the server: a line per request, and limits on lines that strangers cause."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from whisper_hailo.core.errors import DeviceError, WhisperHailoError
from whisper_hailo.serve.errors import outcome_of
from whisper_hailo.serve.request import Caller

logger = logging.getLogger(__name__)
_network = logging.getLogger(__name__ + ".network")

_IGNORED: Final = "ASGI callable returned without completing handshake."
"""uvicorn says this of every WebSocket that is refused."""

_NETWORK_LOGGERS: Final = (
    _network.name, "asyncio", "uvicorn.error", "whisper_hailo.http.connections",
)  # fmt: skip

PERIOD_S: Final = 60.0


class RateLimit(logging.Filter):
    """Lets so many messages of each kind pass in a minute.

    A kind is the text before anything is filled in, and the class of the error. Where errors are
    `one_line`, they have neither traceback nor line breaks: strangers choose their text.
    """

    def __init__(
        self,
        most: int = 1,
        now: Callable[[], float] = time.monotonic,
        *,
        one_line: bool = False,
    ) -> None:
        super().__init__()
        self._one_line = one_line
        self._most = most
        self._now = now
        self._begin_s = now()
        self._counts: Counter[tuple[str, type]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if self._now() - self._begin_s >= PERIOD_S:
            self._begin_s = self._now()
            self._counts.clear()
        kind = str(record.msg), type(record.exc_info[1] if record.exc_info else None)
        self._counts[kind] += 1
        if self._one_line and record.exc_info and (error := record.exc_info[1]) is not None:
            text = f"{record.getMessage()} ({type(error).__name__}: {error})"
            record.msg, record.args, record.exc_info = " ".join(text.split()), None, None
        return self._counts[kind] <= self._most and kind[0] != _IGNORED


@contextmanager
def rate_limited_network_log() -> Iterator[None]:
    """Limit what the event loop and its servers log of connections."""

    def log_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        _network.error(context["message"], exc_info=context.get("exception"))

    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(log_exception)
    limit = RateLimit(one_line=True)
    loggers = [logging.getLogger(name) for name in _NETWORK_LOGGERS]
    for limited in loggers:
        limited.addFilter(limit)
    try:
        yield
    finally:
        loop.set_exception_handler(handler)
        for limited in loggers:
            limited.removeFilter(limit)


refusals = logging.getLogger(__name__ + ".refusals")
refusals.addFilter(RateLimit(60))

_LONGEST_VALUE: Final = 240


def log_request(
    caller: Caller, error: Exception | None, *, level: int = logging.INFO, **fields: object
) -> None:
    """Log a request that is over; faults of ours and of the device have a traceback."""
    is_fault = isinstance(error, DeviceError) or not isinstance(error, WhisperHailoError | None)
    _log_fields(logger, level, _caller_fields(caller, error) | fields, is_fault and error)


def log_refusal(caller: Caller, error: Exception, **fields: object) -> None:
    """Log a request that was refused before it was a job; so many lines a minute."""
    is_fault = fields["status"] == 500
    # Short and in one line: strangers decide what is in it.
    fields = {
        name: ascii(str(value))[1:-1][:_LONGEST_VALUE]
        for name, value in (_caller_fields(caller, error) | fields).items()
    }
    _log_fields(refusals, logging.INFO, fields, is_fault and error)


def _caller_fields(caller: Caller, error: Exception | None) -> dict[str, object]:
    return {"api": caller.api, "client": caller.client, "outcome": outcome_of(error)}


def _log_fields(
    log: logging.Logger, level: int, fields: dict[str, object], fault: Exception | bool | None
) -> None:
    line = " ".join(f"{name}={value}" for name, value in fields.items())
    level = logging.ERROR if fault else level
    log.log(level, "%s", line, exc_info=fault)
