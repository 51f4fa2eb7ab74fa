"""One row of the table of processors, to paste into a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from whisper_hailo.core.version import __version__

if TYPE_CHECKING:
    from whisper_hailo_lab.runs.machine import Machine
    from whisper_hailo_lab.timing.one_file import FileTiming

COLUMNS: Final = (
    "processor",
    "instruction sets",
    "model",
    "threads",
    "processor s a minute",
    "seconds a minute",
    "peak MiB",
    "version",
)
"""Those of the table in `docs/measurements/processors.md`."""

_MINUTE_S: Final = 60.0


def report_table(timing: FileTiming, instruction_sets: Sequence[str]) -> str:
    """Return a Markdown table whose only row is of this machine."""
    minutes = timing.transcript.duration_s / _MINUTE_S
    settings = timing.settings
    row = (
        _processor_name(timing.machine),
        ", ".join(instruction_sets) or "none known",
        f"{settings.model}, {settings.quantization}",
        str(settings.threads or "automatic"),
        f"{timing.processor_ms.median / 1000 / minutes:.1f}",
        f"{timing.stages_ms['total'].median / 1000 / minutes:.1f}",
        f"{timing.peak_mib:.0f}",
        __version__,
    )
    lines = [COLUMNS, ("---",) * len(COLUMNS), row]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _processor_name(machine: Machine) -> str:
    """Return the board if there is one, the processor, and its cores."""
    names = [machine.board, machine.cpu, f"{machine.n_cpus} cores"]
    accelerator = machine.accelerator and os.path.basename(machine.accelerator)
    names.append(accelerator)
    return ", ".join(name for name in names if name).replace("|", "/")
