"""The decoder steps on an emulated Cortex-A76 as a table."""

from __future__ import annotations

from typing import Any

from whisper_hailo.bench.report.table import Table


def steps_table(rows: list[dict[str, Any]]) -> Table:
    """One line per model, as `benchmarks/aarch64/compare.py` found it."""
    columns = ("decoder", "million instructions per step", "largest difference of a logit", "bound",
               "same likeliest token")  # fmt: skip
    cells = tuple(
        (found["model"], f"{found['instructions'] / 1e6:.2f}", *_equality(found)) for found in rows
    )  # fmt: skip
    return Table(columns, cells)


def _equality(found: dict[str, Any]) -> tuple[str, str, str]:
    """Cells about the logits; dashes where only instructions were counted."""
    if "bound" not in found:
        return "-", "-", "-"
    same = f"{found['same_token']} of {found['steps']}"
    return f"{found['largest_difference']:.1e}", f"{found['bound']:.1e}", same
