"""What each look at the audio cost, line by line on standard error while captions run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whisper_hailo.cli.stdout import emit_json
from whisper_hailo.cli.verbosity import is_verbose, note
from whisper_hailo.core.errors import shown
from whisper_hailo.core.languages import language_name
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


def report(statistics: CaptionStatistics, *, as_json: bool) -> None:
    """Print the statistics: JSON on standard output, or lines on standard error.

    Args:
        statistics: of the run.
        as_json: for machines; all figures.
    """
    figures = statistics.as_json()
    if as_json:
        emit_json({"event": "statistics", **figures})
    elif is_verbose():
        for name, value in figures.items():
            print(f"{name:>32}  {'-' if value is None else value}", file=sys.stderr)
    else:
        for line in summary(figures, statistics.words_in):
            note(line)


def summary(figures: dict[str, Any], words_in: Counter[str]) -> Iterator[str]:
    """Three lines: what was heard, what it cost, and how it felt."""
    heard = [language_name(code) for code, n_words in words_in.most_common() if code and n_words]
    language = f" ({', '.join(heard)})" if heard else ""
    yield (
        f"{figures['words']} words{language} in {figures['full_segments']} segments: "
        f"{figures['segment_s']:.1f} s of speech in {figures['stream_s']:.1f} s of sound"
    )
    rtfx = figures["rtfx"]
    speed = f", {rtfx:.1f} times as fast as it was said" if rtfx else ""
    yield f"computed in {figures['compute_s']:.1f} s{speed}, in {figures['memory_mib']:.0f} MiB"
    felt = []
    if figures["final_latency_s_median"] is not None:
        first, final = figures["first_partial_latency_s_median"], figures["final_latency_s_median"]
        shown = "" if first is None else f"first text after {first:.2f} s, "
        felt.append(f"{shown}final text {final:.2f} s after the end of speech (medians)")
    if figures["lost_s"]:
        felt.append(f"{figures['lost_s']:.1f} s were lost")
    if figures["absences"]:
        felt.append(f"the source was away {figures['away_s']:.1f} s")
    if figures["paused_s"]:
        felt.append(f"it was paused {figures['paused_s']:.1f} s")
    yield "; ".join(felt) or "no sound was lost"


_ERASE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class _Sums:
    """Totals of the statistics at an event."""

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
    """Describe an event between segments, or an action of a user."""
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
