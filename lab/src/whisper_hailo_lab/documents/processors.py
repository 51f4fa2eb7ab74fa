"""The tables of other processors than this one: steps, windows and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from whisper_hailo_lab.report.table import Table, table_of
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark
from whisper_hailo_lab.speed.plan import INT8_INT8

STEPS: Final = RESULTS / "aarch64.json"
WINDOWS: Final = RESULTS / "aarch64_windows.json"
WORDS: Final = RESULTS / "processors.json"


def steps_tables(rows: list[dict[str, Any]], _weights: str) -> dict[str, str]:
    """The steps on the emulated processor beside this one's, on whatever weights."""
    return {"aarch64-steps": steps_table(rows).markdown()}


def windows_tables(rows: list[dict[str, Any]], _weights: str) -> dict[str, str]:
    """Whole windows on the emulated processor; the weights are random."""
    return {"aarch64-windows": stages_table(rows, INT8_INT8).markdown()}


def words_tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """Word error rates by arithmetic; `weights` is the mark of the present ones."""
    line = f"The bundled model{remark([result.get('weights', '')], weights)}.\n\n"
    return {"processor-words": line + words_table(result["rows"]).markdown()}


def steps_table(rows: list[dict[str, Any]]) -> Table:
    """One line per model, as `processors.compare` found it."""
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
    """One line per system, as `processors.windows` counted it.

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
    """One line per arithmetic, as `processors.words` found it."""

    def errors(form: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: _percent(row["errors"].get(form), row["words"])

    forms = dict.fromkeys(form for row in rows for form in row["errors"])
    return table_of(
        rows,
        ("arithmetic", lambda row: row["name"]),
        ("products are added in", lambda row: "pairs in 16 bits" if row["in_pairs"] else "32 bits"),
        ("words", lambda row: f"{row['words']:,}"),
        *((form, errors(form)) for form in forms),
    )


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
