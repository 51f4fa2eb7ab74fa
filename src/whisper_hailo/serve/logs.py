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
from whisper_hailo.serve.log_format import FIELDS, quote_value
from whisper_hailo.serve.request import Caller

logger = logging.getLogger(__name__)
_network = logging.getLogger(__name__ + ".network")

_IGNORED: Final = "ASGI callable returned without completing handshake."
"""uvicorn logs this of every WebSocket that is refused."""

_NETWORK_LOGGERS: Final = (
    _network.name, "asyncio", "uvicorn.error", "whisper_hailo.http.connections",
)  # fmt: skip

PERIOD_S: Final = 60.0


class RateLimit(logging.Filter):
    """Lets a number of messages of each kind pass in a minute.

    A kind is the text of a message before its arguments are filled in, and the class of its error.
    The first message of a later minute says how many were left out.

    Args:
        max_messages: how many of a kind pass.
        one_line: leave out tracebacks and line breaks, since strangers choose the text of errors.
    """

    def __init__(
        self,
        max_messages: int = 1,
        now: Callable[[], float] = time.monotonic,
        *,
        one_line: bool = False,
    ) -> None:
        super().__init__()
        self._one_line = one_line
        self._max_messages = max_messages
        self._now = now
        self._begin_s = now()
        self._counts: Counter[tuple[str, type]] = Counter()
        self._n_left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message passes."""
        text = str(record.msg)
        if self._now() - self._begin_s >= PERIOD_S:
            self._begin_s = self._now()
            self._counts.clear()
            self._report_left_out(record)
        error = record.exc_info[1] if record.exc_info else None
        kind = (text, type(error))
        self._counts[kind] += 1
        if self._one_line and error is not None:
            message = f"{record.getMessage()} ({type(error).__name__}: {error})"
            record.msg = " ".join(message.split())
            record.args = None
            record.exc_info = None
        if text == _IGNORED:
            return False
        passes = self._counts[kind] <= self._max_messages
        self._n_left_out += not passes
        return passes

    def _report_left_out(self, record: logging.LogRecord) -> None:
        """Add the number of messages that did not pass to one that does."""
        if self._n_left_out and record.msg != _IGNORED:
            record.msg = f"{record.getMessage()} left_out={self._n_left_out}"
            record.args = None
            self._n_left_out = 0


@contextmanager
def rate_limited_network_log() -> Iterator[None]:
    """Limit what the event loop and its servers log of connections."""

    def log_exception(
        _loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        _network.error(context["message"], exc_info=context.get("exception"))

    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(log_exception)
    limit = RateLimit(one_line=True)
    loggers = [logging.getLogger(name) for name in _NETWORK_LOGGERS]
    for network_logger in loggers:
        network_logger.addFilter(limit)
    try:
        yield
    finally:
        loop.set_exception_handler(handler)
        for network_logger in loggers:
            network_logger.removeFilter(limit)


_REFUSALS_PER_MINUTE: Final = 60
refusals = logging.getLogger(__name__ + ".refusals")
refusals.addFilter(RateLimit(_REFUSALS_PER_MINUTE))

_MAX_VALUE_CHARACTERS: Final = 240


def log_request(
    caller: Caller,
    error: Exception | None,
    *,
    level: int = logging.INFO,
    **fields: object,
) -> None:
    """Log a request that is over; faults of our own and of the device have a traceback."""
    is_expected = error is None or isinstance(error, WhisperHailoError)
    is_fault = isinstance(error, DeviceError) or not is_expected
    fields = _caller_fields(caller, error) | fields
    _log_fields(logger, level, fields, error if is_fault else None)


def log_refusal(caller: Caller, error: Exception, **fields: object) -> None:
    """Log a request that was refused before it was a job; a number of lines a minute."""
    is_fault = fields["status"] == 500
    fields = _caller_fields(caller, error) | fields
    safe_fields: dict[str, object] = {
        name: _escape_value(value) for name, value in fields.items()
    }
    _log_fields(refusals, logging.INFO, safe_fields, error if is_fault else None)


def _escape_value(value: object) -> str:
    """Return a value in one short line of ASCII: strangers decide what is in it."""
    quoted = ascii(str(value))
    return quoted[1:-1][:_MAX_VALUE_CHARACTERS]


def _caller_fields(caller: Caller, error: Exception | None) -> dict[str, object]:
    return {"api": caller.api, "client": caller.client, "outcome": outcome_of(error)}


def _log_fields(
    log: logging.Logger, level: int, fields: dict[str, object], fault: Exception | None
) -> None:
    """Log fields in one line; a fault is an error with its traceback."""
    line = " ".join(f"{name}={quote_value(value)}" for name, value in fields.items())
    if fault is not None:
        level = logging.ERROR
    log.log(level, "%s", line, exc_info=fault, extra={FIELDS: fields})
