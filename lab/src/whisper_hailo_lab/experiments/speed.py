"""How fast ours is beside the others: the same weights, the same core, in turns.

    python -m whisper_hailo_lab.experiments.speed [--quick] [--short] [--parts turns floor ...]
        [--groups tiny-1 ...] [--systems NAME ...] [--minutes N] [--out DIR] [--note TEXT] [--keep]

What was measured before is kept under `--out` and measured again only when weights, engine or case
changed; an interrupted run goes on where it was. `--keep` puts the run into
`lab/benchmarks/results/speed` and writes the tables of docs/measurements/speed.md.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Final

from whisper_hailo.cli.streams import emit
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.documents.speed.tables import RESULT, report_text
from whisper_hailo_lab.documents.tables import write
from whisper_hailo_lab.program import description
from whisper_hailo_lab.program import run as run_program
from whisper_hailo_lab.repository import BUILD
from whisper_hailo_lab.runs.run_file import read_run
from whisper_hailo_lab.speed.keys import use_cache
from whisper_hailo_lab.speed.plan import GROUPS, MORE_GROUPS
from whisper_hailo_lab.speed.run import PARTS, SpeedPlan, run
from whisper_hailo_lab.steps import Steps
from whisper_hailo_lab.systems.table import SYSTEMS

SHORT_PARTS: Final = ("turns", "floor", "start")
SHORT_GROUPS: Final = ("tiny-1",)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that all works")
    parser.add_argument("--short", action="store_true", help="tiny on one thread, floor, start")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    every = (*GROUPS, *MORE_GROUPS)
    parser.add_argument("--groups", nargs="*", default=[], choices=every, help="only these")
    parser.add_argument("--systems", nargs="*", default=[], choices=SYSTEMS, help="only these")
    parser.add_argument("--minutes", type=float, help="begin nothing new after that; resumable")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--out", type=Path, default=None, help="default build/speed[-quick]")
    parser.add_argument("--keep", action="store_true", help="write the tables of the page on speed")
    return parser.parse_args()


def main() -> None:
    """Entry point of the command line."""
    words = _options()
    out: Path = words.out or BUILD / ("speed-quick" if words.quick else "speed")
    until_s = math.inf if words.minutes is None else monotonic() + 60 * words.minutes
    parts, groups = tuple(words.parts), tuple(words.groups)
    if words.short:
        parts, groups = SHORT_PARTS, SHORT_GROUPS
    use_cache(BUILD / "speed-cache")
    plan = SpeedPlan(
        out, unpack_clips(), words.quick, parts, groups, tuple(words.systems), until_s, words.note
    )
    with closing(Steps()) as steps:
        path = run(plan, steps)
    emit(report_text(read_run(path)) + "\n")
    if words.keep:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, RESULT)
        write()


if __name__ == "__main__":
    sys.exit(run_program(main))
