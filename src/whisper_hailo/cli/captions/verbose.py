"""What each look at the audio cost, line by line on standard error while captions run."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from whisper_hailo.core.names import shown
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import (
    Away,
    Back,
    Cleared,
    Control,
    Event,
    Lost,
    Marker,
    Partial,
    Settings,
    Started,
)
from whisper_hailo.live.statistics import CaptionStatistics

_ERASE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class _Sums:
    """What the statistics had added up to at an event."""

    heard_s: float
    compute_s: float
    passes: int

    @classmethod
    def of(cls, statistics: CaptionStatistics) -> _Sums:
        heard_s = statistics.n_heard_samples / SAMPLE_RATE_HZ
        return cls(heard_s, statistics.compute_s, statistics.partial_passes)


class VerboseView:
    """Writes a line for each event; what it cost is what was added to the statistics before it."""

    def __init__(self, statistics: CaptionStatistics) -> None:
        self._statistics = statistics
        self._before = _Sums.of(statistics)
        self._erase = _ERASE if sys.stderr.isatty() else ""  # the running line stands there

    def put(self, event: Event) -> None:
        now = _Sums.of(self._statistics)
        print(self._erase + self._told(event, now), file=sys.stderr)
        self._before = now

    def _told(self, event: Event, now: _Sums) -> str:
        if isinstance(event, Lost | Away | Back | Control):
            return _between(event)
        segment = f"segment {event.segment_id}"
        if isinstance(event, Started):
            return f"{segment} starts at {event.start_s:.2f} s"
        cost = (
            f"{now.heard_s - self._before.heard_s:.2f} s heard in "
            f"{1000 * (now.compute_s - self._before.compute_s):.0f} ms"
        )
        skipped = f", partials skipped: {event.n_skipped}" if event.n_skipped else ""
        if isinstance(event, Partial):
            return (
                f"{segment}: {cost}, decoder passes: {now.passes - self._before.passes}; "
                f"words that stay: {len(event.committed)}, "
                f"that may change: {len(event.tentative)}{skipped}"
            )
        return (
            f"{segment} ends at {event.end_s:.2f} s ({event.reason}): {cost}; "
            f"words: {len(event.words)}{skipped}"
        )


def _between(event: Lost | Away | Back | Control) -> str:
    """What happens between segments, and what users do."""
    match event:
        case Lost():
            return f"lost: {event.start_s:.2f} to {event.end_s:.2f} s"
        case Away():
            return f"away from {event.start_s:.2f} s: {event.why}"
        case Back():
            return f"back after {event.end_s - event.start_s:.2f} s"
        case Marker():
            return f"marker at {event.start_s:.2f} s: {shown(event.label)}"
        case Cleared():
            return f"cleared at {event.start_s:.2f} s"
        case Settings():
            changed = ", ".join(f"{name} {value}" for name, value in event.settings.items())
            return f"settings from {event.start_s:.2f} s on: {changed}"
