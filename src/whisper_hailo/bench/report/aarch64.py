"""The decoder steps on an emulated Cortex-A76 as a table."""

from __future__ import annotations

from typing import Any

from whisper_hailo.bench.report.table import Table


def steps_table(rows: list[dict[str, Any]]) -> Table:
    """One line per model, as `benchmarks/aarch64/compare.py` found it."""
    columns = ("decoder", "million instructions per step", "difference of logits (RMS)", "at most",
               "largest difference", "at most", "same likeliest token")  # fmt: skip
    cells = tuple(
        (
            found["model"],
            f"{found['instructions'] / 1e6:.2f}" if found["instructions"] else "-",
            *_equality(found),
        )
        for found in rows
    )
    return Table(columns, cells)


def _equality(found: dict[str, Any]) -> tuple[str, ...]:
    """Cells about the logits; dashes where only instructions were counted."""
    if "bound" not in found:
        return ("-",) * 5
    names = ("rms_difference", "rms_bound", "largest_difference", "bound")
    same = f"{found['same_token']} of {found['steps']}"
    return (*(f"{found[name]:.1e}" for name in names), same)
