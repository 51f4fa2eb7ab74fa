"""The tables of `experiments.windows`: error rates by window, and the times of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.rates import Score, corpus, difference_interval
from whisper_hailo_lab.report.table import Table, difference_text, percent
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = RESULTS / "windows.json"
SETS: Final = ("seen", "unseen", "noisy", "long", "german")
SHORT_S, FULL_S = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class WindowCase:
    """One length of the window, and whether timestamps decide where the next one begins."""

    window_s: float
    timestamps: bool = False

    @property
    def name(self) -> str:
        return f"{self.window_s:g} s{', by timestamps' if self.timestamps else ''}"


CASES: Final = (WindowCase(SHORT_S), WindowCase(FULL_S), WindowCase(SHORT_S, timestamps=True))


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """Both tables, as one block.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    rows = {
        (row["case"], row["set"]): {**row, "counts": [Score(*counts) for counts in row["counts"]]}
        for row in result["rows"]
    }
    limit, other = result["limit"], remark([result.get("weights", "")], weights)
    which = "all frozen clips" if limit is None else f"the first {limit} clips of each frozen set"
    text = (
        f"`make lab NAME=windows`: `micro` on {which} of `tests/data/micro`, default settings with "
        f"times of words; {result['machine']}{other}. The difference is in points, with a "
        "bootstrap interval over the clips, both windows drawn together.\n\n"
        f"{_rates(rows).markdown()}\n"
        "Starts of the words that were heard as they were said, against their true starts:\n\n"
        f"{_starts(rows).markdown()}"
    )
    return {"windows": text}


def _rates(rows: dict[tuple[str, str], dict[str, Any]]) -> Table:
    """Error rates by window, and the difference of the first two."""
    cells = []
    for name in (name for name in SETS if (CASES[0].name, name) in rows):
        short, full = (rows[case.name, name]["counts"] for case in CASES[:2])
        found = [rows.get((case.name, name)) for case in CASES]
        difference = corpus(short).rate - corpus(full).rate
        cells.append(
            (
                name,
                str(len(short)),
                str(corpus(short).reference_count),
                *("-" if row is None else percent(corpus(row["counts"]).rate) for row in found),
                difference_text(difference, difference_interval(short, full)),
            )
        )
    heads = (f"WER {case.name}" for case in CASES)
    return Table(("set", "clips", "words", *heads, "10 s less 30 s"), tuple(cells))


def _starts(rows: dict[tuple[str, str], dict[str, Any]]) -> Table:
    """How far the starts of words are off."""
    columns = (
        "set", "window", "words", "median error s", "mean error s", "within 0.1 s", "within 0.2 s",
    )  # fmt: skip
    cells = tuple(
        (name, case.name, *_errors(rows[case.name, name]["start_errors_s"]))
        for name in SETS
        for case in CASES
        if (case.name, name) in rows
    )
    return Table(columns, cells)


def _errors(errors_s: Sequence[float]) -> tuple[str, ...]:
    if not errors_s:
        return ("0", *"-" * 4)
    off = np.abs(np.array(errors_s))
    within = (f"{100 * np.mean(off <= bound_s):.0f} %" for bound_s in (0.1, 0.2))
    return (str(off.size), f"{np.median(off):.2f}", f"{np.mean(errors_s):+.2f}", *within)
