"""Options of long recordings: how they are cut into windows, and which parts of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from whisper_hailo.audio.vad import SPEECH_THRESHOLD
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_choices, require_valid
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import setting


@dataclass(frozen=True, slots=True)
class Clip:
    """A stretch of a recording in samples; `end` is `None` for its end."""

    start: int
    end: int | None


WHOLE: Final = (Clip(0, None),)
"""The clips of a recording that is transcribed as a whole."""


def parse_clips(text: str) -> tuple[Clip, ...]:
    """Parse OpenAI Whisper's notation `start,end,start,end,...` in seconds.

    Raises:
        OptionError: not numbers, or not rising.
    """
    if not text.strip():
        return WHOLE
    try:
        times_s = [float(part) for part in text.split(",")]
        problem = _find_problem(times_s)
    except ValueError:
        problem = "not all of it is numbers"
    if problem is not None:
        raise OptionError(
            f"--clip-timestamps is {text!r}: {problem}; expected start,end[,start,end...] in "
            "seconds, rising; the last end may be left out"
        )
    samples = [round(time_s * SAMPLE_RATE_HZ) for time_s in times_s]
    starts = samples[::2]
    ends: list[int | None] = [*samples[1::2]]
    if len(ends) < len(starts):
        ends.append(None)
    return tuple(map(Clip, starts, ends))


def _find_problem(times_s: Sequence[float]) -> str | None:
    """Return what is wrong with starts and ends in turn, if anything."""
    if not all(math.isfinite(time_s) and time_s >= 0 for time_s in times_s):
        return "a time is negative or no number"
    # The last clip may have no end.
    if any(
        end <= start for start, end in zip(times_s[::2], times_s[1::2], strict=False)
    ):
        return "an end is not after its start"
    if any(later < earlier for earlier, later in pairwise(times_s)):
        return "a clip begins before the one before it ends"
    return None


STRATEGIES: Final = ("auto", "seek", "overlap", "dense", "vad", "consecutive")

LONG: Final = "Long recordings"
"""Topic of help."""

_VAD: Final = "Speech detection"


@dataclass(frozen=True, slots=True)
class LongOptions:
    """How recordings longer than a window are cut.

    Attributes:
        strategy: `auto` ends windows in pauses and overlaps them where there is none; in an encoder
            with a short fixed window it is `dense`, which shares half of each window.
        overlap_s: `None` is 2 s, at most a third of the window's content; a given one is at most
            half of it.
        speech_pad_s: after speech at most the silence that ended it.
        trim_window: `None`: where the encoder can and silence keys stand for the rest.
    """

    strategy: str = flag(
        "auto", "How windows are cut", LONG, name="--long", choices=STRATEGIES
    )
    overlap_s: float | None = setting(
        None, "Overlap of windows.", LONG, name="--overlap", metavar="S", shown="2"
    )
    clips: tuple[Clip, ...] = flag(
        WHOLE,
        "Transcribe only these ranges, in seconds.",
        LONG,
        name="--clip-timestamps",
        metavar="S,E,...",
        shown="all",
        parse=parse_clips,
    )
    skip_silence: bool = flag(True, "Start windows where speech begins.", _VAD)
    vad_threshold: float = flag(SPEECH_THRESHOLD, "Speech probability threshold.", _VAD)
    min_silence_s: float = setting(
        0.5, "Silence that ends speech.", _VAD, name="--vad-min-silence", metavar="S"
    )
    speech_pad_s: float = setting(
        0.2, "Padding around speech.", _VAD, name="--vad-speech-pad", metavar="S"
    )
    trim_window: bool | None = setting(
        None,
        "Encode only what of a window is filled.",
        LONG,
        shown="where the encoder can",
    )

    def __post_init__(self) -> None:
        require_choices(self)
        is_valid = self.overlap_s is None or 0 < self.overlap_s <= 15
        require_valid(self, "overlap_s", is_valid, "more than 0 s, at most 15 s")
        require_valid(self, "vad_threshold", 0 < self.vad_threshold < 1, "0 to 1")
        for name in ("min_silence_s", "speech_pad_s"):
            require_valid(self, name, 0 <= getattr(self, name) <= 10, "0 to 10 s")
