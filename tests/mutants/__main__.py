"""Run the mutation lane: `python -m tests.mutants --help`; see docs/testing.md.

Small faults are put into the code, one at a time, and the unit tests of its area are asked. What
lives is printed for you to judge: a line that no test holds, or a fault that changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from tests.mutants.areas import AREAS, area_of
from tests.mutants.change import ROOT, Mutant, Source
from tests.mutants.copies import spent_s
from tests.mutants.lane import Lane, run
from tests.mutants.report import living, table
from tests.mutants.sample import changed_since, drawn

OUT: Final = ROOT / "build" / "mutants"


def main(words: Sequence[str]) -> int:
    """Run what was asked for; 2 if tests fail without any fault."""
    options = _parser().parse_args(words)
    begun = time.monotonic()
    end_s = spent_s() + options.seconds
    by_area = _chosen(options)
    n_chosen = sum(map(len, by_area.values()))
    OUT.mkdir(parents=True, exist_ok=True)
    for name, mutants in by_area.items():
        if not mutants:
            continue
        lane = Lane(mutants, AREAS[name].test_files(), options.jobs, options.most_s, end_s, _tell)
        status = run(lane)
        if lane.failed or status not in {0, 5}:
            print(f"tests of {name} fail without any fault: {lane.failed or status}; mend them")
            return 2
        by_area[name] = lane.done
        print(f"\n{name}\n{living(lane.done)}", end="", flush=True)
    tried = [one for mutants in by_area.values() for one in mutants]
    _keep(tried)
    text = table(by_area)
    (OUT / "report.md").write_text(text, encoding="utf-8")
    print(text, end="")
    print(f"{len(tried)} of {n_chosen} tried in {time.monotonic() - begun:.0f} s")
    return 0


def _chosen(options: argparse.Namespace) -> dict[str, list[Mutant]]:
    """Faults by area: all, or so many lines of each, or of all together, or of what was changed."""
    files = {name: AREAS[name].files() for name in options.area}
    if options.file:
        files = {n: [p for p in paths if options.file in p] for n, paths in files.items()}
    if options.every:
        return {n: [one for p in paths for one in Source(p).mutants] for n, paths in files.items()}
    if not options.sample:
        return {name: drawn(paths, options.lines, options.seed) for name, paths in files.items()}
    among = changed_since(options.since) if options.since else None
    every = [path for paths in files.values() for path in paths]
    mutants = drawn(every, options.sample, options.seed, among) if among else []
    mutants = mutants or drawn(every, options.sample, options.seed)
    return {name: [one for one in mutants if area_of(one.path) == name] for name in files}


def _tell(mutant: Mutant) -> None:
    sys.stderr.write("." if mutant.killed_by else "L")
    sys.stderr.flush()


def _keep(tried: Sequence[Mutant]) -> None:
    """All results, a line each."""
    names = ("path", "function", "before", "after", "lines", "killed_by", "covered", "tried")
    rows = [json.dumps({name: getattr(one, name) for name in names}) for one in tried]
    (OUT / "results.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    add = parser.add_argument
    add("--area", nargs="+", default=list(AREAS), choices=list(AREAS))
    add("--file", default="", help="only files with this in their path")
    add("--lines", type=int, default=30, help="lines of each area")
    add("--every", action="store_true", help="every fault of every line, instead; takes long")
    add("--sample", type=int, default=0, help="lines of all areas together, instead")
    add("--since", default="", metavar="COMMIT", help="of the sample: what was changed since")
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add("--most-s", type=float, default=10.0, help="seconds of tests for one fault")
    add(
        "--seconds",
        type=float,
        default=float("inf"),
        help="of the processor, in all; what is left is not tried",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
