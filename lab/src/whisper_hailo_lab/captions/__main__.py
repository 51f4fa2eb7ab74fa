"""Live captions, measured on a synthetic conversation; writes results and tables.

    python -m whisper_hailo_lab.captions [WHAT ...] [--resume] [--model micro] [--minutes 5]
                                         [--threads 2]

WHAT is any of: paired (drafts, settings and engines on the first minute of the stream, in turns),
reading (the same on a minute of somebody who reads aloud),
same (drafts against decoding from scratch over edited audio), cost (the partials of the stream on
decoders of micro's, tiny's and base's sizes), live (all of it in real time), hour (looped for an
hour, with faults), soak (the command itself with a microphone of PulseAudio in real time, a fault
in each minute), policies (the commit policy with real checkpoints on recordings of people),
continuous (half an hour of those), watch (two hours of those, with faults). Without any: all before
the hour, some eleven minutes on a quiet machine; the hour takes about as long again. Results of
earlier runs are kept for what is not run; with `--resume` also for what an interrupted run has
finished with this very code and model.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo_lab.captions.parts import FUNCTIONS, key, measure
from whisper_hailo_lab.captions.stream import conversation
from whisper_hailo_lab.documents.captions import RESULT
from whisper_hailo_lab.documents.tables import write
from whisper_hailo_lab.program import description, run

logger = logging.getLogger(__name__)

WHAT = tuple(FUNCTIONS)
QUICK = WHAT[: WHAT.index("hour")]


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"any of: {', '.join(WHAT)}")
    parser.add_argument("--model", default="micro")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--loops", type=int, default=0, help="of the hour; 0: as many as it takes")
    parser.add_argument("--soak", type=int, default=120, help="minutes of real time of `soak`")
    parser.add_argument(
        "--keep", type=Path, help="folder of `soak`; what a soak that was cut left there is scored"
    )
    parser.add_argument("--buffers", type=int, default=700, help="of `same`, per kind of weights")
    parser.add_argument("--resume", action="store_true", help="keep what is finished and valid")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--out", type=Path, default=RESULT)
    found = parser.parse_args()
    wrong = sorted(set(found.what) - set(WHAT))
    if wrong:
        parser.error(f"WHAT is {', '.join(wrong)}, expected any of: {', '.join(WHAT)}")
    return found


def main() -> None:
    """Run what is asked for, keep its result, write the tables."""
    arguments = _parsed()
    out: Path = arguments.out
    result: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        arguments.audio = Path(folder) / "conversation.flac"
        conversation(arguments.audio, arguments.minutes)
        for what in arguments.what or QUICK:
            if arguments.resume and result.get(what, {}).get("key") == key(arguments):
                logger.info("%s: known", what)
                continue
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:  # its memory is its own
                result[what] = fresh.submit(measure, what, arguments).result()
            write_file(out, json.dumps(result, indent=1) + "\n")
    if out == RESULT:
        write()


if __name__ == "__main__":
    sys.exit(run(main))
