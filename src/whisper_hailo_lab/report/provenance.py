"""Where the figures come from: machine, data, and how every case was run."""

from __future__ import annotations

from whisper_hailo_lab.report.gather import RunSource
from whisper_hailo_lab.report.page import ReportSection
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.report.text import number
from whisper_hailo_lab.runs.records import CaseRecord

HASH_LENGTH = 12
LEFT_OUT = frozenset({"model", "threads", "reasons"})


def provenance(source: RunSource) -> ReportSection:
    """The section of one run file."""
    header = source.header
    versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
    text = [
        f"{header.created}; {header.machine.label}; {header.machine.system}. {versions}.",
    ]
    if header.dataset:
        text.append(
            f"Data: {header.dataset}, {header.n_samples} recordings, "
            f"hash {header.dataset_sha256[:HASH_LENGTH]}."
        )
    if header.note:
        text.append(header.note)
    rows = tuple(_row(summary.case) for summary in source.systems)
    columns = ("case", "threads", "engine", "settings", "weights", "load ms", "warm-ups ms")
    return ReportSection(
        anchor=source.anchor,
        title=f"Run {source.name}",
        text=tuple(text),
        tables=(("", Table(columns, rows)),) if rows else (),
    )


def _row(case: CaseRecord) -> tuple[str, ...]:
    engine = ", ".join(f"{n} {v}" for n, v in case.versions.items() if n != "python")
    settings = ", ".join(
        f"{name} {value}" for name, value in case.heard_as.items() if name not in LEFT_OUT
    )
    weights = ", ".join(f"{n} {h[:HASH_LENGTH]}" for n, h in case.model_sha256.items())
    return (
        case.name,
        str(case.threads or "auto"),
        engine,
        case.error or settings,
        weights,
        number(case.load_ms, 0),
        ", ".join(number(ms, 0) for ms in case.warm_up_ms),
    )
