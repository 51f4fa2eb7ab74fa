"""The table of `experiments.short_windows`: windows as short as their audio."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from whisper_hailo_lab.rates import Score, corpus, difference_interval
from whisper_hailo_lab.report.table import Table, difference_text, number, percent
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = RESULTS / "short_windows.json"
COLUMNS: Final = (
    "window", "tiny: encoder ms", "tiny: all ms", "times less", "micro: all ms", "times less",
    "clips", "words", "WER", "WER at 10 s", "difference, 95 %",
)  # fmt: skip


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """A row per window.

    Args:
        result: of a run: `words` per window but the longest, and `times` per window, the longest
            last.
        weights: mark of micro's present weights; what was measured with others says so.
    """
    limit = result["limit"]
    which = "" if limit is None else f" The first {limit} clips of each set."
    other = remark([result.get("weights", "")], weights)
    origin = f"{result['machine']}; processor time{other}.{which}\n\n"
    return {"short-windows": origin + table(result).markdown()}


def table(result: dict[str, Any]) -> Table:
    """The rows, without machine and remark."""
    full_ms = np.array(result["times"][-1]["all_ms"])
    clips = {row["window_s"]: row["clips"] for row in result["words"]}
    rows = tuple(
        (
            f"{row['window_s']:g} s",
            number(float(np.median(row["encoder_ms"]))),
            number(float(np.median(row["all_ms"]))),
            number(float(np.median(full_ms / np.array(row["all_ms"]))), 2),
            *_words(clips.get(row["window_s"], [])),
        )
        for row in result["times"]
    )
    return Table(COLUMNS, rows)


def _words(clips: list[dict[str, Any]]) -> tuple[str, ...]:
    if not clips:
        return ("-",) * 7
    short, full = ([Score(*clip["counts"][which]) for clip in clips] for which in (0, 1))
    took_ms = np.array([clip["cpu_ms"] for clip in clips])
    difference = corpus(short).rate - corpus(full).rate
    return (
        number(float(np.median(took_ms[:, 0]))),
        number(float(np.median(took_ms[:, 1] / took_ms[:, 0])), 2),
        str(len(clips)),
        f"{corpus(short).reference_count:,}",
        percent(corpus(short).rate),
        percent(corpus(full).rate),
        difference_text(difference, difference_interval(short, full)),
    )
