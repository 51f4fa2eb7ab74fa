"""The table of programs for archives in `docs/measurements/archives.md`."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import make_table

RESULT: Final = RESULTS / "archive_peers.json"


def make_tables(result: dict[str, Any]) -> dict[str, str]:
    """Return a line per system."""
    table = make_table(
        result["systems"],
        (
            ("program", "{label}"),
            ("short: processor s a minute", "{short.cpu_s_per_minute:.1f}"),
            ("error rate", "{short.error_rate:.1%}"),
            ("long: processor s a minute", "{long.cpu_s_per_minute:.1f}"),
            ("error rate", "{long.error_rate:.1%}"),
            ("start, processor s", "{start_s:.1f}"),
            ("most memory, MiB", "{peak_mib:.0f}"),
        ),
    )
    return {"archive-peers": f"{result['about']}\n\n{table.markdown()}"}
