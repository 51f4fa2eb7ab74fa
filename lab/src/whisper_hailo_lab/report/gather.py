"""Run files put together, one group per machine: runs of different hardware never share a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.runs.machine import Machine
from whisper_hailo_lab.runs.records import (
    SYSTEMS_GROUP,
    ComparisonRecord,
    FileResult,
    RunHeader,
    RunRecords,
)
from whisper_hailo_lab.runs.run_file import read_run
from whisper_hailo_lab.runs.summary import Summary, summarise_case


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run file.

    Attributes:
        name: its file name, which findings refer to.
        header: its first line.
        systems: cases of systems, in order.
        comparisons: of this file.
        files: case name to its records.
    """

    name: str
    header: RunHeader
    systems: tuple[Summary, ...]
    comparisons: tuple[ComparisonRecord, ...]
    files: dict[str, tuple[FileResult, ...]]

    @property
    def anchor(self) -> str:
        """Name of its place in a page."""
        return "run-" + "".join(c if c.isalnum() else "-" for c in self.name.lower())


@dataclass(frozen=True, slots=True)
class MachineRuns:
    """All run files of one machine."""

    machine: Machine
    sources: tuple[RunSource, ...]

    @property
    def comparisons(self) -> dict[str, tuple[RunSource, ComparisonRecord]]:
        """Last comparison of every name, with its run file."""
        return {c.name: (source, c) for source in self.sources for c in source.comparisons}


def gather(paths: Sequence[Path]) -> tuple[MachineRuns, ...]:
    """Read run files and group them by machine, in the order of the first of each.

    Args:
        paths: run files; a folder stands for its `*.jsonl`.

    Raises:
        OptionError: no run files, or broken ones.
    """
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise OptionError(
            f"no run files in {', '.join(map(str, paths)) or 'nothing'}; "
            "make some with evaluate --out or compare --out"
        )
    return group([(file.name, read_run(file)) for file in files])


def group(runs: Sequence[tuple[str, RunRecords]]) -> tuple[MachineRuns, ...]:
    """Runs with their names, one group for each machine: what ran elsewhere is never merged."""
    machines: dict[str, Machine] = {}
    sources: dict[str, list[RunSource]] = {}
    for name, run in runs:
        machine = run.header.machine
        machines.setdefault(machine.id, machine)
        sources.setdefault(machine.id, []).append(_source(name, run))
    return tuple(MachineRuns(machines[key], tuple(found)) for key, found in sources.items())


def _source(name: str, run: RunRecords) -> RunSource:
    files = {case.name: run.files_of(case.name) for case in run.cases}
    return RunSource(
        name=name,
        header=run.header,
        systems=tuple(
            summarise_case(case, files[case.name])
            for case in run.cases
            if case.group == SYSTEMS_GROUP
        ),
        comparisons=tuple({c.name: c for c in run.comparisons}.values()),
        files=files,
    )


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
