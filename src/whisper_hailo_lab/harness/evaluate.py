"""One call from a dataset and a list of cases to a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whisper_hailo_lab.data.datasets import Dataset
from whisper_hailo_lab.harness.processes import TOGETHER, Harness, Progress
from whisper_hailo_lab.runs.machine import package_versions, this_machine
from whisper_hailo_lab.runs.records import (
    Case,
    CaseRecord,
    FileResult,
    Record,
    Row,
    RunHeader,
    RunRecords,
)
from whisper_hailo_lab.runs.run_file import RunWriter
from whisper_hailo_lab.systems.table import entry

HARNESS_PACKAGES = ("whisper-hailo", "onnxruntime", "numpy", "jiwer", "whisper-normalizer")


def evaluate(
    cases: Sequence[Case],
    dataset: Dataset,
    out: Path | None,
    progress: Progress,
    *,
    together: int = TOGETHER,
    note: str = "",
) -> RunRecords:
    """Measure cases on a dataset.

    Args:
        cases: what to measure; their names are unique.
        dataset: on what.
        out: run file to add the records to; `None` writes none.
        progress: told about each step.
        together: cases alive at once.
        note: free text for the run's header.

    Returns:
        the records of this call.
    """
    records: list[Record] = []
    header = new_header(dataset, note)
    writer = None if out is None else RunWriter(out, header, append=True)

    def sink(record: Record) -> None:
        records.append(record)
        if writer is not None:
            writer.write(record)

    try:
        Harness(sink, progress, together).run(cases, dataset)
    finally:
        if writer is not None:
            writer.close()
    return RunRecords(
        header=header,
        cases=tuple(r for r in records if isinstance(r, CaseRecord)),
        files=tuple(r for r in records if isinstance(r, FileResult)),
    )


def new_header(dataset: Dataset | None = None, note: str = "") -> RunHeader:
    """First line of a run of this machine, now."""
    return RunHeader(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine(),
        versions=package_versions(HARNESS_PACKAGES),
        dataset="" if dataset is None else dataset.name,
        dataset_sha256="" if dataset is None else dataset.sha256,
        n_samples=0 if dataset is None else len(dataset.samples),
        note=note,
    )


def make_cases(
    systems: Sequence[str],
    rows: Sequence[str],
    common: Case,
    ours: dict[str, Any],
    others: dict[str, Any],
) -> tuple[Case, ...]:
    """Every system under every row.

    Args:
        systems: names.
        rows: names of rules.
        common: model, language and threads for all.
        ours: settings of our own system.
        others: settings of whatever system knows them.
    """
    made = []
    for system in dict.fromkeys(systems):
        label = entry(system).label
        settings = others | (ours if system == "ours" else {})
        made += [
            replace(
                common,
                name=f"{label}, {row}",
                system=system,
                row=_row(row),
                settings=settings,
            )
            for row in dict.fromkeys(rows)
        ]
    return tuple(made)


def _row(name: str) -> Row:
    row: Row = name  # type: ignore[assignment]
    return row  # `Case` refuses names that do not exist
