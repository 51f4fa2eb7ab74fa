"""Writes the tables of README.md and docs/benchmarks.md from the run files that are kept.

    python benchmarks/tables.py [--check]

With `--check` nothing is written; it fails when a document is not what the run files say.
"""

from __future__ import annotations

import sys
from pathlib import Path

from whisper_hailo.bench.report.blocks import fill
from whisper_hailo.bench.report.gather import gather

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")


def stale() -> dict[Path, str]:
    """Documents that differ from what the run files say, with what they should be."""
    group = gather([RESULTS])[0] if any(RESULTS.glob("*.jsonl")) else None
    wanted = {path: fill(path.read_text(encoding="utf-8"), group) for path in DOCUMENTS}
    return {path: text for path, text in wanted.items() if path.read_text("utf-8") != text}


def main() -> None:
    found = stale()
    if "--check" in sys.argv[1:]:
        for path in found:
            print(f"{path.relative_to(ROOT)} is stale: run python benchmarks/tables.py")
        sys.exit(bool(found))
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
