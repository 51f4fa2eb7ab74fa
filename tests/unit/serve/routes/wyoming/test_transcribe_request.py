"""What a Wyoming client may ask of its next recording."""

from __future__ import annotations

from typing import Any

import pytest
from wyoming.event import Event

from whisper_hailo.serve.routes.wyoming.event_reader import MalformedError
from whisper_hailo.serve.routes.wyoming.transcribe_request import parse_transcribe


@pytest.mark.parametrize(
    ("data", "language"),
    [
        ({}, None),
        ({"language": "de"}, "de"),
        ({"language": "de,en"}, "de,en"),
        ({"languages": ["nl", "en"]}, "nl,en"),
        ({"languages": []}, None),
        ({"language": "de", "languages": ["nl", "en"]}, "de"),
    ],
)
def test_parse_transcribe_joins_languages(
    data: dict[str, Any], language: str | None
) -> None:
    request = parse_transcribe(Event("transcribe", data))
    assert request.choices.language == language


@pytest.mark.parametrize("languages", ["nl,en", [1], {"nl": 1}])
def test_parse_transcribe_refuses_other_languages(languages: object) -> None:
    with pytest.raises(MalformedError):
        parse_transcribe(Event("transcribe", {"languages": languages}))
