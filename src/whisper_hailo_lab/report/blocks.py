"""Generated tables inside documents that people write: found by marks, replaced, checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.marks import remark, safetensors
from whisper_hailo_lab.report import tables
from whisper_hailo_lab.report.comparisons import comparison_table
from whisper_hailo_lab.report.gather import Group, Source
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.report.text import number, percent

NOTHING: Final = "Not measured with the present weights yet: `make bench-tables`.\n"
_BLOCK: Final = re.compile(r"(<!-- table: ([a-z]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def fill(text: str, group: Group | None, weights: str) -> str:
    """A document with its tables as the runs have them.

    Args:
        text: the document; a table stands between `<!-- table: NAME -->` and
            `<!-- end of table -->`.
        group: runs of one machine; `None` where none are kept, which the document then says.
        weights: mark of the present weights; a run of others says so.

    Raises:
        OptionError: a table that does not exist, or whose run is missing.
    """
    return _BLOCK.sub(
        lambda m: f"{m[1]}{NOTHING if group is None else block(m[2], group, weights)}{m[3]}", text
    )


def block(name: str, group: Group, weights: str) -> str:
    """One table in Markdown, with the line that says where it comes from.

    Raises:
        OptionError: no such table, or no run that has it.
    """
    found = group.comparisons.get(name)
    if found is not None:
        source, record = found
        heard = "model" in record.settings  # log-mels are compared without one
        origin = _origin(source, _remark(source, weights) if heard else "")
        return f"{origin}\n\n{comparison_table(record).markdown()}"
    make = _SYSTEM_TABLES.get(name)
    measured = next((s for s in reversed(group.sources) if s.systems), None)
    if make is None or measured is None:
        raise OptionError(
            f"the runs have no table {name!r}; there are "
            f"{', '.join((*_SYSTEM_TABLES, *group.comparisons))}"
        )
    origin = _origin(measured, _remark(measured, weights))
    return f"{origin}\n\n{make(measured).markdown()}"


def headline_table(source: Source) -> Table:
    """The few columns that fit a README."""
    base = tables.reference(source)
    over = f"times {base.case.name}" if base else "speed-up"
    rows = tuple(
        (
            s.case.name,
            number(s.times.median_ms if s.times else None),
            tables.speed_up(source, s, base),
            percent(s.normalised.words.rate),
            number(s.case.memory.components_total, 0),
        )
        for s in source.systems
        if not s.case.error
    )
    return Table(("system", "median ms per file", over, "WER", "model MiB"), rows)


def _remark(source: Source, weights: str) -> str:
    return remark((h for s in source.systems for h in safetensors(s.case.model_sha256)), weights)


def _origin(source: Source, other: str) -> str:
    header = source.header
    note = f" {header.note}" if header.note else ""
    return (
        f"{header.created[:10]}, {header.machine.label}; {header.n_samples} recordings of "
        f"{header.dataset}{other}.{note}"
    )


_SYSTEM_TABLES: Final[dict[str, Callable[[Source], Table]]] = {
    "headline": headline_table,
    "latency": tables.latency_table,
    "accuracy": lambda source: tables.accuracy_table(source.systems),
    "invented": lambda source: tables.hallucination_table(source.systems),
    "memory": lambda source: tables.memory_table(source.systems),
}
