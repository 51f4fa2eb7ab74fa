from __future__ import annotations

import pytest

from tests.fakes.voices_of_tones import tone_diarizer, whistle
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.speakers.finder import SpeakerFinder
from whisper_hailo.speakers.options import SpeakerOptions


def test_speaker_finder_reports_seconds_and_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audio = whistle([(0, 4.0)])
    blocks = [
        audio[start : start + SAMPLE_RATE_HZ]
        for start in range(0, len(audio), SAMPLE_RATE_HZ)
    ]
    reports: list[tuple[float, float | None]] = []
    with tone_diarizer() as diarizer:
        monkeypatch.setattr(SpeakerFinder, "load", lambda _: diarizer)
        SpeakerFinder().find(
            blocks, SpeakerOptions(), lambda done, total: reports.append((done, total))
        )
    assert reports == [(1.0, None), (2.0, None), (3.0, None), (4.0, None), (4.0, 4.0)]
