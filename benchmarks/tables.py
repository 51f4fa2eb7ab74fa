"""Writes the tables of the documents from the kept run files.

    python benchmarks/tables.py [--check]

With `--check` nothing is written; it fails when a document is not what the run files say.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import (  # noqa: E402
    backend_matrix_table,
    emulated_report,
    fallback_table,
    windows_table,
)
from whisper_hailo_lab.marks import mark_of, remark  # noqa: E402
from whisper_hailo_lab.report import captions, short_windows  # noqa: E402
from whisper_hailo_lab.report.blocks import fill  # noqa: E402
from whisper_hailo_lab.report.gather import gather  # noqa: E402
from whisper_hailo_lab.report.processors import (  # noqa: E402
    stages_table,
    steps_table,
    words_table,
)
from whisper_hailo_lab.run_file import read_run  # noqa: E402
from whisper_hailo_lab.speed import report as speed  # noqa: E402
from whisper_hailo_lab.speed.plan import INT8_INT8  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
BENCHMARKS_DOCUMENT = ROOT / "docs" / "benchmarks.md"
DOCUMENTS = (ROOT / "README.md", BENCHMARKS_DOCUMENT)
WINDOWS = RESULTS / "windows.json"
FALLBACK = RESULTS / "fallback.json"
BACKENDS = RESULTS / "backend_matrix.json"
AARCH64 = RESULTS / "aarch64.json"
AARCH64_WINDOWS = RESULTS / "aarch64_windows.json"
AARCH64_DOCUMENT = ROOT / "docs" / "aarch64.md"
PROCESSORS = RESULTS / "processors.json"
PROCESSORS_DOCUMENT = ROOT / "docs" / "processors.md"
SPEED = RESULTS / "speed" / "run.jsonl"
SPEED_DOCUMENT = ROOT / "docs" / "speed.md"
SPEED_CHART = ROOT / "docs" / "img" / "speed.svg"
SHORT_WINDOWS = RESULTS / "short_windows.json"
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
CAPTIONS = RESULTS / "captions.json"
CAPTIONS_DOCUMENT = ROOT / "docs" / "captions.md"

Fill: TypeAlias = Callable[[str, Any, str], str]


def stale() -> dict[Path, str]:
    """Documents that differ from what the results say, with what they should be."""
    weights, runs = mark_of(MICRO), any(RESULTS.glob("*.jsonl"))
    group = gather([RESULTS])[0] if runs else None
    wanted = {path: fill(_present(path), group, weights) for path in DOCUMENTS}
    if SPEED.is_file():
        run = read_run(SPEED)
        wanted[SPEED_DOCUMENT] = speed.fill(_present(SPEED_DOCUMENT), run, weights)
        if speed.run_mark(run) not in _present(SPEED_CHART):
            wanted[SPEED_CHART] = speed.chart_svg(run)
    for document, result, filled in FILLED:
        if result.is_file():
            text = wanted.get(document, _present(document))
            found = json.loads(result.read_text(encoding="utf-8"))
            wanted[document] = filled(text, found, weights)
    return {path: text for path, text in wanted.items() if _present(path) != text}


def _steps(document: str, rows: list[dict[str, Any]], _weights: str) -> str:
    """The steps on the emulated processor beside this one's, on whatever weights."""
    return _between(document, "steps", steps_table(rows).markdown())


def _windows(document: str, rows: list[dict[str, Any]], _weights: str) -> str:
    """Whole windows on the emulated processor; the weights are random."""
    return _between(document, "windows", stages_table(rows, INT8_INT8).markdown())


def _words(document: str, result: dict[str, Any], weights: str) -> str:
    """Word error rates by arithmetic."""
    line = f"The bundled model{remark([result.get('weights', '')], weights)}.\n\n"
    return _between(document, "words", line + words_table(result["rows"]).markdown())


def _between(document: str, name: str, table: str) -> str:
    mark = re.compile(rf"(<!-- processors: {name} -->\n).*?(<!-- end of processors -->)", re.DOTALL)
    return mark.sub(lambda m: m[1] + table + m[2], document)


FILLED: tuple[tuple[Path, Path, Fill], ...] = (
    (BENCHMARKS_DOCUMENT, WINDOWS, windows_table.filled),
    (BENCHMARKS_DOCUMENT, FALLBACK, fallback_table.filled),
    (BENCHMARKS_DOCUMENT, BACKENDS, backend_matrix_table.filled),
    (emulated_report.DOCS, emulated_report.RESULT, emulated_report.insert_tables),
    (SPEED_DOCUMENT, SHORT_WINDOWS, short_windows.fill),
    (CAPTIONS_DOCUMENT, CAPTIONS, captions.fill),
    (AARCH64_DOCUMENT, AARCH64, _steps),
    (AARCH64_DOCUMENT, AARCH64_WINDOWS, _windows),
    (PROCESSORS_DOCUMENT, PROCESSORS, _words),
)
"""Documents with the results that have tables in them, and what writes those."""


def write() -> None:
    """Make stale documents anew."""
    for path, text in stale().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


def _present(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def main() -> None:
    if "--check" not in sys.argv[1:]:
        write()
        return
    found = stale()
    for path in found:
        print(f"{path.relative_to(ROOT)} is stale: run python benchmarks/tables.py")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
