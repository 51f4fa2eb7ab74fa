"""Items of a realtime session: captions while they go on, and the whole text at their end."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.request import Caller
from whisper_hailo.serve.routes.realtime import items
from whisper_hailo.serve.routes.realtime.items import ItemTranscriber
from whisper_hailo.serve.routes.realtime.protocol import parse_message
from whisper_hailo.serve.routes.realtime.settings import RealtimeSettings

SECOND = 48_000
"""Bytes of a second at 24 kHz."""


class Recognizer:
    """Hears "Anna" as "Ann" until it has heard all of it."""

    name = "toy"
    content_s = 30.0
    language = "en"

    def __init__(self, whole: str) -> None:
        self._whole = whole
        self.heard_s: list[float] = []
        self.model = SimpleNamespace(record_item=lambda *_: None)

    def with_language(self, language: str) -> Any:
        del language
        return self

    def transcribe(self, buffer: Any, language: str | None = None) -> BufferText:
        del buffer, language
        return BufferText((BufferWord(" Ann", probability=1.0),), "en")

    def transcribe_item(self, audio: Any, choices: Any) -> Any:
        del choices
        self.heard_s.append(audio.size / 16_000)
        return SimpleNamespace(text=self._whole, segments=(), languages=("en",))


def say(
    seconds: float, recognizer: Recognizer, quota: Quota | None = None
) -> list[Any]:
    """Send sound and a commit; return the events."""
    service: Any = SimpleNamespace(
        quota=quota or Quota(),
        limits=LimitOptions(),
        make_recognizer=lambda *_: recognizer,
    )
    transcriber = ItemTranscriber(
        service,
        Caller("me", "test"),
        RealtimeSettings.for_model("gpt-realtime-whisper"),
    )
    rng = np.random.default_rng(0)
    sound = rng.integers(-99, 99, round(seconds * SECOND) // 2, np.int16).tobytes()
    events = []
    for begin in range(0, len(sound), SECOND):
        piece = base64.b64encode(sound[begin : begin + SECOND]).decode()
        message = {"type": "input_audio_buffer.append", "audio": piece}
        events += transcriber.process_message(parse_message(json.dumps(message)))
    commit = json.dumps({"type": "input_audio_buffer.commit"})
    events += transcriber.process_message(parse_message(commit))
    transcriber.close()
    return events


def deltas(events: list[Any]) -> str:
    return "".join(event.get("delta", "") for event in events)


@pytest.mark.parametrize(
    ("whole", "expected"), [("Ann came.", "Ann came."), ("Anna came.", "Anna came.")]
)
def test_short_item_gets_the_text_of_an_upload(whole: str, expected: str) -> None:
    recognizer = Recognizer(whole)
    quota = Quota()
    events = say(3.0, recognizer, quota)
    assert events[-1]["transcript"] == expected
    assert events[-1]["usage"]["seconds"] == pytest.approx(3.0, abs=0.01)
    assert recognizer.heard_s == [pytest.approx(3.0, abs=0.01)]
    assert quota.n_bytes == 0


def test_deltas_are_the_text_where_it_continues_them() -> None:
    assert deltas(say(6.0, Recognizer("Ann came."))) == "Ann came."


def test_long_item_keeps_the_text_of_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_MAX_WHOLE_S", 2.0)
    recognizer = Recognizer("Anna came.")
    events = say(3.0, recognizer)
    assert events[-1]["transcript"] == deltas(events) == "Ann"
    assert recognizer.heard_s == []


def test_item_without_room_keeps_the_text_of_captions() -> None:
    recognizer = Recognizer("Anna came.")
    quota = Quota(LimitOptions(max_stored_mib=1))
    quota.n_bytes = (1 << 20) - 1
    events = say(3.0, recognizer, quota)
    assert events[-1]["transcript"] == "Ann"
    assert quota.n_bytes == (1 << 20) - 1
