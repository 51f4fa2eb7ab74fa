"""How a server writes its log: lines that begin with the time, or JSON for those who collect it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

FIELDS: Final = "fields"
"""Attribute of a log record with the fields of a request."""


@contextmanager
def formatted_log(*, as_json: bool) -> Iterator[None]:
    """Write the log as a server does, as long as the block lasts."""
    handlers = logging.getLogger().handlers
    formatters = [handler.formatter for handler in handlers]
    for handler, formatter in zip(handlers, formatters, strict=True):
        inner = formatter or logging.Formatter()
        handler.setFormatter(JsonFormatter() if as_json else TimedFormatter(inner))
    try:
        yield
    finally:
        for handler, formatter in zip(handlers, formatters, strict=True):
            handler.setFormatter(formatter)


class TimedFormatter(logging.Formatter):
    """Puts the time before what another formatter makes of a record."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return f"{_utc_time(record)} {self._inner.format(record)}"


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object in ASCII, with the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _utc_time(record),
            "level": record.levelname.lower(),
        }
        fields = getattr(record, FIELDS, None)
        entry |= {"message": record.getMessage()} if fields is None else fields
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _utc_time(record: logging.LogRecord) -> str:
    """Return when a record was made, such as `2026-11-28T08:15:02.123Z`."""
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def quote_value(value: object) -> str:
    """Return the value of a `name=value`, in quotes where it would not end at a space."""
    text = str(value)
    if text and not any(char.isspace() or char in '"=' for char in text):
        return text
    return json.dumps(text, ensure_ascii=False)
