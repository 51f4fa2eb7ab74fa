"""The table of what `experiments.fallback` measured."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.rates import Score, corpus
from whisper_hailo_lab.report.table import Table, percent
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = RESULTS / "fallback.json"
COLUMNS: Final = (
    "set", "clips", "WER off", "WER on", "clips with text off / on", "segments found hot",
    "decoder time on : off",
)  # fmt: skip


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """A line per set.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    text = (
        f"`make fallback`: `micro`, at most {result['limit']} clips of each frozen set, 10 s "
        f"windows, off and on in turns; {result['machine']}"
        f"{remark([result.get('weights', '')], weights)}. Of times only the ratio is shown, since "
        "other work slows both alike.\n\n"
    )
    return {"fallback": text + Table(COLUMNS, tuple(map(_row, result["rows"]))).markdown()}


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    off, on = row["off"], row["on"]
    rates = [corpus(Score(*counts) for counts in found["counts"]) for found in (off, on)]
    return (
        row["set"],
        str(row["clips"]),
        *(percent(rate.rate) if rate.reference_count else "-" for rate in rates),
        f"{off['with_text']} / {on['with_text']}",
        f"{on['hot']} of {on['segments']}",
        f"{on['decode_ms'] / off['decode_ms']:.2f}",
    )
