"""When cues appear and vanish: as spoken, as long as they take to read, calm between them."""

from __future__ import annotations

import math
from typing import Final

from whisper_hailo.text.cue_layout import MAX_CUE_S, MIN_CUE_S

FRAME_S: Final = 1 / 24
GAP_S: Final = 2 * FRAME_S
"""Between cues: with a shorter gap, or none, readers do not notice that the text has changed."""

_CLOSED_GAP_S: Final = 0.5
"""A shorter pause is closed to `GAP_S`: text that vanishes for a moment flickers."""

_LEAD_S: Final = 0.3
"""Most that a cue appears before it is spoken, and only where it could not be read otherwise."""

_SHORTEST_S: Final = 0.5
"""Least that a cue is shown, even if the next one is late for it: speakers interrupt each other."""


def time_cue(
    start_s: float,
    end_s: float,
    *,
    reading_s: float,
    previous_end_s: float = -math.inf,
    next_start_s: float = math.inf,
) -> tuple[float, float]:
    """Return when a cue appears and vanishes, in seconds.

    Args:
        start_s: of its speech.
        end_s: of its speech.
        reading_s: that it takes to read.
        previous_end_s: when the previous cue vanishes.
        next_start_s: when the speech of the next cue starts.
    """
    shown_s = max(start_s, previous_end_s)
    latest_s = max(shown_s + _SHORTEST_S, next_start_s - GAP_S)
    wanted_s = max(reading_s, MIN_CUE_S)
    vanishes_s = min(max(end_s, shown_s + wanted_s), latest_s)
    if latest_s - vanishes_s < _CLOSED_GAP_S:
        vanishes_s = latest_s
    lacking_s = wanted_s - (vanishes_s - shown_s)
    if lacking_s > 0:
        earliest_s = max(0.0, previous_end_s + GAP_S, shown_s - _LEAD_S)
        shown_s = min(shown_s, max(earliest_s, shown_s - lacking_s))
    return shown_s, min(vanishes_s, shown_s + MAX_CUE_S)
