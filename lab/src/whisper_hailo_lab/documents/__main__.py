"""Writes the tables of the documents from the results that are kept in `lab/benchmarks/results`.

    python -m whisper_hailo_lab.documents [--check]

With `--check` nothing is written; it fails when a document is not what the results say.
"""

from __future__ import annotations

import argparse
import sys

from whisper_hailo.cli.messages import print_line
from whisper_hailo_lab.documents.tables import stale, write
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import ROOT


def main() -> int:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    if not parser.parse_args().check:
        write()
        return 0
    found = stale()
    for path in found:
        print_line(f"{path.relative_to(ROOT)} is stale: run python -m whisper_hailo_lab.documents")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(run(main))
