"""When a beam is used: which windows of greedy text are searched again with one."""

from __future__ import annotations

from typing import Final

from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import SearchOptions, Thresholds
from whisper_hailo.decoding.search.attempt_checks import is_doubtful

UNSURE_LOGPROB: Final = -0.4
"""Mean log-probability below which a beam mostly finds better words (docs/accuracy.md)."""


def is_beam_retry_enabled(search: SearchOptions) -> bool:
    """Return whether unsure greedy text is searched again with a beam.

    A single temperature asks for its text, however unsure.
    """
    is_greedy = search.beam_size == 1 and search.temperatures[0] == 0
    return is_greedy and search.retry_beam_size > 1 and len(search.temperatures) > 1


def is_unsure(decoded: Decoded, thresholds: Thresholds) -> bool:
    """Return whether a beam search may find better words."""
    if decoded.is_silence(thresholds):
        return False
    return is_doubtful(decoded, thresholds) or decoded.avg_logprob < UNSURE_LOGPROB
