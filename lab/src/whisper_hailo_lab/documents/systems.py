"""Tables of `docs/measurements/report.md`: real checkpoints on recordings of people."""

from __future__ import annotations

from typing import Final

from whisper_hailo_lab.report.gather import RunSource, gather_runs
from whisper_hailo_lab.report.tables import overview_table
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import Column, format_share, make_table

RESULT: Final = RESULTS / "systems.jsonl"
"""Run file of `make lab NAME=bench ARGS="--plan people"`."""

_COMPARED: Final[tuple[Column, ...]] = (
    ("setting", "{value}"),
    (
        "words wrong",
        "{wer:.1%} ({substitutions}, {deletions}, {insertions} of {words})",
    ),
    ("budget ran out", lambda row: format_share(row["runaway"], row["files"])),
    ("repeats itself", "{repetitive} of {files}"),
    ("text for silence", "{silent_with_text} of {silent}"),
)
"""Columns of a comparison that do not depend on what else ran on the machine."""


def make_tables() -> dict[str, str]:
    """Return the overview and the comparisons of the kept run; nothing without one."""
    if not RESULT.is_file():
        return {}
    ((source,),) = (machine.sources for machine in gather_runs([RESULT]))
    origin = _describe_origin(source)
    tables = {"systems": f"{origin}\n\n{overview_table(source.systems).markdown()}"}
    for record in source.comparisons:
        table = make_table(record.rows, _COMPARED).markdown()
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
