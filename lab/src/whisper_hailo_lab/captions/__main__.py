"""Measure live captions and write the tables of `docs/measurements/captions.md`.

    python -m whisper_hailo_lab.captions PART ... [--model micro] [--minutes 5] [--loops N]

PART is any of:
hour (a synthetic conversation looped for an hour, with faults of device, sound card and browser),
watch (the same with two hours of recordings of people), soak (the command itself with a microphone
of PulseAudio in real time, one fault a minute), policies (the commit policy with real checkpoints
on recordings of people), continuous (half an hour of those). Results of other parts are kept.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from whisper_hailo_lab.captions.parts import PARTS, measure_part
from whisper_hailo_lab.documents.captions import RESULT
from whisper_hailo_lab.documents.pages import write_documents
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.results import update_result

logger = logging.getLogger(__name__)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("parts", nargs="+", metavar="PART", choices=PARTS)
    parser.add_argument("--model", default="micro", help="of hour and soak")
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="of the conversation"
    )
    parser.add_argument(
        "--loops", type=int, default=0, help="of hour and watch; 0: all of it"
    )
    parser.add_argument(
        "--soak", type=int, default=120, help="minutes of real time of soak"
    )
    parser.add_argument(
        "--keep", type=Path, help="folder of soak; an interrupted soak in it is scored"
    )
    parser.add_argument("--note", default="", help="other load on the machine")
    parser.add_argument("--out", type=Path, default=RESULT)
    return parser.parse_args()


def main() -> None:
    """Run the command line."""
    arguments = parse_arguments()
    for name in arguments.parts:
        begin_s = time.perf_counter()
        # A process of its own, so that its peak of memory is its own.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            result = process.submit(measure_part, name, arguments).result()
        logger.info("%s: %.0f s", name, time.perf_counter() - begin_s)
        update_result(arguments.out, **{name: result})
    if arguments.out == RESULT:
        write_documents()


if __name__ == "__main__":
    sys.exit(run_program(main))
