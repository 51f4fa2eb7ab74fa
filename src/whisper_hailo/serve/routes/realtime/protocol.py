"""Messages of a realtime client, and the error events that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.serve.access import error_body

MAX_MESSAGE_BYTES: Final = 21 << 20
"""15 MiB of sound in base64, as OpenAI's API takes it, and what is around it."""

MIN_COMMIT_S: Final = 0.1
"""Less sound is no recording; the limit is OpenAI's."""

_MAX_SETTINGS_CHARACTERS: Final = 64 << 10
_MAX_LARGE_COMMAS: Final = 64
_OVERHEAD_BYTES: Final = 256  # of a message that waits, however short it is

ServerEvent: TypeAlias = dict[str, Any]
"""An event of the API, but for its id."""


class MessageKind(StrEnum):
    """What a message asks for: types of the API, and two of our own."""

    APPEND = "input_audio_buffer.append"
    COMMIT = "input_audio_buffer.commit"
    CLEAR = "input_audio_buffer.clear"
    UPDATE = "session.update"
    INVALID = "invalid"  # it has an error
    FINISH = "finish"  # the server ends: finish what is being said


class SessionError(OptionError):
    """An error of a message, after which the session goes on.

    Attributes:
        param: the faulty field, in the client's words.
        code: as in OpenAI's errors.
    """

    def __init__(
        self, message: str, param: str | None = None, code: str | None = "invalid_value"
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code

    @classmethod
    def from_validation(cls, error: ValidationError, *path: str) -> Self:
        """Return the first fault that was found in a value, which is at a path of a message."""
        first = error.errors(include_input=False, include_url=False)[0]
        param = ".".join([*path, *map(str, first["loc"])]) or None
        return cls(f"{param or 'message'}: {first['msg']}", param)


def empty_commit_error(seconds: float) -> SessionError:
    """Return the error of a commit after too little sound."""
    return SessionError(
        f"the buffer holds {seconds * 1000:.0f} ms of sound, expected {MIN_COMMIT_S * 1000:g} ms "
        "or more; append more before you commit",
        code="input_audio_buffer_commit_empty",
    )


@dataclass(slots=True)
class ClientMessage:
    """A message of a client.

    Attributes:
        n_bytes: memory that it takes as long as it waits.
        sound: samples, of `APPEND`.
        changes: settings, of `UPDATE`.
        error: why it is `INVALID`.
    """

    kind: MessageKind
    event_id: str | None = None
    n_bytes: int = 0
    sound: bytearray = field(default_factory=bytearray)
    changes: Mapping[str, Any] = field(default_factory=dict)
    error: WhisperHailoError | None = None


class _EventId(BaseModel):
    event_id: str | None = Field(None, max_length=128)


class _ClientEvent(_EventId):
    model_config = ConfigDict(val_json_bytes="base64")

    type: Literal[
        "session.update",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "input_audio_buffer.clear",
    ]
    audio: bytes | None = None
    session: dict[str, Any] | None = None


def parse_message(text: str | None) -> ClientMessage:
    """Parse a message; `None` is a message that is not text."""
    text = text or ""
    # All but sound is short. A million values take Python seconds, in which nobody is answered;
    # base64 has no comma.
    if len(text) > _MAX_SETTINGS_CHARACTERS and text.count(",") > _MAX_LARGE_COMMAS:
        error = SessionError("a large message may hold only audio", "audio")
        return ClientMessage(MessageKind.INVALID, n_bytes=_OVERHEAD_BYTES, error=error)
    try:
        event = _ClientEvent.model_validate_json(text)
        kind = MessageKind(event.type)
        _check_fields(kind, event, len(text))
    except ValidationError as error:
        return _make_invalid(text, SessionError.from_validation(error))
    except SessionError as error:
        return _make_invalid(text, error)
    sound = bytearray(event.audio or b"")
    n_bytes = len(sound) if kind is MessageKind.APPEND else len(text)
    return ClientMessage(
        kind,
        event.event_id,
        n_bytes + _OVERHEAD_BYTES,
        sound=sound,
        changes=event.session or {},
    )


def _check_fields(kind: MessageKind, event: _ClientEvent, n_characters: int) -> None:
    """Refuse a message without the field that its type needs, and settings without end."""
    if kind is MessageKind.APPEND and event.audio is None:
        raise SessionError(f"audio is missing; {kind} requires it", "audio")
    if kind is MessageKind.UPDATE:
        if event.session is None:
            raise SessionError(f"session is missing; {kind} requires it", "session")
        if n_characters > _MAX_SETTINGS_CHARACTERS:
            raise SessionError(
                f"session is larger than {_MAX_SETTINGS_CHARACTERS >> 10} KiB",
                "session",
            )


def _make_invalid(text: str, error: SessionError) -> ClientMessage:
    """Return a message with an error, and with its id if that can be read."""
    try:
        event_id = _EventId.model_validate_json(text).event_id
    except ValidationError:
        event_id = None
    return ClientMessage(MessageKind.INVALID, event_id, _OVERHEAD_BYTES, error=error)


def error_event(error: WhisperHailoError, event_id: str | None) -> ServerEvent:
    """Return the event of an error after which the session goes on."""
    if isinstance(error, SessionError):
        body = error_body(error, error.param)["error"]
        code = error.code
    else:
        body = error_body(error)["error"]
        code = body["code"] or getattr(error, "kind", "invalid_value")
    return {"type": "error", "error": {**body, "code": code, "event_id": event_id}}
