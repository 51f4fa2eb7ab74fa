"""Run the fuzz lane: `python -m tests.fuzz --help`; see CONTRIBUTING.md.

Every target first gets the inputs that ever failed, then new ones, drawn from a seed: case N of a
seed is the same input whatever ran before it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.fuzz.pool import CHUNK, Seen, run_inputs, run_seed
from tests.fuzz.target import FAILURES, NAMES, draw, load

ROOT: Final = Path(__file__).parents[2]
MOST_TOLD: Final = 15
"""Kinds of failures that are printed of a target; all failures are in `failures.jsonl`."""
CORPUS: Final = Path(__file__).parent / "corpus.zip"
"""Inputs that ever failed, a folder for each target."""


def main(words: list[str]) -> int:
    """Run what was asked for; 1 if anything failed."""
    options = _parser().parse_args(words)
    base = Path(options.folder).resolve()
    base.mkdir(parents=True, exist_ok=True)
    if options.case:
        target, seed, number = options.case.split(":")
        numbers = range(int(number), int(number) + 1)
        seen = run_seed(base, target, int(seed), numbers)
        return _tell(base, seen, int(seed), keep=options.keep, always=True)
    if options.input:
        return _tell(
            base, run_inputs(base, options.target[0], options.input), always=True
        )
    n_failed = 0
    for target in options.target:
        seen = run_inputs(base, target, _unpack(base, target))
        seconds = options.seconds / len(options.target) - seen.wall_s
        numbers = range(options.first, options.first + options.cases)
        seen += run_seed(
            base,
            target,
            options.seed,
            numbers,
            jobs=options.jobs,
            chunk=options.chunk,
            seconds=seconds,
        )
        n_failed += _tell(base, seen, options.seed, keep=options.keep)
    return min(1, n_failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("--target", nargs="+", default=list(NAMES), choices=[*NAMES, "planted"])
    add("--cases", type=int, default=12_500, help="of each target")
    add(
        "--seconds",
        type=float,
        default=3600,
        help="of all targets; what is left is not run",
    )
    add("--seed", type=int, default=0)
    add("--first", type=int, default=0, help="number of the first case")
    add("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    add(
        "--chunk",
        type=int,
        default=CHUNK,
        help="inputs of one process: many show what leaks",
    )
    add("--case", metavar="TARGET:SEED:NUMBER", help="run this one again")
    add(
        "--input",
        nargs="+",
        metavar="FILE",
        help="run kept inputs again, of one --target",
    )
    add("--keep", action="store_true", help="put what fails into the corpus")
    add("--folder", default=str(ROOT / "build" / "fuzz"), help="of all that is written")
    return parser


def _unpack(base: Path, target: str) -> list[str]:
    """Unpack the kept inputs of a target, and return their paths."""
    if not CORPUS.is_file():
        return []
    folder = base / "corpus"
    with zipfile.ZipFile(CORPUS) as file:
        names = [name for name in file.namelist() if name.startswith(f"{target}/")]
        file.extractall(folder, names)
    return [str(folder / name) for name in sorted(names)]


def _tell(
    base: Path, seen: Seen, seed: int = 0, *, keep: bool = False, always: bool = False
) -> int:
    """Print and note what came of a target; the number of failures."""
    failed = [one for one in seen.results if one["outcome"] in FAILURES]
    with (base / "failures.jsonl").open("a", encoding="utf-8") as file:
        for one in failed:
            key = one["end"]
            if isinstance(key, int):
                one["again"] = f"python -m tests.fuzz --case {seen.target}:{seed}:{key}"
                if keep:
                    one["kept"] = _keep(base, seen.target, seed, key)
            file.write(json.dumps({"target": seen.target, **one}) + "\n")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in seen.results if always else failed:
        groups.setdefault((one["outcome"], _sort(one["said"])), []).append(one)
    for (outcome, said), ones in sorted(groups.items(), key=lambda item: -len(item[1]))[
        :MOST_TOLD
    ]:
        print(f"  {len(ones)} x {outcome}: {said}")
        print(f"      {ones[0].get('again', ones[0]['end'])}")
    counts = Counter(seen.counts)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(
        f"{seen.target}: {sum(counts.values())} inputs ({told}); "
        f"{len(failed)} failed; peak {seen.peak_mib} MiB, grown by {seen.grown_mib} MiB and "
        f"{seen.grown_descriptors} descriptors, slowest {seen.slowest_s:.1f} s, "
        f"{seen.wall_s:.0f} s in all",
        flush=True,
    )
    summary = {
        "target": seen.target,
        "seed": seed,
        "counts": counts,
        "peak_mib": seen.peak_mib,
    }
    summary |= {
        "grown_mib": seen.grown_mib,
        "grown_descriptors": seen.grown_descriptors,
    }
    with (base / "summary.jsonl").open("a", encoding="utf-8") as file:
        times = {"slowest_s": round(seen.slowest_s, 2), "wall_s": round(seen.wall_s, 1)}
        file.write(json.dumps(summary | times) + "\n")
    return len(failed)


def _sort(said: str) -> str:
    """What is the same for all failures of one fault: the place, not the values."""
    kind, at, place = said.rpartition(" at ")
    place = re.sub(r"'.*'|\".*\"|\d+|x{9,}", "*", place, flags=re.DOTALL)
    return f"{kind.partition(':')[0]}{at}{place}"[-300:]


def _keep(base: Path, target: str, seed: int, number: int) -> str:
    """Write an input into the corpus, under its hash and its name."""
    name, content = load(target).make(draw(target, seed, number), base)
    digest = hashlib.sha256(content).hexdigest()[:8]
    kept = f"{target}/{digest}-{name}.z"
    with zipfile.ZipFile(CORPUS, "a") as file:
        if kept not in file.namelist():
            file.writestr(kept, zlib.compress(content, 9))
    return f"{CORPUS.relative_to(ROOT)}: {kept}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
