"""Every table of the documents by its name, and the documents as they should be."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.documents import (
    accuracy,
    archives,
    captions,
    device_faults,
    emulation,
    interrupted,
    manual,
    processors,
    server,
    settings,
    short_windows,
    spoken_commands,
    systems,
    windows,
)
from whisper_hailo_lab.documents.speed import tables as speed
from whisper_hailo_lab.report.gather import gather
from whisper_hailo_lab.repository import MICRO, RESULTS, ROOT
from whisper_hailo_lab.runs.machine import mark_of
from whisper_hailo_lab.runs.run_file import read_run

logger = logging.getLogger(__name__)

Tables: TypeAlias = dict[str, str]
"""Markdown by the name of a table, ending in a line end."""

Maker: TypeAlias = Callable[[Any, str], Tables]
"""Tables of a kept result, given the mark of the present weights."""

KEPT: Final[tuple[tuple[Path, Maker], ...]] = (
    (accuracy.RESULT, accuracy.tables),
    (archives.RESULT, archives.tables),
    (archives.SCALE, archives.scale_tables),
    (captions.RESULT, captions.tables),
    (device_faults.RESULT, device_faults.tables),
    (emulation.RESULT, emulation.tables),
    (interrupted.RESULT, interrupted.tables),
    (processors.STEPS, processors.steps_tables),
    (processors.WINDOWS, processors.windows_tables),
    (processors.WORDS, processors.words_tables),
    (server.RESULT, server.tables),
    (short_windows.RESULT, short_windows.tables),
    (spoken_commands.RESULT, spoken_commands.tables),
    (windows.RESULT, windows.tables),
)
"""Results in JSON, and what makes their tables; the others are run files."""

CHART: Final = ROOT / "docs" / "img" / "speed.svg"
_PLACE: Final = re.compile(r"(<!-- table: ([a-z0-9-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def kept_tables() -> Tables:
    """All tables, of the results that are kept."""
    weights = mark_of(MICRO)
    found = systems.tables(gather([RESULTS])[0], weights)
    found |= settings.tables()
    found |= speed.tables(read_run(speed.RESULT), weights)
    for path, make in KEPT:
        if path.is_file():  # without it the documents' places tell which table is missing
            found |= make(json.loads(path.read_text(encoding="utf-8")), weights)
    return found


def fill(text: str, tables: Tables) -> str:
    """A document with its tables as the results have them.

    Args:
        text: the document; a table stands between `<!-- table: NAME -->` and
            `<!-- end of table -->`.
        tables: by name.

    Raises:
        OptionError: no such table.
    """
    unknown = sorted(places(text) - tables.keys())
    if unknown:
        raise OptionError(
            f"no kept result has a table {unknown[0]!r}; there are {', '.join(sorted(tables))}"
        )
    return _PLACE.sub(lambda found: f"{found[1]}{tables[found[2]]}{found[3]}", text)


def places(text: str) -> set[str]:
    """Names of the tables that a document has a place for."""
    return {found[2] for found in _PLACE.finditer(text)}


def stale() -> dict[Path, str]:
    """Documents that are not what results and commands say, with what they should be.

    Raises:
        OptionError: a place without a table.
    """
    tables = kept_tables()
    texts = {path: _read(path) for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))}
    wanted = {path: fill(text, tables) for path, text in texts.items()}
    run = read_run(speed.RESULT)
    if speed.run_mark(run) not in _read(CHART):
        wanted[CHART] = speed.chart_svg(run)
    wanted |= manual.files()
    return {path: text for path, text in wanted.items() if text != _read(path)}


def write() -> None:
    """Replace what is stale, and log which files."""
    for path, text in stale().items():
        write_file(path, text)
        logger.info("wrote %s", path.relative_to(ROOT))


def keep(path: Path, result: object, *, indent: int | None = None) -> None:
    """Keep a result as JSON, and write what the documents say of it."""
    write_file(path, json.dumps(result, indent=indent) + "\n")
    write()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
