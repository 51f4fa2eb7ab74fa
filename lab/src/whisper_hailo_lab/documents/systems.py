"""Tables of `make lab NAME=bench`: systems compared, and single settings compared."""

from __future__ import annotations

from whisper_hailo_lab.report import tables as report
from whisper_hailo_lab.report.gather import MachineRuns, RunSource
from whisper_hailo_lab.report.table import Table, number, percent, table_of
from whisper_hailo_lab.report.tables import comparison_table
from whisper_hailo_lab.runs.machine import remark, safetensors
from whisper_hailo_lab.runs.summary import Summary, median_cpu_ms, paired_ratio


def tables(group: MachineRuns, weights: str) -> dict[str, str]:
    """Every table with the line that says where it comes from.

    Args:
        group: runs of one machine.
        weights: mark of the present weights; a run of others says so.
    """
    found: dict[str, str] = {}
    source = next((source for source in reversed(group.sources) if source.systems), None)
    if source is not None:
        origin = _origin(source, _remark(source, weights))
        made = {
            "latency": report.latency_table(source),
            "accuracy": report.accuracy_table(source.systems),
            "invented": report.hallucination_table(source.systems),
            "memory": report.memory_table(source.systems),
        }
        found |= {name: f"{origin}\n\n{table.markdown()}" for name, table in made.items()}
    if (source := next(filter(_has_ours, reversed(group.sources)), None)) is not None:
        origin = _origin(source, _remark(source, weights))
        found["headline"] = f"{origin}\n\n{headline_table(source).markdown()}"
    for name, (of, record) in group.comparisons.items():
        of_a_model = "model" in record.settings  # log-mels are compared without one
        origin = _origin(of, _remark(of, weights) if of_a_model else "")
        found[name] = f"{origin}\n\n{comparison_table(record).markdown()}"
    return found


def _has_ours(source: RunSource) -> bool:
    """Whether a run has ours as it comes, beside whatever else."""
    return any(s.case.row == "default" and s.case.system == "ours" for s in source.systems)


def headline_table(source: RunSource) -> Table:
    """The few columns and rows that fit a README: every program as it comes.

    Processor time, since other work on the machine hardly touches it; all have one thread.
    """
    shown = [s for s in source.systems if s.case.row == "default" and s.times is not None]
    base = next((s.case.name for s in shown if s.case.system == report.REFERENCE), None)

    def speed_up(summary: Summary) -> str:
        if base is None:
            return "-"
        files = source.files
        return number(paired_ratio(files[base], files[summary.case.name], "cpu"), 1)

    return table_of(
        shown,
        ("program", lambda s: s.case.name.removesuffix(", default")),
        ("ms of processor time", lambda s: number(median_cpu_ms(source.files[s.case.name]), 0)),
        ("times as fast as faster-whisper", speed_up),
        ("words wrong", lambda s: percent(s.normalised.words.rate)),
        ("MiB for the model", lambda s: number(s.case.memory.components_total, 0)),
    )


def _remark(source: RunSource, weights: str) -> str:
    return remark((h for s in source.systems for h in safetensors(s.case.model_sha256)), weights)


def _origin(source: RunSource, other: str) -> str:
    header = source.header
    note = f" {header.note}" if header.note else ""
    return (
        f"{header.created[:10]}, {header.machine.label}; {header.n_samples} recordings of "
        f"{header.dataset}{other}.{note}"
    )
