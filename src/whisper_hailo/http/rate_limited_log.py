"""Rate limits of log messages: a thousand connections that fail alike are one line."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

logger = logging.getLogger(__name__)

_IGNORED: Final = ("ASGI callable returned without completing handshake.",)
"""uvicorn says this of every WebSocket that is refused."""

_NETWORK_LOGGERS: Final = (
    __name__, "asyncio", "uvicorn.error", "whisper_hailo.http.connections",
    "whisper_hailo.http.listening",
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

    Args:
        most: messages of a kind per period.
        now: seconds of a clock.
        keep_traceback: of messages that have one.
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
    """Limit what the running event loop and its servers log of connections.

    Strangers decide how much that is.
    """
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
    logger.error(context["message"], exc_info=context.get("exception"))
