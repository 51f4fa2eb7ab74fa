"""Ends of segments: where their speech ends, not where the model lets the pause after it end.

Whisper places the end of a segment anywhere in the pause behind it, up to two seconds late. The
speech detector knows better, and only hears what is quiet beside the segment: elsewhere there is no
pause, and its time, a third of the encoder's, would be for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    FRAME_SAMPLES,
    HYSTERESIS,
    SpeechDetector,
    frames_to_seconds,
    quiet_gain,
    split_frames,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment
from whisper_hailo.transcription.window import WindowResult

_SEARCHED_S: Final = 3.0
"""Of a segment's end; later ones were not seen."""

_LEAD_S: Final = 1.0
"""Speech before the pause, for the detector to recognise it by."""

_MIN_PAUSE_S: Final = 0.4
"""A shorter pause ends no cue."""

_TAIL_S: Final = 0.15
"""Kept after speech: detectors miss soft last sounds."""

_QUIET: Final = 0.25
"""Of the loudest frame, in amplitude: 12 dB below it speech has paused, even in a noisy room."""


def trim_endings(
    result: WindowResult, detector: Callable[[], SpeechDetector]
) -> WindowResult:
    """Return a window's result whose segments end with their speech.

    Segments with words are left alone, since these have times of their own; so are windows without
    the pauses of their recording, and windows that are sought, which have OpenAI Whisper's times.
    """
    window = result.window
    if window.is_sought or window.pieces:
        return result
    segments: list[Segment] = []
    for segment in result.segments:
        end_s = segment.end_s
        if not segment.words:
            start_s = segment.start_s - window.start_s
            end_s = window.start_s + find_speech_end(
                window.audio, start_s, segment.end_s - window.start_s, detector
            )
        segments.append(replace(segment, end_s=end_s))
    return replace(result, segments=tuple(segments))


def find_speech_end(
    audio: FloatArray,
    start_s: float,
    end_s: float,
    detector: Callable[[], SpeechDetector],
) -> float:
    """Return where the speech from `start_s` to `end_s` of `(n_samples,)` ends, in seconds.

    It is `end_s` where no pause precedes it, and never before the middle of the stretch.
    """
    first_s = max(start_s, end_s - _SEARCHED_S)
    part = audio[round(first_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)]
    frames = split_frames(part)
    if len(frames) == 0:
        return end_s
    loudness = np.sqrt(np.mean(np.square(frames), axis=1))
    loud = np.flatnonzero(loudness > _QUIET * loudness.max())
    last_loud = int(loud[-1]) + 1 if loud.size else 0
    if frames_to_seconds(len(frames) - last_loud) < _MIN_PAUSE_S:
        return end_s
    model = detector()
    model.reset()
    heard = max(0, last_loud - round(_LEAD_S * SAMPLE_RATE_HZ / FRAME_SAMPLES))
    gain = quiet_gain(part)
    last_speech: int | None = None
    for index in range(heard, len(frames)):
        if model.probability(gain * frames[index]) >= CERTAIN_THRESHOLD - HYSTERESIS:
            last_speech = index
    # The detector hears nothing that it could know the pause by.
    if last_speech is None:
        return end_s
    speech_end_s = first_s + frames_to_seconds(last_speech + 1) + _TAIL_S
    if end_s - speech_end_s < _MIN_PAUSE_S - _TAIL_S:
        return end_s
    return max(speech_end_s, (start_s + end_s) / 2)
