"""The table of reported speech without text in `docs/accuracy.md`."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import make_table

RESULT: Final = RESULTS / "untranscribed.json"


def make_tables(result: dict[str, Any]) -> dict[str, str]:
    """Return a line per model."""
    rows = [
        {"model": model} | entry["counts"] for model, entry in result["models"].items()
    ]
    table = make_table(
        rows,
        (
            ("model", "{model}"),
            ("recordings of people", "{recordings}"),
            ("without any text, reported", "{empty_reported} of {empty}"),
            (
                "three or more words in a row lost, reported",
                "{lost_reported} of {lost}",
            ),
            ("reports", "{reports}"),
            ("of these where no word is lost", "{false_reports}"),
            (
                "reports in recordings without speech",
                "{false_without_speech} of {without_speech}",
            ),
        ),
    )
    return {"untranscribed": f"{result['machine']}.\n\n{table.markdown()}"}
