"""Messages of a realtime client as they are parsed, and the events of their errors."""

from __future__ import annotations

import base64
import json

import pytest

from whisper_hailo.serve.errors import BusyError
from whisper_hailo.serve.routes.realtime.protocol import (
    ClientMessage,
    MessageKind,
    SessionError,
    empty_commit_error,
    error_event,
    parse_message,
)


def error_of(message: ClientMessage) -> SessionError:
    assert message.kind is MessageKind.INVALID
    assert isinstance(message.error, SessionError)
    return message.error


def test_parse_message_sound_is_decoded() -> None:
    text = json.dumps(
        {
            "type": "input_audio_buffer.append",
            "audio": base64.b64encode(b"\0\1\2\3").decode(),
            "event_id": "a",
        }
    )
    message = parse_message(text)
    assert message.kind is MessageKind.APPEND
    assert message.event_id == "a"
    assert message.sound == b"\0\1\2\3"
    assert message.n_bytes > 4


@pytest.mark.parametrize("kind", [MessageKind.COMMIT, MessageKind.CLEAR])
def test_parse_message_without_fields_has_its_kind(kind: MessageKind) -> None:
    message = parse_message(json.dumps({"type": kind.value}))
    assert message.kind is kind
    assert message.n_bytes > 0


def test_parse_message_update_has_the_changes() -> None:
    message = parse_message('{"type": "session.update", "session": {"a": 1}}')
    assert message.kind is MessageKind.UPDATE
    assert message.changes == {"a": 1}


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ('{"type": "input_audio_buffer.append"}', "audio"),
        ('{"type": "session.update"}', "session"),
        ('{"type": "finish"}', "type"),
        ('{"type": "input_audio_buffer.append", "audio": "é"}', "audio"),
        ("{}", "type"),
    ],
)
def test_parse_message_with_bad_field_names_it(text: str, param: str) -> None:
    assert error_of(parse_message(text)).param == param


@pytest.mark.parametrize("text", [None, "", "{"])
def test_parse_message_without_json_is_invalid(text: str | None) -> None:
    assert error_of(parse_message(text)).param is None


def test_parse_message_invalid_keeps_its_event_id() -> None:
    message = parse_message('{"type": "nothing", "event_id": "a"}')
    assert error_of(message).param == "type"
    assert message.event_id == "a"


def test_parse_message_large_settings_are_refused() -> None:
    settings = {"type": "session.update", "session": {"prompt": "x" * (64 << 10)}}
    assert error_of(parse_message(json.dumps(settings))).param == "session"
    settings["session"] = {"prompt": "x," * (32 << 10)}
    assert error_of(parse_message(json.dumps(settings))).param == "audio"


def test_error_event_has_code_and_event_id() -> None:
    event = error_event(SessionError("bad", "speed", "unknown_field"), "a")
    assert event["type"] == "error"
    error = event["error"]
    assert error["param"] == "speed"
    assert error["code"] == "unknown_field"
    assert error["event_id"] == "a"
    assert error_event(BusyError("full"), None)["error"]["code"] == "busy"


def test_empty_commit_error_names_the_length() -> None:
    error = empty_commit_error(0.05)
    assert error.code == "input_audio_buffer_commit_empty"
    assert "50 ms" in str(error)
