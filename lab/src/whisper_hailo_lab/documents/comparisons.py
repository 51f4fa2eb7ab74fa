"""Tables of `compare`, in `docs/measurements/speed.md`, from the run files that are kept."""

from __future__ import annotations

from whisper_hailo_lab.report.gather import RunSource, gather_runs
from whisper_hailo_lab.report.tables import comparison_table
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.results import remark_weights, safetensors_hashes


def make_tables(weights: str) -> dict[str, str]:
    """Return the tables of `compare`, each from the last run that has it."""
    machine = gather_runs([RESULTS])[0]
    return {
        name: f"{_describe_origin(source, weights)}\n\n"
        f"{comparison_table(record).markdown()}"
        for name, (source, record) in machine.comparisons.items()
    }


def _describe_origin(source: RunSource, weights: str) -> str:
    header = source.header
    hashes = [
        value
        for system in source.systems
        for value in safetensors_hashes(system.case.model_sha256)
    ]
    other = remark_weights(hashes, weights)
    note = f" {header.note}" if header.note else ""
    return (
        f"{header.created[:10]}, {header.machine.label}; {header.n_samples} recordings of "
        f"{header.dataset}{other}.{note}"
    )
