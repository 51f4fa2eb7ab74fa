"""Speech of a segment that got no text, by the detector's frames and the times of the words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    FRAME_SAMPLES,
    frames_to_seconds,
    speech_stretches,
)
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    BufferWord,
    Segment,
    UntranscribedSpeech,
)
from whisper_hailo.transcription.untranscribed import (
    LEFT_OUT,
    MARGIN_S,
    MIN_SPEECH_S,
    NO_SPEECH,
    subtract_text,
)

_JOIN_S: Final = 0.5
"""A shorter pause does not end a stretch of speech."""


def find_untranscribed(
    probabilities: Sequence[float], words: Sequence[BufferWord], language: str
) -> tuple[UntranscribedSpeech, ...]:
    """Return the certain speech that no word covers, in seconds of the segment.

    Args:
        probabilities: of speech, one per frame of the segment.
        words: its words; without times they count as the text of all of it.
        language: in which it was heard.
    """
    if any(word.start_s is None or word.end_s is None for word in words):
        return ()
    reason = LEFT_OUT if words else NO_SPEECH
    silence = round(_JOIN_S * SAMPLE_RATE_HZ / FRAME_SAMPLES)
    stretches = [
        UntranscribedSpeech(
            frames_to_seconds(speech.start),
            frames_to_seconds(speech.end),
            reason,
            language,
        )
        for speech in speech_stretches(
            probabilities, CERTAIN_THRESHOLD, silence, len(probabilities) + 1
        )
    ]
    return subtract_text(stretches, list(_join_words(words)))


def _join_words(words: Sequence[BufferWord]) -> Iterator[Segment]:
    """Yield what words cover, with the margin of their times; shorter gaps are pauses."""
    start_s: float | None = None
    end_s = 0.0
    for word in words:
        if word.start_s is None or word.end_s is None:
            continue
        if start_s is None:
            start_s = word.start_s
        elif word.start_s - end_s > MIN_SPEECH_S:
            yield _cover(start_s, end_s)
            start_s = word.start_s
        end_s = max(end_s, word.end_s)
    if start_s is not None:
        yield _cover(start_s, end_s)


def _cover(start_s: float, end_s: float) -> Segment:
    return Segment(start_s - MARGIN_S, end_s + MARGIN_S, "", (), 0.0, 0.0)
