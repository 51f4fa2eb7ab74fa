"""What a Wyoming client asks of its next recording: the event `transcribe`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wyoming.asr import Transcribe
from wyoming.event import Event

from whisper_hailo.serve.request import Choices, join_hotwords, join_languages
from whisper_hailo.serve.routes.wyoming.end_of_speech import SILENCE_S
from whisper_hailo.serve.routes.wyoming.event_reader import MalformedError


@dataclass(frozen=True, slots=True)
class TranscribeRequest:
    """What is asked of a recording.

    Attributes:
        silence_s: silence that ends a command.
        relies_on_server: the client leaves the end of the command to the server.
    """

    choices: Choices = field(default_factory=Choices)
    silence_s: float = SILENCE_S["default"]
    relies_on_server: bool = False


def parse_transcribe(event: Event) -> TranscribeRequest:
    """Return what a client asks for; names and terms are hotwords, the names first.

    `languages` is an extension of ours: a list, of which each window is in one.

    Raises:
        MalformedError: a value has the wrong type.
    """
    _check_types(event.data)
    transcribe = Transcribe.from_event(event)
    sensitivity = event.data.get("vad_sensitivity") or ""
    hotwords = [
        *(transcribe.transcript_names or ()),
        *(transcribe.transcript_terms or ()),
    ]
    languages = event.data.get("languages") or []
    choices = Choices(
        model=transcribe.name,
        language=transcribe.language or join_languages(languages),
        hotwords=join_hotwords(hotwords),
    )
    return TranscribeRequest(
        choices,
        silence_s=SILENCE_S.get(sensitivity, SILENCE_S["default"]),
        # Only a client that waits for the server has a use for its sensitivity.
        relies_on_server=bool(sensitivity),
    )


def _check_types(data: Mapping[str, Any]) -> None:
    """Refuse values that have the wrong type; Wyoming's own class takes any.

    Raises:
        MalformedError: a value has.
    """
    for name in ("name", "language", "vad_sensitivity"):
        if not isinstance(data.get(name) or "", str):
            raise MalformedError(f"{name} of transcribe is not text")
    for name in ("languages", "transcript_names", "transcript_terms"):
        texts = data.get(name) or []
        if not isinstance(texts, list) or not all(
            isinstance(text, str) for text in texts
        ):
            raise MalformedError(f"{name} of transcribe is not a list of strings")
