"""What timing one file gives: spreads of its stages, and the memory of its parts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from whisper_hailo.core.types import Settings, Transcript
from whisper_hailo_lab.runs.machine import Machine, this_machine


@dataclass(frozen=True, slots=True)
class Spread:
    """What n measurements say.

    Attributes:
        mean: their mean.
        std: population standard deviation.
        n: how many there were.
    """

    mean: float
    std: float
    min: float
    max: float
    median: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one measurement."""
        return cls(
            mean=statistics.fmean(values),
            std=statistics.pstdev(values),
            min=min(values),
            max=max(values),
            median=statistics.median(values),
            n=len(values),
        )


@dataclass(frozen=True, slots=True)
class PartMemory:
    """Growth of the process's resident memory, in MiB.

    Attributes:
        load: while a part was opened.
        warm_up: while it ran for the first times.
    """

    load: float
    warm_up: float

    @property
    def total(self) -> float:
        return self.load + self.warm_up


@dataclass(frozen=True, slots=True)
class FileTiming:
    """The result.

    Attributes:
        transcript: of the last iteration.
        iterations: how many were timed, after the warm-ups.
        stages_ms: stage to spread over the iterations; `load` was measured once.
        token_ms: per iteration, the pass of each token after the first; empty for engines that
            own their loop.
        memory: part to its memory.
        peak_mib: largest resident memory of the process.
        temperature_c: of the chip before and after; empty without one.
        machine: what it ran on.
    """

    transcript: Transcript
    iterations: int
    stages_ms: dict[str, Spread]
    token_ms: tuple[tuple[float, ...], ...]
    memory: dict[str, PartMemory]
    peak_mib: float
    temperature_c: tuple[float, ...]
    machine: Machine = field(default_factory=this_machine)

    @property
    def settings(self) -> Settings:
        return self.transcript.settings
