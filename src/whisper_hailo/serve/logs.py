"""What the server logs: a line for each request, without what was said unless asked to."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.errors import DeviceError, WhisperHailoError
from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.errors import outcome_of

if TYPE_CHECKING:
    from whisper_hailo.serve.job import Job

logger = logging.getLogger(__name__)

_FIELDS: Final = "fields"


class RequestLog:
    """Logs requests that are over.

    Args:
        log_text: with their texts.
    """

    def __init__(self, *, log_text: bool) -> None:
        self._log_text = log_text

    def done(self, job: Job, transcript: Transcript | None, now_s: float) -> None:
        """A job is over."""
        caller, failure = job.caller, job.failure
        fields: dict[str, Any] = {
            "door": caller.door,
            "client": caller.client,
            "outcome": outcome_of(failure),
            "took_s": round(now_s - job.asked_s, 3),
        }
        if transcript is not None:
            fields |= {
                "audio_s": round(transcript.duration_s, 3),
                "language": transcript.language,
                "segments": len(transcript.segments),
            }
            if self._log_text:
                fields["text"] = transcript.text
        fault = isinstance(failure, DeviceError) or not isinstance(
            failure, WhisperHailoError | None
        )
        usual = logging.DEBUG if caller.priority < 0 else logging.INFO  # several times a second
        level = logging.ERROR if fault else usual
        logger.log(level, "%s", _Line(fields), extra={_FIELDS: fields}, exc_info=fault and failure)


class _Line:
    """Fields as a line, made only if it is shown."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._fields.items())


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
