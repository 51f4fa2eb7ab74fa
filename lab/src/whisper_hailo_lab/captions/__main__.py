"""Measure live captions and write the tables of `docs/measurements/captions.md`.

    python -m whisper_hailo_lab.captions PART ... [--note TEXT]

PART is `rules` (when words settle, with people who hardly pause), `programs` (the same beside
other programs, in the folder that `WHISPER_HAILO_CAPTION_PROGRAMS` names) or `mixtures` (people who
change their language). Results of other parts are kept.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from whisper_hailo_lab.captions.mixtures import caption_mixtures
from whisper_hailo_lab.captions.programs import compare_programs
from whisper_hailo_lab.captions.rules import compare_rules
from whisper_hailo_lab.documents.captions import RESULT
from whisper_hailo_lab.documents.pages import write_documents
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import package_versions, this_machine
from whisper_hailo_lab.runs.results import update_result

logger = logging.getLogger(__name__)

PARTS: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "rules": compare_rules,
    "programs": compare_programs,
    "mixtures": caption_mixtures,
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--note", default="", help="other load on the machine")
    arguments = parser.parse_args()
    about = {
        "threads": 1,
        "note": arguments.note,
        "machine": this_machine().label,
        "versions": package_versions(("onnxruntime", "numpy")),
    }
    for name in arguments.parts:
        begin_s = time.perf_counter()
        result = PARTS[name]()
        logger.info("%s: %.0f s", name, time.perf_counter() - begin_s)
        update_result(RESULT, **{name: about | result})
    write_documents()


if __name__ == "__main__":
    sys.exit(run_program(main))
