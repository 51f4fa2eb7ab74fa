"""Tables of other processors: decoder steps, and expected times of a Raspberry Pi 5."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.documents.expected_times import expected_times
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import DASH, Table, make_table

STEPS: Final = RESULTS / "aarch64.json"

Row = dict[str, Any]


def step_tables(rows: list[Row]) -> dict[str, str]:
    """Return steps on the emulated processor beside this one's."""
    return {"aarch64-steps": step_table(rows).markdown()}


def expected_tables() -> dict[str, str]:
    """Return expected times of a Raspberry Pi 5 by model."""
    table = make_table(
        list(expected_times()),
        (
            ("model, 8 bits", "{model}"),
            ("encoder s", "{encoder_s:.1f}"),
            ("decoder s", "{decoder_s:.1f}"),
            ("expected s a minute", "{total_s:.1f}"),
            ("expected real-time factor", "{real_time_factor:.2f}"),
        ),
    )
    return {"raspberry-pi-expected": table.markdown()}


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
