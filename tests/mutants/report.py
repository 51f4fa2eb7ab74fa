"""What came of the faults: a table, and those that live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tests.mutants.change import Mutant
from tests.mutants.copies import CRASH, LOOPS_FOREVER

_MOST_KILLERS: Final = 3


def table(by_area: Mapping[str, Sequence[Mutant]]) -> str:
    """Area, tried, killed, by what, in Markdown."""
    rows = ["| area | tried | killed | share | live | killed by |"]
    rows.append("|---|---|---|---|---|---|")
    for name, mutants in by_area.items():
        rows.append(_row(name, mutants))
    if len(by_area) > 1:
        rows.append(_row("all", [one for each in by_area.values() for one in each]))
    return "\n".join(rows) + "\n"


def _row(name: str, mutants: Sequence[Mutant]) -> str:
    n_killed = sum(bool(one.killed_by) for one in mutants)
    share = f"{100 * n_killed / len(mutants):.0f} %" if mutants else "-"
    cells = [name, len(mutants), n_killed, share, len(mutants) - n_killed]
    return f"| {' | '.join(map(str, [*cells, _killers(mutants)]))} |"


def _killers(mutants: Sequence[Mutant]) -> str:
    """Files of tests that killed most."""
    counts = Counter(_file(one.killed_by) for one in mutants if one.killed_by)
    told = [f"{name} {n}" for name, n in counts.most_common(_MOST_KILLERS)]
    n_others = sum(counts.values()) - sum(n for _, n in counts.most_common(_MOST_KILLERS))
    return ", ".join([*told, *([f"others {n_others}"] if n_others else [])])


def _file(killer: str) -> str:
    if killer in {LOOPS_FOREVER, CRASH}:
        return killer
    return killer.partition("::")[0].rpartition("/")[2].removesuffix(".py")


def living(mutants: Sequence[Mutant]) -> str:
    """Each one that lives, a line each."""
    told = []
    for one in mutants:
        if not one.killed_by:
            tests = f"{one.tried} of {one.covered} tests"
            place = f"{one.path}:{one.lines[0]} {one.function}"
            told.append(f"{place}: {one.before}  ->  {one.after} ({tests})\n")
    return "".join(told)
