"""Run files grouped by machine: runs of different hardware never share a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.runs.machine import Machine
from whisper_hailo_lab.runs.records import (
    COMPARISONS,
    SYSTEMS_GROUP,
    ComparisonRecord,
    FileResult,
    RunHeader,
    RunRecords,
)
from whisper_hailo_lab.runs.run_file import read_run
from whisper_hailo_lab.runs.summary import Summary, summarise_case

CHIP: Final = "hailo"
"""Encoder backend of cases on a chip."""

BUSY_RATIO: Final = 1.25
"""Of the clock's time to the processor's, on one thread: 1.0 to 1.1 on an idle machine."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """One run file.

    Attributes:
        name: file name, which findings refer to.
        header: first line.
        systems: cases of systems, in order.
        comparisons: comparisons that this version knows, in order.
        files: records of each case, by its name.
    """

    name: str
    header: RunHeader
    systems: tuple[Summary, ...]
    comparisons: tuple[ComparisonRecord, ...]
    files: dict[str, tuple[FileResult, ...]]

    @property
    def was_busy(self) -> bool:
        """Whether other programs ran: the clock's times were longer than the processor's.

        A chip's rows tell nothing of it, since the processor waits for the chip.
        """
        ratios = []
        for system in self.systems:
            is_on_chip = system.case.settings.get("encoder_backend") == CHIP
            if system.times is not None and system.times.cpu_ms and not is_on_chip:
                ratios.append(system.times.total_ms / system.times.cpu_ms)
        return bool(ratios) and median(ratios) > BUSY_RATIO

    @property
    def anchor(self) -> str:
        """Anchor of the run in a page."""
        letters = (letter if letter.isalnum() else "-" for letter in self.name.lower())
        return f"run-{''.join(letters)}"


@dataclass(frozen=True, slots=True)
class MachineRuns:
    """All run files of one machine."""

    machine: Machine
    sources: tuple[RunSource, ...]

    @property
    def comparisons(self) -> dict[str, tuple[RunSource, ComparisonRecord]]:
        """Last comparison of every name, with its run file."""
        return {
            record.name: (source, record)
            for source in self.sources
            for record in source.comparisons
        }


def gather_runs(paths: Sequence[Path]) -> tuple[MachineRuns, ...]:
    """Read run files and group them by machine, in the order of the first of each.

    Args:
        paths: run files; a folder stands for its `*.jsonl`.

    Raises:
        OptionError: no run files, or broken ones.
    """
    files = [file for path in paths for file in _run_files(path)]
    if not files:
        raise OptionError(
            f"no run files in {', '.join(map(str, paths)) or 'nothing'}; "
            "make some with evaluate --out or compare --out"
        )
    return group_by_machine([(file.name, read_run(file)) for file in files])


def group_by_machine(runs: Sequence[tuple[str, RunRecords]]) -> tuple[MachineRuns, ...]:
    """Group named runs by machine."""
    machines: dict[str, Machine] = {}
    sources: dict[str, list[RunSource]] = {}
    for name, run in runs:
        machine = run.header.machine
        machines.setdefault(machine.id, machine)
        sources.setdefault(machine.id, []).append(_make_source(name, run))
    return tuple(
        MachineRuns(machines[key], tuple(group)) for key, group in sources.items()
    )


def _make_source(name: str, run: RunRecords) -> RunSource:
    files = {case.name: run.files_of(case.name) for case in run.cases}
    systems = [case for case in run.cases if case.group == SYSTEMS_GROUP]
    latest = {
        record.name: record for record in run.comparisons if record.name in COMPARISONS
    }
    return RunSource(
        name=name,
        header=run.header,
        systems=tuple(summarise_case(case, files[case.name]) for case in systems),
        comparisons=tuple(latest.values()),
        files=files,
    )


def _run_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
