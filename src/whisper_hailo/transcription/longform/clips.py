"""Clips: the stretches of a recording that are to be transcribed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ

_EXPECTED = "expected start,end[,start,end...] in seconds, rising; the last end may be left out"


@dataclass(frozen=True, slots=True)
class Clip:
    """A stretch of a recording in samples; `end` is `None` for its end."""

    start: int
    end: int | None


WHOLE = (Clip(0, None),)
"""All of a recording."""


def parse_clips(text: str) -> tuple[Clip, ...]:
    """Clips from OpenAI Whisper's notation `start,end,start,end,...` in seconds.

    Raises:
        OptionError: no numbers, negative ones, or such that do not rise.
    """
    try:
        times = [float(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        raise OptionError(f"--clip-timestamps is {text!r}, {_EXPECTED}") from None
    return clips_of(times)


def clips_of(times_s: list[float] | tuple[float, ...]) -> tuple[Clip, ...]:
    """Clips from starts and ends in turn.

    Raises:
        OptionError: negative times, or such that do not rise.
    """
    if not times_s:
        return WHOLE
    shown = ",".join(f"{time:g}" for time in times_s)
    if not all(math.isfinite(time) and time >= 0 for time in times_s):
        raise OptionError(
            f"--clip-timestamps is {shown!r}: a time is negative or no number; {_EXPECTED}"
        )
    wrong = None
    if any(end <= start for start, end in zip(times_s[::2], times_s[1::2], strict=False)):
        wrong = "an end is not after its start"
    elif any(later < earlier for earlier, later in pairwise(times_s)):
        wrong = "a clip begins before the one before it ends"
    if wrong:
        raise OptionError(f"--clip-timestamps is {shown!r}: {wrong}; {_EXPECTED}")
    samples = [round(time * SAMPLE_RATE_HZ) for time in times_s]
    ends: list[int | None] = [*samples[1::2]]
    if len(samples) % 2:
        ends.append(None)
    return tuple(Clip(start, end) for start, end in zip(samples[::2], ends, strict=True))
