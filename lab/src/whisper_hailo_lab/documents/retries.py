"""The tables of what doubtful windows cost, in `docs/decoding.md`."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.documents.accuracy import SPEECH_GROUPS, score_of
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import DASH, Column, format_percent, make_table

RESULT: Final = RESULTS / "retries.json"

_WORK_COLUMNS: Final[tuple[Column, ...]] = (
    ("model", "{model}"),
    ("retries", "{policy}"),
    ("windows", "{work.windows}"),
    ("searched again", "{work.retried}"),
    ("measure", "{measure}"),
    ("all windows", "{ratios.all:.2f}"),
    ("median", "{ratios.median:.2f}"),
    ("99 %", "{ratios.p99:.2f}"),
    ("worst", "{ratios.worst:.1f}"),
)

_MEASURES: Final = {"rows": "rows", "time": "processor time"}


def make_tables(result: dict[str, Any]) -> dict[str, str]:
    """Return the tables of cost and of words.

    Args:
        result: kept by `accuracy retries`.
    """
    rows = [
        {"model": model} | row
        for model, policies in result["models"].items()
        for row in policies
    ]
    work = make_table(
        [
            row | {"measure": heading, "ratios": row["work"][measure]}
            for row in rows
            for measure, heading in _MEASURES.items()
        ],
        _WORK_COLUMNS,
    )
    measured = {kind for row in rows for kind in row["words"]}
    kinds = [kind for kind in SPEECH_GROUPS if kind in measured]
    words = make_table(
        rows,
        (
            ("model", "{model}"),
            ("retries", "{policy}"),
            ("recordings", "{recordings}"),
            *((kind, _error_cell(kind)) for kind in kinds),
        ),
    )
    origin = f"{rows[0]['machine']}.\n\n"
    return {
        "retries-work": origin + work.markdown(),
        "retries-words": origin + words.markdown(),
    }


def _error_cell(kind: str) -> Any:  # noqa: ANN401 - a cell
    """Return the cell of the errors in a group of recordings."""

    def format_errors(row: dict[str, Any]) -> str:
        if kind not in row["words"]:  # an English model has no other languages
            return DASH
        score = score_of(row["words"][kind])
        return (
            f"{format_percent(score.rate)}, {score.errors} of {score.reference_count}"
        )

    return format_errors
