"""Documents with their generated tables: filled, compared and written."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.documents import (
    accuracy,
    archive_peers,
    captions,
    comparisons,
    device_faults,
    finished,
    manual,
    processors,
    retries,
    server,
    settings,
    speakers,
    spoken_commands,
    systems,
    untranscribed,
)
from whisper_hailo_lab.repository import MICRO, ROOT
from whisper_hailo_lab.runs.results import mark_weights, read_result, write_result

logger = logging.getLogger(__name__)

Tables: TypeAlias = dict[str, str]
"""Markdown by the name of a table, ending in a line end."""

TableMaker: TypeAlias = Callable[[Any], Tables]
"""Makes the tables of a kept result."""

KEPT: Final[tuple[tuple[Path, TableMaker], ...]] = (
    (accuracy.RESULT, accuracy.make_tables),
    (archive_peers.RESULT, archive_peers.make_tables),
    (captions.RESULT, captions.make_tables),
    (device_faults.RESULT, device_faults.make_tables),
    (finished.RESULT, finished.make_tables),
    (processors.STEPS, processors.step_tables),
    (retries.RESULT, retries.make_tables),
    (server.RESULT, server.make_tables),
    (speakers.RESULT, speakers.make_tables),
    (spoken_commands.RESULT, spoken_commands.make_tables),
    (untranscribed.RESULT, untranscribed.make_tables),
)
"""Results in JSON with their tables; the other tables are made of run files and commands."""

_PLACE: Final = re.compile(
    r"(<!-- table: ([a-z0-9-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL
)


def make_all_tables() -> Tables:
    """Return the tables of all kept results; a missing result has none."""
    tables = comparisons.make_tables(mark_weights(MICRO))
    tables |= settings.make_tables()
    tables |= systems.make_tables()
    tables |= processors.expected_tables()
    for path, make in KEPT:
        if path.is_file():
            tables |= make(read_result(path))
    return tables


def fill_document(text: str, tables: Tables) -> str:
    """Return a document with its tables replaced.

    Args:
        text: the document; a table stands between `<!-- table: NAME -->` and
            `<!-- end of table -->`.
        tables: by name.

    Raises:
        OptionError: a place names no table.
    """
    names = {match[2] for match in _PLACE.finditer(text)}
    unknown = sorted(names - tables.keys())
    if unknown:
        raise OptionError(
            f"no kept result has a table {unknown[0]!r}; there are {', '.join(sorted(tables))}"
        )

    def replace_table(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        return f"{begin}{tables[name]}{end}"

    return _PLACE.sub(replace_table, text)


def stale_documents() -> dict[Path, str]:
    """Return the documents that differ from results and commands, with their right text.

    Raises:
        OptionError: a place names no table.
    """
    tables = make_all_tables()
    documents = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    expected = {path: fill_document(_read_text(path), tables) for path in documents}
    expected |= manual.make_files()
    return {path: text for path, text in expected.items() if text != _read_text(path)}


def write_documents() -> None:
    """Replace stale documents, and log their names."""
    for path, text in stale_documents().items():
        write_file(path, text)
        logger.info("wrote %s", path.relative_to(ROOT))


def keep_result(path: Path, result: object, *, indent: int | None = None) -> None:
    """Write a result and the documents that show it."""
    write_result(path, result, indent=indent)
    write_documents()


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
