"""Writes the tables of README.md, docs/benchmarks.md and docs/speed.md from the kept run files.

    python benchmarks/tables.py [--check]

With `--check` nothing is written; it fails when a document is not what the run files say.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from whisper_hailo.bench.report.aarch64 import steps_table
from whisper_hailo.bench.report.blocks import fill
from whisper_hailo.bench.report.gather import gather
from whisper_hailo.bench.run_file import read_run
from whisper_hailo.bench.speed import report as speed

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
AARCH64 = RESULTS / "aarch64.json"
AARCH64_DOCUMENT = ROOT / "docs" / "aarch64.md"
SPEED = RESULTS / "speed" / "run.jsonl"
SPEED_DOCUMENT = ROOT / "docs" / "speed.md"
SPEED_CHART = ROOT / "docs" / "img" / "speed.svg"


def stale() -> dict[Path, str]:
    """Documents that differ from what the run files say, with what they should be."""
    group = gather([RESULTS])[0] if any(RESULTS.glob("*.jsonl")) else None
    wanted = {path: fill(path.read_text(encoding="utf-8"), group) for path in DOCUMENTS}
    wanted |= stale_speed() | stale_aarch64()
    return {path: text for path, text in wanted.items() if _present(path) != text}


def stale_speed() -> dict[Path, str]:
    """The comparison of speed as its run says; its picture when it shows another run."""
    if not SPEED.is_file():
        return {}
    run = read_run(SPEED)
    wanted = {SPEED_DOCUMENT: speed.fill(_present(SPEED_DOCUMENT), run)}
    if speed.run_mark(run) not in _present(SPEED_CHART):
        wanted[SPEED_CHART] = speed.chart_svg(run)
    return wanted


def stale_aarch64() -> dict[Path, str]:
    """The steps on the emulated processor."""
    if not AARCH64.is_file():
        return {}
    rows = json.loads(AARCH64.read_text(encoding="utf-8"))
    mark = re.compile(r"(<!-- aarch64: steps -->\n).*?(<!-- end of aarch64 -->)", re.DOTALL)
    text = mark.sub(
        lambda m: m[1] + steps_table(rows).markdown() + m[2], _present(AARCH64_DOCUMENT)
    )
    return {AARCH64_DOCUMENT: text}


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
