"""Write the tables of the documents from the results in `lab/benchmarks/results`.

    python -m whisper_hailo_lab.documents [--check]

`--check` writes nothing; it fails when a document differs from the results.
"""

from __future__ import annotations

import argparse
import sys

from whisper_hailo.cli.messages import print_line
from whisper_hailo_lab.documents.pages import stale_documents, write_documents
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.repository import ROOT


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail when stale"
    )
    if not parser.parse_args().check:
        write_documents()
        return 0
    stale = stale_documents()
    for path in stale:
        print_line(
            f"{path.relative_to(ROOT)} is stale: run python -m whisper_hailo_lab.documents"
        )
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(run_program(main))
