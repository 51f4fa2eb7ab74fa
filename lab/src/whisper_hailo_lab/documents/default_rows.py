"""The table of the defaults in `docs/accuracy.md`: the present program beside the other rows'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from whisper_hailo_lab.documents.accuracy import (
    RESULT as EARLIER,
)
from whisper_hailo_lab.documents.accuracy import (
    SILENT,
    SPEECH_GROUPS,
    label_row,
    score_of,
)
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.results import read_result
from whisper_hailo_lab.tables import format_percent, make_table

RESULT: Final = RESULTS / "default_rows.json"

Row = dict[str, Any]


def make_tables(result: Row) -> dict[str, str]:
    """Return a line for each model, kind of text and group of recordings.

    Args:
        result: kept by `accuracy defaults`.
    """
    earlier = read_result(EARLIER).get("tables", {}).get("peers", ())
    before = {(row["row"], row["group"]): row for row in earlier}
    rows = [
        _compare_rows(row, before.get((row["row"], row["group"])))
        for row in _in_order(result["rows"])
    ]
    table = make_table(
        rows,
        (
            ("model", "{label}"),
            ("recordings", "{recordings}"),
            ("error rate, or words without speech", "{now}"),
            ("sub", "{substitutions}"),
            ("del", "{deletions}"),
            ("ins", "{insertions}"),
            ("loops", "{loops}"),
            ("before", "{before}"),
        ),
    )
    origin = f"{result['machine']}; whisper-hailo {result['version']}."
    return {"default-rows": f"{origin}\n\n{table.markdown()}"}


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Return the rows by groups, as the other tables have them."""
    groups = (*SPEECH_GROUPS, SILENT)
    return [row for group in groups for row in rows if row["group"] == group]


def _compare_rows(now: Row, before: Row | None) -> Row:
    """Return the cells of a line."""
    n_recordings = now["recordings"] + now["no_speech"]
    return now | {
        "label": label_row(now).removeprefix("whisper-hailo, "),
        "recordings": f"{n_recordings} {now['group']}",
        "now": _describe_errors(now),
        "before": None if before is None else _describe_errors(before),
    }


def _describe_errors(row: Row) -> str:
    """Return the error rate of speech, or what was written without any."""
    if row["group"] == SILENT:
        return f"{row['invented']} in {row['no_speech_with_text']}"
    return format_percent(score_of(row).rate)
