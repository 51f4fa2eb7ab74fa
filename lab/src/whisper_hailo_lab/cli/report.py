"""`whisper-hailo report`: run files in, a page with tables and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.flags import Flag
from whisper_hailo_lab.program import require_extra


def report(
    runs: Annotated[list[Path], Argument("Run files, or folders of them.")],
    out: Annotated[Path, Flag("Folder to write to.", metavar="DIR")] = Path("report"),
) -> None:
    """Write report.md, index.html and charts; nothing is measured."""
    from whisper_hailo_lab.report.build import write_report

    require_extra("bench", "report", "matplotlib")
    emit(f"{write_report(runs, out)}\n")
