"""A stop-watch per stage, so that every result says where its time went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from whisper_hailo.core.types import Timings

STAGES = ("load", "mel", "encode", "cross_kv", "decode", "total")


class StageClock:
    """Adds up wall-clock time per stage."""

    def __init__(self) -> None:
        self._ms = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a `with` block under one of `STAGES`; time is kept when the block raises."""
        begin = perf_counter()
        try:
            yield
        finally:
            self._ms[name] += (perf_counter() - begin) * 1000.0

    def note(self, name: str, ms: float) -> None:
        """Add time that something else measured to one of `STAGES`."""
        self._ms[name] += ms

    def add(self, other: StageClock, share: float = 1.0) -> None:
        """Add a share of another clock's times: a batch's work, split over its recordings."""
        for stage, ms in other._ms.items():
            self._ms[stage] += ms * share

    def timings(self) -> Timings:
        """What was measured so far."""
        return Timings(**{f"{stage}_ms": ms for stage, ms in self._ms.items()})
