"""Which faults are tried: one for each of so many lines, drawn by a seed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping

from tests.mutants.change import ROOT, Mutant, Source

Lines = Mapping[str, set[int]]
"""By path from the repository's root."""


def drawn(
    paths: Iterable[str], n_lines: int, seed: int, among: Lines | None = None
) -> list[Mutant]:
    """One fault for each line, lines in the order of the seed.

    What is drawn of a line does not depend on the others, so that a change elsewhere changes
    little of the sample.

    Args:
        paths: files.
        n_lines: most lines.
        seed: same seed, same faults.
        among: only lines of these; `None` is all.
    """
    first: dict[tuple[str, tuple[int, int]], Mutant] = {}
    for path in paths:
        for mutant in Source(path).mutants:
            begin, end = mutant.lines
            if among is not None and among.get(path, set()).isdisjoint(range(begin, end + 1)):
                continue
            place = (path, mutant.lines)
            if place not in first or mutant.rank(seed) < first[place].rank(seed):
                first[place] = mutant
    return sorted(first.values(), key=lambda mutant: mutant.rank(seed))[:n_lines]


def changed_since(base: str) -> dict[str, set[int]]:
    """Lines that are otherwise than in a commit, by file.

    Raises:
        subprocess.CalledProcessError: there is no such commit.
    """
    command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", "src"]
    diff = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return changed_lines(diff)


def changed_lines(diff: str) -> dict[str, set[int]]:
    """Lines that a unified diff without context adds or changes, by file."""
    found: dict[str, set[int]] = {}
    path = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            begin, count = int(match[1]), int(match[2] or 1)
            found.setdefault(path, set()).update(range(begin, begin + count))
    return found
