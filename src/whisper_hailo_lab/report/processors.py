"""Steps, windows and words on other processors than this one as tables."""

from __future__ import annotations

from typing import Any

from whisper_hailo_lab.report.table import Table


def steps_table(rows: list[dict[str, Any]]) -> Table:
    """One line per model, as `benchmarks/processors/compare.py` found it."""
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


def stages_table(rows: list[dict[str, Any]], against: str) -> Table:
    """One line per system, as `benchmarks/processors/windows.py` counted it.

    Args:
        rows: millions of instructions of each stage and of all from log-mel to tokens.
        against: the case that the others are divided by.
    """
    stages = {"encode": "encoder", "cross_kv": "cross K/V", "decode": "decoder"}
    work = {row["case"]: row["work"] for row in rows}
    cells = tuple(
        (
            row["case"],
            *(_millions(row["stages"].get(stage)) for stage in stages),
            _millions(row["work"]),
            f"{row['work'] / work[against]:.2f}",
        )
        for row in rows
    )
    return Table(("million instructions", *stages.values(), "all", "times ours"), cells)


def words_table(rows: list[dict[str, Any]]) -> Table:
    """One line per arithmetic, as `benchmarks/processors/words.py` found it."""
    forms = list(dict.fromkeys(form for row in rows for form in row["errors"]))
    cells = tuple(
        (
            row["name"],
            "pairs in 16 bits" if row["in_pairs"] else "32 bits",
            f"{row['words']:,}",
            *(_percent(row["errors"].get(form), row["words"]) for form in forms),
        )
        for row in rows
    )
    return Table(("arithmetic", "products are added in", "words", *forms), cells)


def _percent(errors: int | None, words: int) -> str:
    return "-" if errors is None else f"{100 * errors / words:.2f} %"


def _millions(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _equality(found: dict[str, Any]) -> tuple[str, ...]:
    """Cells about the logits; dashes where only instructions were counted."""
    if "bound" not in found:
        return ("-",) * 5
    names = ("rms_difference", "rms_bound", "largest_difference", "bound")
    same = f"{found['same_token']} of {found['steps']}"
    return (*(f"{found[name]:.1e}" for name in names), same)
