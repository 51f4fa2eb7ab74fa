"""What the server logs: a line for each request, without what was said unless asked to."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.errors import DeviceError, WhisperHailoError
from whisper_hailo.core.types import Transcript
from whisper_hailo.http.rate_limited_log import RateLimit
from whisper_hailo.serve.errors import kind_of, outcome_of

if TYPE_CHECKING:
    from whisper_hailo.serve.job import Job
    from whisper_hailo.serve.request import Caller, StreamItemResult

_MOST_REFUSALS: Final = 60
"""Lines a minute of requests that were refused."""

_LONGEST_VALUE: Final = 240

logger = logging.getLogger(__name__)

refusals = logging.getLogger(__name__ + ".refusals")
refusals.addFilter(RateLimit(_MOST_REFUSALS, keep_traceback=True))

_FIELDS: Final = "fields"


class RequestLog:
    """Logs requests that are over.

    Args:
        model: name of the model.
        log_text: with their texts.
    """

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

    Args:
        api: by which it came.
        client: who asked.
        error: why it was refused; with a traceback if it is a fault of ours.
        why: the message that the client gets.
        fields: further fields of the line.
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
        """The line of a record."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        content: dict[str, Any] = {"time": when, "level": record.levelname.lower()}
        content |= getattr(record, _FIELDS, None) or {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            content["error"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)
