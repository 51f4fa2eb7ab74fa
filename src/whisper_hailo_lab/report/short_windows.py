"""The table of windows as short as their audio, from what was measured of them."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.marks import remark
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.report.text import number, percent
from whisper_hailo_lab.score import Score, corpus, difference_interval

MARK: Final = re.compile(r"(<!-- short windows -->\n).*?(<!-- end of short -->)", re.DOTALL)


def fill(text: str, result: dict[str, Any], weights: str) -> str:
    """A document whose table between the marks is what was measured.

    Args:
        text: the document.
        result: of a run.
        weights: mark of micro's present weights; what was measured with others says so.
    """
    limit = result["limit"]
    which = "" if limit is None else f" The first {limit} clips of each set."
    other = remark([result.get("weights", "")], weights)
    origin = f"{result['machine']}; processor time{other}.{which}\n\n"
    return MARK.sub(lambda m: m[1] + origin + table(result).markdown() + m[2], text)


def table(result: dict[str, Any]) -> Table:
    """A row per window.

    Args:
        result: of a run: `words` per window but the longest, and `times` per window, the longest
            last.
    """
    columns = (
        "window", "tiny: encoder ms", "tiny: all ms", "times less", "micro: all ms", "times less",
        "clips", "words", "WER", "WER at 10 s", "difference, 95 %",
    )  # fmt: skip
    times = result["times"]
    full_ms = np.array(times[-1]["all_ms"])
    heard = {row["window_s"]: row["clips"] for row in result["words"]}
    rows = []
    for row in times:
        all_ms = np.array(row["all_ms"])
        rows.append(
            (
                f"{row['window_s']:g} s",
                number(float(np.median(row["encoder_ms"]))),
                number(float(np.median(all_ms))),
                number(float(np.median(full_ms / all_ms)), 2),
                *_words(heard.get(row["window_s"], [])),
            )
        )
    return Table(columns, tuple(rows))


def _words(clips: list[dict[str, Any]]) -> tuple[str, ...]:
    if not clips:
        return ("-",) * 7
    short, full = ([Score(*clip["counts"][which]) for clip in clips] for which in (0, 1))
    took_ms = np.array([clip["cpu_ms"] for clip in clips])
    low, high = difference_interval(short, full)
    point = corpus(short).rate - corpus(full).rate
    return (
        number(float(np.median(took_ms[:, 0]))),
        number(float(np.median(took_ms[:, 1] / took_ms[:, 0])), 2),
        str(len(clips)),
        f"{corpus(short).reference_count:,}",
        percent(corpus(short).rate),
        percent(corpus(full).rate),
        f"{100 * point:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})",
    )
