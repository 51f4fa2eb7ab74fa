"""Speech without text: found in windows, and what later text leaves of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from whisper_hailo.audio.vad import SpeechDetector
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    Segment,
    UntranscribedSpeech,
)
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.transcription.untranscribed import (
    LEFT_OUT,
    NO_SPEECH,
    UNLIKELY,
    find_untranscribed,
    subtract_text,
)
from whisper_hailo.transcription.window import WindowResult

EMPTY = Decoded((), -0.1, 0.0, runaway=False)


class Loudness:
    """Takes what is loud for speech."""

    def reset(self) -> None:
        """Nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        return float(np.abs(frame).max() > 0.2)


def make_audio(*speech: tuple[float, float], level: float = 0.5) -> FloatArray:
    """Return six seconds that are loud from one second to another."""
    samples = np.full(6 * SAMPLE_RATE_HZ, 1e-4, np.float32)
    for start_s, end_s in speech:
        samples[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)] = level
    return samples


def make_segment(start_s: float, end_s: float) -> Segment:
    return Segment(start_s, end_s, "text", (), -0.1, 0.0)


def find(
    audio: FloatArray,
    *segments: Segment,
    start_s: float = 0.0,
    decoded: Decoded = EMPTY,
    likely: str = "",
) -> list[UntranscribedSpeech]:
    result = WindowResult(Window(audio, start_s), decoded, segments, 6.0, language="en")
    return list(find_untranscribed(result, likely, Loudness))


@pytest.mark.parametrize(("made_up", "reason"), [(True, UNLIKELY), (False, NO_SPEECH)])
def test_window_without_text_reports_all_of_its_speech(
    made_up: bool, reason: str
) -> None:
    decoded = replace(EMPTY, made_up=made_up)
    (stretch,) = find(make_audio((1, 4)), start_s=20.0, decoded=decoded, likely="fr")
    assert stretch.reason == reason
    assert stretch.language == "fr"
    assert stretch.start_s == pytest.approx(21.0, abs=0.05)
    assert stretch.end_s == pytest.approx(24.0, abs=0.05)


def test_window_with_text_reports_what_it_leaves_out() -> None:
    (stretch,) = find(make_audio((0, 1), (3, 5)), make_segment(0.0, 1.0), likely="en")
    assert stretch.reason == LEFT_OUT
    assert stretch.language == ""
    assert stretch.start_s == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize(
    ("audio", "segments"),
    [
        (make_audio(), []),
        (make_audio((1, 1.9)), []),
        (make_audio((1, 4)), [make_segment(1.2, 3.8)]),
        (make_audio((0, 2.9)), [make_segment(0.0, 1.0), make_segment(1.5, 2.9)]),
    ],
)
def test_window_reports_neither_silence_nor_covered_speech(
    audio: FloatArray, segments: list[Segment]
) -> None:
    assert find(audio, *segments) == []


def test_pauses_of_clean_recordings_need_no_detector() -> None:
    def refuse() -> SpeechDetector:
        raise AssertionError("the detector is loaded")

    result = WindowResult(
        Window(make_audio((0, 2)), 0.0),
        EMPTY,
        (make_segment(0.0, 2.0),),
        6.0,
        language="en",
    )
    assert find_untranscribed(result, "", refuse) == ()


def test_later_text_covers_speech_of_an_earlier_window() -> None:
    speech = [
        UntranscribedSpeech(10.0, 14.0, LEFT_OUT),
        UntranscribedSpeech(30.0, 34.0, UNLIKELY),
    ]
    segments = [
        make_segment(9.0, 10.5),
        make_segment(12.5, 13.5),
        make_segment(29.0, 35.0),
    ]
    assert subtract_text(speech, segments) == (
        UntranscribedSpeech(10.5, 12.5, LEFT_OUT),
    )


def test_neighbouring_stretches_become_one() -> None:
    speech = [
        UntranscribedSpeech(14.2, 18.0, UNLIKELY),
        UntranscribedSpeech(10.0, 14.0, UNLIKELY),
    ]
    assert subtract_text(speech, []) == (UntranscribedSpeech(10.0, 18.0, UNLIKELY),)
