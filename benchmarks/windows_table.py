"""The tables of `windows.py`: a function of its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whisper_hailo_lab.marks import remark
from whisper_hailo_lab.score import Score, corpus, difference_interval

BEGIN, END = "<!-- windows: begin -->", "<!-- windows: end -->"
SETS = ("seen", "unseen", "noisy", "long", "german")
SHORT_S, FULL_S = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Case:
    """One way to hear a set."""

    window_s: float
    timestamps: bool = False

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.window_s:g} s{', by timestamps' if self.timestamps else ''}"


CASES = (Case(SHORT_S), Case(FULL_S), Case(SHORT_S, timestamps=True))


def table(result: dict[str, Any], weights: str) -> str:
    """Markdown: error rates by window, then times of words.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    rows = {
        (row["case"], row["set"]): {**row, "counts": [Score(*counts) for counts in row["counts"]]}
        for row in result["rows"]
    }
    sets = [name for name in SETS if (CASES[0].name, name) in rows]
    limit, other = result["limit"], remark([result.get("weights", "")], weights)
    which = "all frozen clips" if limit is None else f"the first {limit} clips of each frozen set"
    lines = [
        f"`make windows`: `micro` on {which} of `tests/data/micro`, default settings with "
        f"times of words; {result['machine']}{other}. The difference is in points, with a "
        "bootstrap interval over the clips, both windows drawn together.",
        "",
        "| set | clips | words | "
        f"{' | '.join(f'WER {case.name}' for case in CASES)} | 10 s less 30 s |",
        "|---|---|---|" + "---|" * (len(CASES) + 1),
    ]
    for name in sets:
        short = rows[CASES[0].name, name]["counts"]
        cells = [_rate(rows.get((case.name, name))) for case in CASES]
        full = rows[CASES[1].name, name]["counts"]
        low, high = difference_interval(short, full)
        point, n_words = corpus(short).rate - corpus(full).rate, corpus(short).reference_count
        lines.append(
            f"| {name} | {len(short)} | {n_words} | {' | '.join(cells)} | "
            f"{100 * point:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}) |"
        )
    lines += [
        "",
        "Starts of the words that were heard as they were said, against their true starts:",
        "",
        "| set | window | words | median error s | mean error s | within 0.1 s | within 0.2 s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sets:
        for case in CASES:
            if (case.name, name) in rows:
                lines.append(_starts(name, case, rows[case.name, name]["start_errors_s"]))
    return "\n".join(lines)


def _rate(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    return f"{100 * corpus(row['counts']).rate:.1f} %"


def _starts(name: str, case: Case, errors_s: Sequence[float]) -> str:
    if not errors_s:
        return f"| {name} | {case.name} | 0 | - | - | - | - |"
    off = np.abs(np.array(errors_s))
    return (
        f"| {name} | {case.name} | {off.size} | {np.median(off):.2f} | {np.mean(errors_s):+.2f} | "
        f"{100 * np.mean(off <= 0.1):.0f} % | {100 * np.mean(off <= 0.2):.0f} % |"
    )


def filled(page: str, result: dict[str, Any], weights: str) -> str:
    """The page with the tables of this result in their place; `weights` as for `table`."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(result, weights)}\n{END}{tail}"
