"""Writes the tables of the documents from the kept run files.

    python benchmarks/tables.py [--check]

With `--check` nothing is written; it fails when a document is not what the run files say.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

from whisper_hailo.bench.report import captions, short_windows
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
SHORT_WINDOWS = RESULTS / "short_windows.json"
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
CAPTIONS = RESULTS / "captions.json"
CAPTIONS_DOCUMENT = ROOT / "docs" / "captions.md"
SPEED_CHART = ROOT / "docs" / "img" / "speed.svg"


def stale() -> dict[Path, str]:
    """Documents that differ from what the run files say, with what they should be."""
    group = gather([RESULTS])[0] if any(RESULTS.glob("*.jsonl")) else None
    wanted = {path: fill(path.read_text(encoding="utf-8"), group) for path in DOCUMENTS}
    wanted |= stale_speed() | stale_aarch64() | stale_captions()
    return {path: text for path, text in wanted.items() if _present(path) != text}


def stale_speed() -> dict[Path, str]:
    """The comparison of speed as its run says, and short windows; a picture of another run."""
    if not SPEED.is_file():
        return {}
    run, text = read_run(SPEED), _present(SPEED_DOCUMENT)
    if SHORT_WINDOWS.is_file():
        text = short_windows.fill(text, json.loads(SHORT_WINDOWS.read_text(encoding="utf-8")))
    wanted = {SPEED_DOCUMENT: speed.fill(text, run)}
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


def stale_captions() -> dict[Path, str]:
    """What was measured of live captions."""
    if not CAPTIONS.is_file():
        return {}
    result = json.loads(CAPTIONS.read_text(encoding="utf-8"))
    return {CAPTIONS_DOCUMENT: captions.fill(_present(CAPTIONS_DOCUMENT), result, mark_of(MICRO))}


def mark_of(model: Path) -> str:
    """Tells the weights in a checkpoint's folder from others."""
    found = hashlib.sha256()
    for path in sorted(model.glob("*.safetensors")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


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
