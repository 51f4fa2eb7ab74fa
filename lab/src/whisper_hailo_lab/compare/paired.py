"""Times of the same work done in several ways, in turns, so that ratios hold on a busy machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np

WARM_UPS: Final = 3
"""Rounds before the measured ones."""


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """Milliseconds of each round.

    Attributes:
        ms: one time for each round by name.
    """

    ms: dict[str, tuple[float, ...]]

    def median_ms(self, name: str) -> float:
        """Return the median time of one way."""
        return float(np.median(self.ms[name]))

    def ratio(self, name: str, base: str) -> float:
        """Return the median of a way's times by those of `base` in the same rounds."""
        own_ms = np.array(self.ms[name])
        base_ms = np.array(self.ms[base])
        return float(np.median(own_ms / base_ms))


def _ignore_round(_number: int) -> None:
    """Show nothing."""


def time_in_turns(
    ways: Mapping[str, Callable[[], float | None]],
    rounds: int,
    announce: Callable[[int], None] = _ignore_round,
) -> PairedTimes:
    """Time each way once a round, in a new random order each round.

    In a rotating order each way would always follow the same other one, and find the processor's
    caches as that one left them.

    Args:
        ways: functions by name; one that times itself returns milliseconds.
        rounds: measured rounds.
        announce: called with the number of each round.
    """
    names = list(ways)
    ms: dict[str, list[float]] = {name: [] for name in names}
    rng = np.random.default_rng(0)
    for number in range(WARM_UPS + rounds):
        announce(number)
        for name in rng.permutation(names).tolist():
            begin = perf_counter()
            own_ms = ways[name]()
            elapsed_ms = (perf_counter() - begin) * 1000.0
            if number >= WARM_UPS:
                ms[name].append(elapsed_ms if own_ms is None else own_ms)
    return PairedTimes({name: tuple(times) for name, times in ms.items()})
