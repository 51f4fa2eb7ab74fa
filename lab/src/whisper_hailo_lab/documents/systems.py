"""Tables of `docs/measurements/report.md`: real checkpoints on recordings of people."""

from __future__ import annotations

from typing import Final

from whisper_hailo_lab.report.gather import RunSource, gather_runs
from whisper_hailo_lab.report.tables import comparison_table, overview_table
from whisper_hailo_lab.repository import RESULTS

RESULT: Final = RESULTS / "systems.jsonl"
"""Run file of `make lab NAME=bench ARGS="--plan people"`."""


def make_tables() -> dict[str, str]:
    """Return the overview and the comparisons of the kept run; nothing without one."""
    if not RESULT.is_file():
        return {}
    ((source,),) = (machine.sources for machine in gather_runs([RESULT]))
    origin = _describe_origin(source)
    tables = {"systems": f"{origin}\n\n{overview_table(source.systems).markdown()}"}
    for record in source.comparisons:
        table = comparison_table(record).markdown()
        tables[f"systems-{record.name}"] = (
            f"{origin} Model {record.settings['model']}.\n\n{table}"
        )
    return tables


def _describe_origin(source: RunSource) -> str:
    header = source.header
    version = header.versions.get("whisper-hailo", "")
    return (
        f"{header.created[:10]}, {header.machine.label}; whisper-hailo {version}; "
        f"{header.n_samples} recordings of {header.dataset}. {header.note}".rstrip()
    )
