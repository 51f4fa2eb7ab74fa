"""Mixtures of languages, and the speech in them without words."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.scripted_speech import Loudness, silence, spoken
from whisper_hailo.live.events import CaptionWord
from whisper_hailo_lab.captions import mixtures
from whisper_hailo_lab.captions.mixtures import (
    GAPS_S,
    LANGUAGES,
    make_mixtures,
    measure_lost_speech,
)
from whisper_hailo_lab.data.speech import SpeechRecording


def test_make_mixtures_has_all_languages_and_gaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SpeechRecording, "load", lambda _: np.ones(16_000, np.float32))
    recordings = [
        SpeechRecording("fleurs", language, "", language, 9.0, "", ())
        for language in ("en", "de", "fr")
    ]
    mixed = list(make_mixtures(recordings))
    assert len(mixed) == len(LANGUAGES) * len(GAPS_S)
    for mixture in mixed:
        assert mixture.n_changes >= len(set(mixture.languages)) - 1
        n_turns = len(mixture.languages)
        seconds = 1.5 + n_turns * (1.0 + mixture.gap_s)
        assert mixture.audio.size == pytest.approx(seconds * 16_000, abs=n_turns)
        assert np.abs(mixture.audio).max() == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("times", "lost_s"), [([], 2.0), ([(1.0, 1.5)], 1.2), ([(0.9, 3.1)], 0.0)]
)
def test_measure_lost_speech_is_speech_without_words(
    times: list[tuple[float, float]],
    lost_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixtures, "make_detector", Loudness)
    audio = np.concatenate([silence(1.0), spoken(0, 2.0), silence(1.0)])
    words = [CaptionWord(" a", 0.9, start_s, end_s) for start_s, end_s in times]
    assert measure_lost_speech(audio, words) == pytest.approx(lost_s, abs=0.07)
