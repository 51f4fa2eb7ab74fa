"""Logs of the server: a line per request, and limits on lines that strangers cause."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.errors import DeviceError, WhisperHailoError
from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.errors import kind_of, outcome_of

if TYPE_CHECKING:
    from whisper_hailo.serve.jobs import Job, Outcome
    from whisper_hailo.serve.request import Caller, StreamItemResult

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


_MOST_REFUSALS: Final = 60  # lines a minute of requests that were refused

_LONGEST_VALUE: Final = 240


refusals = logging.getLogger(__name__ + ".refusals")
refusals.addFilter(RateLimit(_MOST_REFUSALS, keep_traceback=True))

_FIELDS: Final = "fields"


class RequestLog:
    """Logs requests that are over."""

    def __init__(self, model: str, *, log_text: bool) -> None:
        self._model = model
        self._log_text = log_text

    def done(self, job: Job, outcome: Outcome | None, now_s: float) -> None:
        """Log a job that is over; `outcome` is `None` where it failed."""
        fields: dict[str, Any] = {"took_s": round(now_s - job.asked_s, 3)}
        if isinstance(outcome, Transcript):
            fields |= {
                "audio_s": round(outcome.duration_s, 3),
                "language": outcome.language,
                "segments": len(outcome.segments),
                "text": outcome.text,
            }
        # Partials come several times a second.
        level = logging.DEBUG if job.is_partial else logging.INFO
        self._log(level, job.caller, job.failure, fields)

    def heard(self, item: StreamItemResult) -> None:
        """Log an item of a live stream that is over."""
        fields = {"audio_s": round(item.seconds, 3), "language": item.language, "text": item.text}
        self._log(logging.INFO, item.caller, item.failure, fields)

    def _log(
        self, level: int, caller: Caller, failure: Exception | None, fields: dict[str, Any]
    ) -> None:
        head = {"api": caller.api, "client": caller.client, "outcome": outcome_of(failure)}
        fields = head | {"model": self._model} | fields
        if not self._log_text:
            fields.pop("text", None)
        fault = isinstance(failure, DeviceError) or not isinstance(
            failure, WhisperHailoError | None
        )
        level = logging.ERROR if fault else level
        logger.log(level, "%s", _line(fields), extra={_FIELDS: fields}, exc_info=fault and failure)


def log_refusal(api: str, client: str, error: BaseException, why: str, **fields: object) -> None:
    """Log a request that was refused before it was a job; so many lines a minute.

    `why` is the message that the client gets; faults of ours have a traceback.
    """
    named = {"api": api, "client": client, "outcome": kind_of(error), **fields, "why": why}
    # Short and in one line: strangers decide what is in it.
    content = {name: ascii(str(value))[1:-1][:_LONGEST_VALUE] for name, value in named.items()}
    is_fault = fields.get("status") == 500
    level = logging.ERROR if is_fault else logging.INFO
    extra = {_FIELDS: content}
    refusals.log(level, "%s", _line(content), extra=extra, exc_info=is_fault and error)


def _line(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


class JsonLines(logging.Formatter):
    """A log record as an object on a line."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        content: dict[str, Any] = {"time": when, "level": record.levelname.lower()}
        content |= getattr(record, _FIELDS, None) or {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            content["error"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)
