"""Messages of a realtime session's client, and what it is told where one is none."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.serve.http.failures import body_of

MOST_BYTES: Final = 21 << 20
"""Of a message: 15 MiB of sound in base 64, as OpenAI's API takes it, and what is around it."""

_MOST_SETTINGS: Final = 64 << 10
_MOST_ID: Final = 128
_OVERHEAD_BYTES: Final = 256
"""Of a message that waits, however short it is."""

APPEND, COMMIT = "input_audio_buffer.append", "input_audio_buffer.commit"
CLEAR, UPDATE = "input_audio_buffer.clear", "session.update"


class SessionError(OptionError):
    """Something that a session does not take, and goes on after.

    Args:
        message: what was got, and what was expected.
        param: which part of a message, as the client calls it.
        code: of OpenAI's API.
    """

    def __init__(
        self, message: str, param: str | None = None, code: str | None = "invalid_value"
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


@dataclass(frozen=True, slots=True)
class Order:
    """What a client says.

    Attributes:
        kind: in its words.
        event_id: by which it knows this message.
        n_bytes: that it takes as long as it waits.
        sound: to be heard.
        changes: of the session.
        wrong: what is, where it is no message.
    """

    kind: str
    event_id: str | None = None
    n_bytes: int = 0
    sound: bytes = b""
    changes: Mapping[str, Any] | None = None
    wrong: WhisperHailoError | None = None


def order_of(text: str | None) -> Order:
    """What a message says; `None` is one that is no text."""
    size = len(text or "") + _OVERHEAD_BYTES
    content: object = None
    try:
        content = json.loads(text or "")
        if not isinstance(content, dict):
            raise SessionError("a message is no object, expected an event", None)
        return _order(content, size)
    except (ValueError, RecursionError):
        wrong = SessionError("a message is no JSON, expected an event as text", None)
    except SessionError as error:
        wrong = error
    return Order("", _id(content), size, wrong=wrong)


def _order(content: dict[str, Any], size: int) -> Order:
    kind = content.get("type")
    if kind == UPDATE:
        return Order(kind, _id(content), size, changes=_changes(content.get("session"), size))
    if kind == APPEND:
        sound = _sound(content.get("audio"))
        return Order(kind, _id(content), len(sound) + _OVERHEAD_BYTES, sound)
    if kind in (COMMIT, CLEAR):
        return Order(kind, _id(content), size)
    known = ", ".join((UPDATE, APPEND, COMMIT, CLEAR))
    raise SessionError(f"type is {str(kind)[:60]!r}, expected {known}", "type")


def _id(content: object) -> str | None:
    given = content.get("event_id") if isinstance(content, dict) else None
    return given[:_MOST_ID] if isinstance(given, str) else None


def _changes(session: object, size: int) -> dict[str, Any]:
    if not isinstance(session, dict):
        raise SessionError("session is no object, expected settings", "session")
    if size > _MOST_SETTINGS:
        raise SessionError(f"session has more than {_MOST_SETTINGS >> 10} KiB", "session")
    try:
        json.dumps(session, ensure_ascii=False).encode()  # half a character is no text
    except ValueError:
        raise SessionError("session has half a character in it", "session") from None
    return session


def _sound(audio: object) -> bytes:
    try:
        return base64.b64decode(audio, validate=True)  # type: ignore[arg-type]  # told here
    except (TypeError, ValueError):
        raise SessionError("audio is no text in base 64", "audio") from None


def refusal(error: WhisperHailoError, event_id: str | None) -> dict[str, Any]:
    """The event for an error that the session goes on after.

    Args:
        error: what is wrong.
        event_id: of the message that it came of.
    """
    kind = getattr(error, "kind", "invalid_value")
    own = error if isinstance(error, SessionError) else SessionError("", code=kind)
    body = body_of(error, own.param)["error"]
    code = body["code"] or own.code
    return {"type": "error", "error": {**body, "code": code, "event_id": event_id}}
