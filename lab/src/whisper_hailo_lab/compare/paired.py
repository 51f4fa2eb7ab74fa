"""Times of several programs for the same work, in turns, so that ratios survive a busy machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np

WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """Milliseconds per round, the same rounds for all.

    Attributes:
        ms: name to one time per round.
    """

    ms: dict[str, tuple[float, ...]]

    def median_ms(self, name: str) -> float:
        return float(np.median(self.ms[name]))

    def ratio(self, name: str, base: str) -> float:
        """Median over the rounds of this one's time by the base's in the same round."""
        return float(np.median(np.array(self.ms[name]) / np.array(self.ms[base])))


def time_in_turns(
    runs: Mapping[str, Callable[[], float | None]],
    rounds: int,
    tick: Callable[[int], None] = lambda number: None,
) -> PairedTimes:
    """Time each once a round, in an order drawn anew for each.

    In rotating order each would always follow the same other one, and what that one left in
    the processor's cache.

    Args:
        runs: name to what is timed; one that gives milliseconds has timed itself.
        rounds: after `WARM_UPS` that are not counted.
        tick: told the number of each round.
    """
    names = list(runs)
    ms: dict[str, list[float]] = {name: [] for name in names}
    drawn = np.random.default_rng(0)
    for number in range(WARM_UPS + rounds):
        tick(number)
        for name in drawn.permutation(names).tolist():
            begin = perf_counter()
            own_ms = runs[name]()
            taken_ms = (perf_counter() - begin) * 1000.0 if own_ms is None else own_ms
            if number >= WARM_UPS:
                ms[name].append(taken_ms)
    return PairedTimes({name: tuple(times) for name, times in ms.items()})
