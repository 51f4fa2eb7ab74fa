"""Write the tables of the documents from the results in `lab/benchmarks/results`.

    python -m whisper_hailo_lab.documents [--check | --ages]

`--check` writes nothing; it fails when a document differs from the results. `--ages` lists the
results whose code has changed since they were measured.
"""

from __future__ import annotations

import argparse
import sys

from whisper_hailo.cli.messages import print_line
from whisper_hailo_lab.documents.ages import describe_ages, find_ages
from whisper_hailo_lab.documents.pages import stale_documents, write_documents
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.repository import ROOT


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--check", action="store_true", help="write nothing, fail when stale"
    )
    modes.add_argument(
        "--ages",
        action="store_true",
        help="list the results that are older than their code",
    )
    options = parser.parse_args()
    if options.ages:
        sys.stdout.write(describe_ages(list(find_ages())))
        return 0
    if not options.check:
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
