"""Logs of the server: a line per request, and limits on lines that strangers cause."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
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
    """Lets so many messages of each kind pass per period, each as one line without a traceback.

    A kind is the text before anything is filled in, and the class of the error.
    """

    def __init__(
        self,
        most: int = 1,
        now: Callable[[], float] = time.monotonic,
        *,
        keep_traceback: bool = False,
    ) -> None:
        super().__init__()
        self._most = most
        self._keep_traceback = keep_traceback
        self._now = now
        # When the period of a kind began, and its messages since.
        self._counts: dict[tuple[str, type[BaseException | None]], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message passes; the first after some that did not says how many."""
        if record.msg == _IGNORED:
            return False
        error = record.exc_info[1] if record.exc_info else None
        kind, now_s = (str(record.msg), type(error)), self._now()
        begin_s, n_messages = self._counts.get(kind, (now_s, 0))
        text = record.getMessage()
        if error is not None and not self._keep_traceback:
            text += f" ({type(error).__name__}: {error})"
            record.exc_info = None
        if now_s - begin_s >= PERIOD_S:
            if n_messages > self._most:
                text += f" ({n_messages - self._most} more of the kind were not logged)"
            begin_s, n_messages = now_s, 0
        self._counts[kind] = begin_s, n_messages + 1
        record.msg, record.args = "%s", (" ".join(text.split()),)
        return n_messages < self._most


@contextmanager
def rate_limited_network_log() -> Iterator[None]:
    """Limit what the event loop and its servers log of connections."""

    def log_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        _network.error(context["message"], exc_info=context.get("exception"))

    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(log_exception)
    limit, loggers = RateLimit(), [logging.getLogger(name) for name in _NETWORK_LOGGERS]
    for limited in loggers:
        limited.addFilter(limit)
    try:
        yield
    finally:
        loop.set_exception_handler(handler)
        for limited in loggers:
            limited.removeFilter(limit)


refusals = logging.getLogger(__name__ + ".refusals")
refusals.addFilter(RateLimit(60, keep_traceback=True))

_LONGEST_VALUE: Final = 240
_FIELDS: Final = "fields"


def log_request(
    caller: Caller, error: Exception | None, *, level: int = logging.INFO, **fields: object
) -> None:
    """Log a request that is over; faults of ours and of the device have a traceback."""
    is_fault = isinstance(error, DeviceError) or not isinstance(error, WhisperHailoError | None)
    _log(logger, level, _head(caller, error) | fields, is_fault and error)


def log_refusal(caller: Caller, error: Exception, **fields: object) -> None:
    """Log a request that was refused before it was a job; so many lines a minute."""
    is_fault = fields["status"] == 500
    # Short and in one line: strangers decide what is in it.
    fields = {
        name: ascii(str(value))[1:-1][:_LONGEST_VALUE]
        for name, value in (_head(caller, error) | fields).items()
    }
    _log(refusals, logging.INFO, fields, is_fault and error)


def _head(caller: Caller, error: Exception | None) -> dict[str, object]:
    return {"api": caller.api, "client": caller.client, "outcome": outcome_of(error)}


def _log(
    log: logging.Logger, level: int, fields: dict[str, object], fault: Exception | bool | None
) -> None:
    line = " ".join(f"{name}={value}" for name, value in fields.items())
    level = logging.ERROR if fault else level
    log.log(level, "%s", line, extra={_FIELDS: fields}, exc_info=fault)


class JsonLines(logging.Formatter):
    """A log record as an object on a line."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        content: dict[str, Any] = {"time": when, "level": record.levelname.lower()}
        content |= getattr(record, _FIELDS, None) or {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            content["error"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)
