"""Captions of a finished recording: the segments of its transcript, as events."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from whisper_hailo.core.types import Segment, UntranscribedSpeech, Word
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.events import Completed, Started, Untranscribed
from whisper_hailo.live.finished import FinishedRecording

SPOKEN = Segment(0.5, 2.0, "One two", (), 0.0, 0.0, language="en")
TIMED = replace(
    SPOKEN, words=(Word(0.5, 1.0, " One", 0.9), Word(1.0, 2.0, " two", 0.4))
)


class ScriptedTranscriber:
    """Yields the given segments."""

    def __init__(self, *segments: Segment) -> None:
        self.closed = False
        self._segments = iter(segments)
        missed = UntranscribedSpeech(4.0, 5.5, "left_out", "de")
        self.transcript = SimpleNamespace(duration_s=6.0, untranscribed=(missed,))

    def segments(self, *_given: Any) -> ScriptedTranscriber:
        return self

    def __iter__(self) -> Any:
        return self._segments

    def close(self) -> None:
        self.closed = True


def make_recording(*segments: Segment) -> tuple[ScriptedTranscriber, FinishedRecording]:
    transcriber: Any = ScriptedTranscriber(*segments)
    recording = FinishedRecording(transcriber, "a.wav", DecodingOptions(), lambda: 0.0)
    return transcriber, recording


@pytest.mark.parametrize(
    ("segment", "words"),
    [
        (SPOKEN, [(" One", None, None), (" two", None, None)]),
        (TIMED, [(" One", 0.5, 1.0), (" two", 1.0, 2.0)]),
    ],
)
def test_finished_recording_has_the_words_of_its_transcript(
    segment: Segment, words: list[Any]
) -> None:
    _, recording = make_recording(segment)
    started, completed, missed = recording.events()
    assert isinstance(started, Started)
    assert isinstance(completed, Completed)
    words_of_event = [(word.text, word.start_s, word.end_s) for word in completed.words]
    assert words_of_event == words
    assert completed.start_s == 0.5
    assert completed.end_s == 2.0
    assert completed.language == "en"
    assert isinstance(missed, Untranscribed)
    assert missed.start_s == 4.0
    assert missed.end_s == 5.5
    assert missed.language == "de"
    figures = recording.statistics.as_json()
    assert figures["words"] == 2
    assert figures["stream_s"] == 6.0
    assert figures["segment_s"] == 1.5
    assert figures["untranscribed_s"] == 1.5


def test_finished_recording_stopped_ends_with_its_segment() -> None:
    transcriber, recording = make_recording(SPOKEN, SPOKEN)
    words_of_event = []
    for event in recording.events():
        words_of_event.append(event.name)
        recording.stop()
    assert words_of_event == ["started", "completed", "untranscribed"]
    assert transcriber.closed
    assert recording.statistics.as_json()["stream_s"] == 2.0
