"""The table of what `experiments.interrupted` measured."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = RESULTS / "interrupted.json"
COLUMNS: Final = ("killed with so much done", "same files in the end")


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """A line per kill.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    text = (
        f"`python -m whisper_hailo_lab.experiments.interrupted`: {result['minutes']:g} minutes of "
        f"the frozen clips, `micro`, {result['machine']}"
        f"{remark([result.get('weights', '')], weights)}. First line of text after "
        f"{result['first_text_s']:.1f} s, all {result['lines']:,} lines after "
        f"{result['straight_s']:.0f} s.\n\n"
    )
    rows = tuple(map(_row, sorted(result["kills"], key=lambda kill: kill["at"])))
    return {"interrupted": text + Table(COLUMNS, rows).markdown()}


def _row(kill: dict[str, Any]) -> tuple[str, ...]:
    at = f"{100 * kill['at']:.0f} %" if kill["killed"] else "done before"
    return at, "yes" if kill["same"] else "NO"
