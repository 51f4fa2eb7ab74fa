"""Tables of other processors: decoder steps, whole windows and words."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.results import remark_weights
from whisper_hailo_lab.tables import DASH, Column, Table, make_table

STEPS: Final = RESULTS / "aarch64.json"
WINDOWS: Final = RESULTS / "aarch64_windows.json"
WORDS: Final = RESULTS / "processors.json"

Row = dict[str, Any]

_OURS: Final = "ours, INT8 encoder + 8-bit decoder"
"""Case that the others are divided by."""


def step_tables(rows: list[Row], _weights: str) -> dict[str, str]:
    """Return steps on the emulated processor beside this one's."""
    return {"aarch64-steps": step_table(rows).markdown()}


def step_table(rows: list[Row]) -> Table:
    """Return one line per model of `processors.compare`; some were only counted."""
    return make_table(
        [row if row["instructions"] else row | {"instructions": None} for row in rows],
        (
            ("decoder", "{model}"),
            ("million instructions per step", _step_instructions),
            ("difference of logits (RMS)", "{rms_difference:.1e}"),
            ("at most", "{rms_bound:.1e}"),
            ("largest difference", "{largest_difference:.1e}"),
            ("at most", "{bound:.1e}"),
            ("same likeliest token", _same_tokens),
        ),
    )


def _step_instructions(row: Row) -> str:
    return f"{row['instructions'] / 1e6:.2f}" if row["instructions"] else DASH


def _same_tokens(row: Row) -> str:
    return f"{row['same_token']} of {row['steps']}" if "steps" in row else DASH


def window_tables(rows: list[Row], _weights: str) -> dict[str, str]:
    """Return whole windows on the emulated processor, in millions of instructions."""
    (ours,) = (row["work"] for row in rows if row["case"] == _OURS)
    table = make_table(
        rows,
        (
            ("million instructions", "{case}"),
            ("encoder", "{stages.encode:,.0f}"),
            ("cross K/V", "{stages.cross_kv:,.0f}"),
            ("decoder", "{stages.decode:,.0f}"),
            ("all", "{work:,.0f}"),
            ("times ours", lambda row: f"{row['work'] / ours:.2f}"),
        ),
    )
    return {"aarch64-windows": table.markdown()}


def word_tables(result: Row, weights: str) -> dict[str, str]:
    """Return word error rates of the bundled model by arithmetic."""
    forms = dict.fromkeys(form for row in result["rows"] for form in row["errors"])
    rows = [row | {"rates": _error_rates(row)} for row in result["rows"]]
    columns: list[Column] = [
        ("arithmetic", "{name}"),
        ("products are added in", _sum_width),
        ("words", "{words:,}"),
    ]
    columns += [(form, f"{{rates.{form}:.2%}}") for form in forms]
    origin = (
        f"The bundled model{remark_weights([result.get('weights', '')], weights)}.\n\n"
    )
    return {"processor-words": origin + make_table(rows, columns).markdown()}


def _error_rates(row: Row) -> dict[str, float]:
    return {form: errors / row["words"] for form, errors in row["errors"].items()}


def _sum_width(row: Row) -> str:
    return "pairs in 16 bits" if row["in_pairs"] else "32 bits"
