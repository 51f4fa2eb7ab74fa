"""`whisper-hailo report`: run files in, a page with tables and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whisper_hailo.cli.stdout import emit
from whisper_hailo.core.extras import require


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Run files, or folders of them.", readable=False)
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to write to.", readable=False)
    ] = Path("report"),
) -> None:
    """Write report.md, index.html and charts; nothing is measured."""
    from whisper_hailo_lab.report.build import report as write

    require("bench", "report", "matplotlib")
    emit(f"{write(runs, out)}\n")
