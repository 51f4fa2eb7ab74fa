"""The tables of `experiments.drafts`: texts with a model that decodes ahead, and their times."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.report.table import Table, number, percent
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = RESULTS / "drafts.json"
SHOWN: Final = 0.8
"""Share of right drafts of the rows that the page shows."""

TEXTS: Final = (
    "decoder", "texts", "the same", "another", "drafted and right", "tokens of a pass",
)  # fmt: skip
TIMES: Final = (
    "model, draft model", "weights", "threads", "right", "ms a token alone", "with drafts",
    "speed-up", "predicted speed-up", "tokens of a pass",
)  # fmt: skip


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """Texts by form, times by pair, form and threads.

    Args:
        result: of a run.
        weights: mark of micro's present weights; what was measured with others says so.
    """
    other = remark([result.get("weights", "")], weights)
    texts = Table(TEXTS, tuple(map(_text, result.get("texts", ())))).markdown()
    shown = filter(_is_shown, result.get("times", ()))
    times = Table(TIMES, tuple(map(_time, shown))).markdown()
    return {
        "draft-texts": f"{result['machine']}{other}.\n\n{texts}",
        "draft-times": f"{result['machine']}; one thread: its processor time{other}.\n\n{times}",
    }


def _is_shown(row: dict[str, Any]) -> bool:
    """Return whether a row is of one thread, with drafts that are right in four of five cases."""
    return bool(row["threads"] == 1 and row.get("accept", SHOWN) == SHOWN)


def _text(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['form']}, {row['n_tokens']} tokens ahead",
        f"{row['texts']:,}",
        f"{row.get('same', 0):,}",
        f"{sum(row.get(name, 0) for name in ('other', 'near-tie', 'wrong')):,}",
        percent(row["accepted"] / row["steps"]),
        number(row["tokens"] / row["passes"], 2),
    )


def _time(row: dict[str, Any]) -> tuple[str, ...]:
    run = (f"{row['model']}, {row['draft_model']}", row["form"], str(row["threads"]))
    if "gain" in row:
        return (*run, "-", "-", "left out", "-", f"{row['gain']:.2f} at 80 %", "-")
    return (
        *run,
        percent(row["accept"]),
        number(row["alone_ms"], 2),
        number(row["helped_ms"], 2),
        number(row["times"], 2),
        number(row["expected_times"], 2),
        number(row["tokens_per_pass"], 2),
    )
