"""Segments end with their speech, and start where the previous one ends at the earliest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from whisper_hailo.audio.vad import SpeechDetector
from whisper_hailo.audio.windows import PackedPiece, Window
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.transcription.endings import find_speech_end, trim_endings
from whisper_hailo.transcription.segments import start_after
from whisper_hailo.transcription.window import WindowResult

DECODED = Decoded((), -0.1, 0.0, runaway=False)


class Loudness:
    """Takes what is loud for speech."""

    def reset(self) -> None:
        """Nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        return float(np.abs(frame).max() > 0.2)


def make_audio(speech_end_s: float, noise: float = 0.01) -> FloatArray:
    """Return eight seconds that are loud up to a time."""
    samples = np.full(8 * SAMPLE_RATE_HZ, noise, np.float32)
    samples[: round(speech_end_s * SAMPLE_RATE_HZ)] = 0.5
    return samples


def make_segment(start_s: float, end_s: float, **fields: object) -> Segment:
    return replace(Segment(start_s, end_s, "text", (), -0.1, 0.0), **fields)  # type: ignore[arg-type]


def trim(window: Window, *segments: Segment) -> list[float]:
    result = WindowResult(window, DECODED, segments, 8.0)
    return [segment.end_s for segment in trim_endings(result, Loudness).segments]


def test_segment_with_pause_at_its_end_ends_with_its_speech() -> None:
    (end_s,) = trim(Window(make_audio(5.28), 100.0), make_segment(100.0, 107.0))
    assert end_s == pytest.approx(105.43, abs=0.05)


@pytest.mark.parametrize(
    ("audio", "start_s", "end_s"),
    [
        (make_audio(7.0), 0.0, 7.0),
        (make_audio(6.7), 0.0, 7.0),
        (make_audio(6.0, noise=0.2), 0.0, 7.0),
    ],
)
def test_segment_without_pause_keeps_its_end(
    audio: FloatArray, start_s: float, end_s: float
) -> None:
    assert find_speech_end(audio, start_s, end_s, Loudness) == end_s


def test_segment_without_pause_needs_no_detector() -> None:
    def refuse() -> SpeechDetector:
        raise AssertionError("the detector is loaded")

    assert find_speech_end(make_audio(7.0), 0.0, 7.0, refuse) == 7.0


def test_segment_ends_no_earlier_than_its_middle() -> None:
    assert find_speech_end(make_audio(0.5), 0.0, 2.8, Loudness) == 1.4


@pytest.mark.parametrize(
    ("window", "segment"),
    [
        (Window(make_audio(5.0), 0.0, is_sought=True), make_segment(0.0, 7.0)),
        (
            Window(make_audio(5.0), 0.0, (PackedPiece(0.0, 0.0, 8.0),)),
            make_segment(0.0, 7.0),
        ),
        (
            Window(make_audio(5.0), 0.0),
            make_segment(0.0, 7.0, words=(Word(0.0, 7.0, " text", 1.0),)),
        ),
    ],
)
def test_times_of_others_are_left_alone(window: Window, segment: Segment) -> None:
    assert trim(window, segment) == [7.0]


def test_segment_starts_after_the_previous_one() -> None:
    words = (Word(4.98, 5.3, " two", 1.0), Word(5.3, 6.0, " words", 1.0))
    segment = start_after(make_segment(4.98, 6.0, words=words), 5.0)
    assert segment.start_s == 5.0
    assert segment.end_s == 6.0
    assert [word.start_s for word in segment.words] == [5.0, 5.3]
    assert start_after(segment, 5.0) is segment
