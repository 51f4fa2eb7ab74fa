"""What speaks against an attempt: its text repeats itself, or is doubtful."""

from __future__ import annotations

from whisper_hailo.decoding.decoded import Decoded, ends_in_loop
from whisper_hailo.decoding.options import Thresholds


def repeats_itself(decoded: Decoded, thresholds: Thresholds) -> bool:
    """Return whether the text compresses better than speech does, or ends in a loop."""
    limit = thresholds.compression_ratio
    if limit is None:
        return False
    return decoded.compression_ratio > limit or (
        decoded.runaway and ends_in_loop(decoded.tokens)
    )


def is_doubtful(decoded: Decoded, thresholds: Thresholds) -> bool:
    """Return whether to retry at a higher temperature: the text repeats itself or is unlikely.

    Source: OpenAI Whisper, `decode_with_fallback`; silence is not retried.
    """
    if decoded.made_up:  # there is no speech
        return False
    is_unlikely = (
        thresholds.logprob is not None and decoded.avg_logprob < thresholds.logprob
    )
    if seems_silent(decoded, thresholds) and is_unlikely:
        return False
    return is_unlikely or repeats_itself(decoded, thresholds)


def seems_silent(decoded: Decoded, thresholds: Thresholds) -> bool:
    """Return whether the model hears no speech, however likely its text is."""
    limit = thresholds.no_speech
    return limit is not None and decoded.no_speech_prob > limit
