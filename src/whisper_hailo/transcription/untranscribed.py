"""Speech without text: where the detector hears speech and no text of a window was kept.

Every Whisper program loses such speech without a word: windows whose attempts all fail, windows
that the model takes for silence, and stretches that a text skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    FRAME_SAMPLES,
    SpeechDetector,
    frames_to_seconds,
    quiet_gain,
    speech_stretches,
    split_frames,
)
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    Segment,
    UntranscribedSpeech,
)
from whisper_hailo.transcription.window import WindowResult

UNLIKELY: Final = "unlikely"
NO_SPEECH: Final = "no_speech"
LEFT_OUT: Final = "left_out"

MIN_SPEECH_S: Final = 1.0
"""Less speech is reported nowhere. Of 524 recordings base leaves three or more words without text
in three, with 1.3 s or more of speech; what is below a second are breaths, fillers, and words
outside of a segment's times (docs/accuracy.md)."""

MARGIN_S: Final = 0.3
"""Times of segments may be off by this much."""

_JOIN_S: Final = 0.5
"""A shorter pause does not end a stretch."""

_QUIETEST: Final = 10 ** (-30 / 20)
"""Amplitude beside the loudest second of the window, below which nobody speaks to the listener:
spares the detector, whose time is a third of the encoder's, the pauses of clean recordings."""


def find_untranscribed(
    result: WindowResult, likely_language: str, detector: Callable[[], SpeechDetector]
) -> tuple[UntranscribedSpeech, ...]:
    """Return the speech of a window that none of its segments covers.

    The detector is only loaded if there is a stretch without text that is loud enough.
    """
    window = result.window
    reason = LEFT_OUT
    if not result.segments:
        reason = UNLIKELY if result.decoded.made_up else NO_SPEECH
    language = "" if likely_language == result.language else likely_language
    stretches: list[UntranscribedSpeech] = []
    for first, end in _find_uncovered(window, result.segments):
        for start_s, end_s in _find_speech(window.audio, first, end, detector):
            located_s = window.locate(start_s, is_start=True)
            stretches.append(
                UntranscribedSpeech(located_s, window.locate(end_s), reason, language)
            )
    return tuple(stretches)


def subtract_text(
    stretches: Iterable[UntranscribedSpeech], segments: Sequence[Segment]
) -> tuple[UntranscribedSpeech, ...]:
    """Return what of untranscribed speech no segment covers, in order and joined.

    Windows overlap, and a later one may have the text that an earlier one lacks.
    """
    rest: list[UntranscribedSpeech] = []
    for stretch in sorted(stretches, key=lambda stretch: stretch.start_s):
        for start_s, end_s in _subtract(stretch.start_s, stretch.end_s, segments):
            previous = rest[-1] if rest else None
            if previous is not None and start_s - previous.end_s < MIN_SPEECH_S:
                rest[-1] = replace(previous, end_s=max(previous.end_s, end_s))
            else:
                rest.append(replace(stretch, start_s=start_s, end_s=end_s))
    return tuple(
        replace(
            stretch, start_s=round(stretch.start_s, 2), end_s=round(stretch.end_s, 2)
        )
        for stretch in rest
        if stretch.end_s - stretch.start_s >= MIN_SPEECH_S
    )


def _subtract(
    start_s: float, end_s: float, segments: Sequence[Segment]
) -> Iterator[tuple[float, float]]:
    """Yield the parts of a stretch that lie outside of the segments."""
    position_s = start_s
    for segment in segments:
        if segment.end_s <= position_s:
            continue
        if segment.start_s >= end_s:
            break
        if segment.start_s > position_s:
            yield position_s, segment.start_s
        position_s = max(position_s, segment.end_s)
    if position_s < end_s:
        yield position_s, end_s


def _find_uncovered(
    window: Window, segments: Sequence[Segment]
) -> Iterator[tuple[int, int]]:
    """Yield ranges of frames, long enough for speech, that no segment covers."""
    n_frames = window.audio.size // FRAME_SAMPLES
    is_covered = np.zeros(n_frames + 1, dtype=bool)
    is_covered[n_frames] = True  # ends the last range
    for frame in range(n_frames):
        time_s = window.locate(frames_to_seconds(frame), is_start=True)
        is_covered[frame] = any(
            segment.start_s - MARGIN_S <= time_s <= segment.end_s + MARGIN_S
            for segment in segments
        )
    first = 0
    for frame in np.flatnonzero(is_covered).tolist():
        if frames_to_seconds(frame - first) >= MIN_SPEECH_S:
            yield first, frame
        first = frame + 1


def _find_speech(
    audio: FloatArray, first: int, end: int, detector: Callable[[], SpeechDetector]
) -> Iterator[tuple[float, float]]:
    """Yield start and end, in seconds of the window, of the speech in a range of frames."""
    part = audio[first * FRAME_SAMPLES : end * FRAME_SAMPLES]
    if _loudest_second(part) < _QUIETEST * _loudest_second(audio):
        return
    model = detector()
    model.reset()
    frames = split_frames(quiet_gain(audio) * part)
    probabilities = [model.probability(frame) for frame in frames]
    silence = round(_JOIN_S * SAMPLE_RATE_HZ / FRAME_SAMPLES)
    for speech in speech_stretches(
        probabilities, CERTAIN_THRESHOLD, silence, len(frames) + 1
    ):
        start_s = frames_to_seconds(first + speech.start)
        end_s = frames_to_seconds(first + speech.end)
        if end_s - start_s >= MIN_SPEECH_S:
            yield start_s, end_s


def _loudest_second(audio: FloatArray) -> float:
    """Return the largest root mean square of the seconds of `(n_samples,)`."""
    seconds = [
        audio[start : start + SAMPLE_RATE_HZ]
        for start in range(0, audio.size, SAMPLE_RATE_HZ)
    ]
    return max((float(np.sqrt(np.mean(second**2))) for second in seconds), default=0.0)
