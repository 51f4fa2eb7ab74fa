"""Figures of a run of the speed comparison, each a pure function of its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.runs.records import CaseRecord, FileResult, RunRecords
from whisper_hailo_lab.runs.summary import stage_ms
from whisper_hailo_lab.speed.plan import FEW_TOKENS, few, label_of

MANY_TOKENS: Final = 28
BUSY: Final = 1.25
"""Times the processor time of one thread: from here on its wall clock tells of others, too."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A run, looked at case by case."""

    run: RunRecords

    @property
    def busy(self) -> bool:
        """Whether others used the processor: one thread took much longer than it computed."""
        found = [
            f.total_ms / (1000.0 * f.cpu_s)
            for case in self.run.cases
            if case.threads == 1
            for f in self.run.files_of(case.name)
            if not f.error and f.cpu_s > 0
        ]
        return bool(found) and float(np.median(found)) > BUSY

    def groups(self) -> tuple[str, ...]:
        """Keys of groups of cases, in order."""
        return tuple(dict.fromkeys(case.group for case in self.run.cases))

    def cases(self, group: str) -> tuple[CaseRecord, ...]:
        """Cases of a group, in order."""
        return tuple(case for case in self.run.cases if case.group == group)

    def labels(self, group: str) -> tuple[str, ...]:
        """What they are called in tables."""
        return tuple(label_of(case.name) for case in self.cases(group))

    def files(self, group: str, label: str) -> tuple[FileResult, ...]:
        """Rounds of a case that went well."""
        return tuple(f for f in self.run.files_of(f"{group}: {label}") if not f.error)

    def comparison(self, name: str) -> tuple[dict[str, Any], ...]:
        """Rows of a part; nothing where it was not measured."""
        return next((c.rows for c in self.run.comparisons if c.name == name), ())

    def median(self, group: str, label: str, what: str) -> float | None:
        """Median over the rounds of a stage, `work`, or `cpu`, in milliseconds."""
        found = [
            value for f in self.files(group, label) if (value := stage_ms(f, what)) is not None
        ]
        return float(np.median(found)) if found else None

    def ratio(self, group: str, slow: str, fast: str, what: str = "work") -> float | None:
        """How many times as long one case takes as another: median over their common rounds."""
        return _ratio(self._pairs(group, slow, fast, what))

    def spread(self, group: str, slow: str, fast: str) -> tuple[float, float] | None:
        """Between which ratios half of the rounds lie: how far noise moves one."""
        pairs = self._pairs(group, slow, fast, "work").values()
        if not pairs:
            return None
        low, high = np.quantile([a / b for a, b in pairs], [0.25, 0.75])
        return float(low), float(high)

    def step_ms(self, group: str, label: str, what: str = "work") -> float | None:
        """A decoder step alone: what 20 more tokens cost, a twentieth of it."""
        found = self._steps(group, label, what)
        return float(np.median(list(found.values()))) if found else None

    def step_ratio(self, group: str, slow: str, fast: str, what: str = "work") -> float | None:
        """Steps of one case by those of another; medians, since differences may be noisy."""
        mine, other = (self.step_ms(group, label, what) for label in (fast, slow))
        return other / mine if mine and other and mine > 0 else None

    def accuracy(self, label: str) -> dict[str, Any] | None:
        """The row of a configuration."""
        rows = self.comparison("speed-accuracy")
        return next((row for row in rows if row["case"] == label), None)

    def _steps(self, group: str, label: str, what: str) -> dict[str, float]:
        """Per round: milliseconds of a step."""
        span = MANY_TOKENS - FEW_TOKENS
        pairs = self._pairs(group, label, few(label), what)
        return {key: (many - less) / span for key, (many, less) in pairs.items()}

    def _pairs(
        self, group: str, first: str, second: str, what: str
    ) -> dict[str, tuple[float, float]]:
        other = {f.id: stage_ms(f, what) for f in self.files(group, second)}
        found = {}
        for record in self.files(group, first):
            a, b = stage_ms(record, what), other.get(record.id)
            if a is not None and b:
                found[record.id] = (a, b)
        return found


def _ratio(pairs: dict[str, tuple[float, float]]) -> float | None:
    ratios: Sequence[float] = [slow / fast for slow, fast in pairs.values()]
    return float(np.median(ratios)) if ratios else None


def sameness(row: dict[str, Any]) -> str:
    """Whether a batch gave the text of its windows one by one; else how close its choices were."""
    if row["same_text"]:
        return "same text"
    return f"another text, {row['near_ties']} of {row['tokens']} choices were near-ties"
