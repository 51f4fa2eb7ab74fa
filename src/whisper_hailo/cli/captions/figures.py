"""What a run of captions was, told at its end: three lines for a person, all of it for machines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from whisper_hailo.cli.stdout import emit_json
from whisper_hailo.cli.verbosity import is_verbose, note
from whisper_hailo.core.languages import language_name
from whisper_hailo.live.statistics import CaptionStatistics


def report(statistics: CaptionStatistics, *, as_json: bool) -> None:
    """The figures of the run: JSON on standard output, or lines on standard error.

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
