"""How fast ours is beside the others: the same weights, the same core, in turns.

    python -m benchmarks.speed [--quick] [--short] [--parts turns floor batch start accuracy]
                               [--groups tiny-1 ...] [--systems NAME ...] [--minutes N]
                               [--out DIR] [--note TEXT] [--keep]

What was measured before is kept under `--out` and measured again only when weights, engine or case
changed; an interrupted run goes on where it was. `--keep` puts the run into
benchmarks/results/speed and writes the tables of docs/speed.md.
"""

from __future__ import annotations

import argparse
import logging
import math
import shutil
import sys
from pathlib import Path
from time import monotonic

from benchmarks import tables
from whisper_hailo.cli.failures import report as complain
from whisper_hailo.cli.steps import Steps
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.run_file import read_run
from whisper_hailo_lab.speed.keys import use_cache
from whisper_hailo_lab.speed.plan import GROUPS
from whisper_hailo_lab.speed.report import report_text
from whisper_hailo_lab.speed.run import PARTS, Plan, run
from whisper_hailo_lab.systems.table import SYSTEMS

ROOT = Path(__file__).parents[1]
SHORT_PARTS = ("turns", "floor", "start")
SHORT_GROUPS = ("tiny-1",)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that all works")
    parser.add_argument("--short", action="store_true", help="tiny on one thread, floor, start")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--groups", nargs="*", default=[], choices=GROUPS, help="only these")
    parser.add_argument("--systems", nargs="*", default=[], choices=SYSTEMS, help="only these")
    parser.add_argument("--minutes", type=float, help="begin nothing new after that; resumable")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--out", type=Path, default=None, help="default build/speed[-quick]")
    parser.add_argument("--keep", action="store_true", help="write the tables of docs/speed.md")
    return parser.parse_args()


def main() -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    words = options()
    out = words.out or ROOT / "build" / ("speed-quick" if words.quick else "speed")
    clips = ROOT / "tests" / "data" / "micro"
    until_s = math.inf if words.minutes is None else monotonic() + 60 * words.minutes
    parts, groups = tuple(words.parts), tuple(words.groups)
    if words.short:
        parts, groups = SHORT_PARTS, SHORT_GROUPS
    use_cache(ROOT / "build" / "speed-cache")
    plan = Plan(out, clips, words.quick, parts, groups, tuple(words.systems), until_s, words.note)
    try:
        steps = Steps()
        path = run(plan, steps)
        steps.close()
        print(report_text(read_run(path)))
        if words.keep:
            tables.SPEED.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, tables.SPEED)
            tables.write()
    except WhisperHailoError as error:
        sys.exit(int(complain(error)))


if __name__ == "__main__":
    main()
