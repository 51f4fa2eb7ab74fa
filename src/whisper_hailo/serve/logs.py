"""What the server logs: a line per request, and so many lines of each kind."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.errors import DeviceError, WhisperHailoError
from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.errors import kind_of, outcome_of

if TYPE_CHECKING:
    from whisper_hailo.serve.jobs import Job
    from whisper_hailo.serve.request import Caller, StreamItemResult

logger = logging.getLogger(__name__)
_network = logging.getLogger(__name__ + ".network")

_IGNORED: Final = ("ASGI callable returned without completing handshake.",)
"""uvicorn says this of every WebSocket that is refused."""

_NETWORK_LOGGERS: Final = (
    _network.name, "asyncio", "uvicorn.error", "whisper_hailo.http.connections",
)  # fmt: skip

PERIOD_S: Final = 60.0


@dataclass(slots=True)
class _Count:
    """Messages of one kind within a period that began at `since_s`."""

    since_s: float
    n_messages: int = 0


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
        self._counts: dict[tuple[str, type[BaseException | None]], _Count] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message passes; the first after some that did not says how many."""
        if record.msg in _IGNORED:
            return False
        error = record.exc_info[1] if record.exc_info else None
        kind, now_s = (str(record.msg), type(error)), self._now()
        count = self._counts.setdefault(kind, _Count(now_s))
        n_dropped = 0
        if now_s - count.since_s >= PERIOD_S:
            n_dropped = max(0, count.n_messages - self._most)
            count = self._counts[kind] = _Count(now_s)
        count.n_messages += 1
        if count.n_messages > self._most:
            return False
        what = (
            "" if error is None or self._keep_traceback else f" ({type(error).__name__}: {error})"
        )
        more = f" ({n_dropped} more of the kind were not logged)" if n_dropped else ""
        text = " ".join(f"{record.getMessage()}{what}{more}".split())
        record.msg, record.args = "%s", (text,)
        if not self._keep_traceback:
            record.exc_info = None
        return True


@contextmanager
def rate_limited_network_log() -> Iterator[None]:
    """Limit what the event loop and its servers log of connections: strangers decide how much."""
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(_log_exception)
    limit, loggers = RateLimit(), [logging.getLogger(name) for name in _NETWORK_LOGGERS]
    for limited in loggers:
        limited.addFilter(limit)
    try:
        yield
    finally:
        loop.set_exception_handler(handler)
        for limited in loggers:
            limited.removeFilter(limit)


def _log_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what no task takes care of."""
    _network.error(context["message"], exc_info=context.get("exception"))


_MOST_REFUSALS: Final = 60
"""Lines a minute of requests that were refused."""

_LONGEST_VALUE: Final = 240


refusals = logging.getLogger(__name__ + ".refusals")
refusals.addFilter(RateLimit(_MOST_REFUSALS, keep_traceback=True))

_FIELDS: Final = "fields"


class RequestLog:
    """Logs requests that are over."""

    def __init__(self, model: str, *, log_text: bool) -> None:
        self._model = model
        self._log_text = log_text

    def done(self, job: Job, transcript: Transcript | None, now_s: float) -> None:
        """A job is over; `transcript` is `None` where it failed, and of looks of live streams."""
        fields: dict[str, Any] = {"took_s": round(now_s - job.asked_s, 3)}
        if transcript is not None:
            fields |= {
                "audio_s": round(transcript.duration_s, 3),
                "language": transcript.language,
                "segments": len(transcript.segments),
            }
        text = None if transcript is None else transcript.text
        # Looks come several times a second.
        level = logging.DEBUG if job.is_partial else logging.INFO
        self._tell(level, job.caller, job.failure, fields, text)

    def heard(self, item: StreamItemResult) -> None:
        """An item of a live stream is over."""
        fields = {"audio_s": round(item.seconds, 3), "language": item.language}
        self._tell(logging.INFO, item.caller, item.failure, fields, item.text)

    def _tell(
        self,
        level: int,
        caller: Caller,
        failure: Exception | None,
        fields: dict[str, Any],
        text: str | None,
    ) -> None:
        head = {"api": caller.api, "client": caller.client, "outcome": outcome_of(failure)}
        fields = head | {"model": self._model} | fields
        if self._log_text and text is not None:
            fields["text"] = text
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
    level = logging.ERROR if fields.get("status") == 500 else logging.INFO
    content = {name: _printable(value) for name, value in named.items()}
    extra = {_FIELDS: content}
    refusals.log(
        level, "%s", _line(content), extra=extra, exc_info=level == logging.ERROR and error
    )


def _printable(value: object) -> str:
    """Return a value as one short line: strangers decide what is in it."""
    return ascii(str(value))[1:-1][:_LONGEST_VALUE]


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
