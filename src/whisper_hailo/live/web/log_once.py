"""Messages of which one says all: a thousand connections that fail alike are one line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_UNTRUE: Final = "ASGI callable returned without completing handshake."
"""uvicorn's word on every WebSocket that is refused."""


@contextmanager
def only_once(*loggers: logging.Logger) -> Iterator[None]:
    """Each kind of message of these passes once, as one line without a traceback."""
    once = _Once()
    for logger in loggers:
        logger.addFilter(once)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(once)


class _Once(logging.Filter):
    """Remembers kinds: the text before anything is filled in, and the class of the error."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, type[BaseException | None]]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is true, and the first of its kind."""
        error = record.exc_info[1] if record.exc_info else None
        kind = (str(record.msg), type(error))
        if kind in self._seen or record.msg == _UNTRUE:
            return False
        self._seen.add(kind)
        what = "" if error is None else f" ({type(error).__name__}: {error})"
        text = " ".join(f"{record.getMessage()}{what}".split())
        record.msg, record.args, record.exc_info = f"the page: {text} (told once)", (), None
        return True
