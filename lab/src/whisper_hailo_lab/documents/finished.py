"""Tables of measurements that are over: the result is the table, and no program makes it again."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import Table

RESULT: Final = RESULTS / "finished.json"


def make_tables(result: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return every table, between what was measured and a note.

    Args:
        result: by name `columns` and `rows` of cells as text, perhaps `about` and `note`.
    """
    return {name: _write_table(entry) for name, entry in result.items()}


def _write_table(entry: dict[str, Any]) -> str:
    rows = tuple(tuple(row) for row in entry["rows"])
    text = Table(tuple(entry["columns"]), rows).markdown()
    if "about" in entry:
        text = f"{entry['about']}\n\n{text}"
    if "note" in entry:
        text += f"\n{entry['note']}\n"
    return text
