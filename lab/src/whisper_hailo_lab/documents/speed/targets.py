"""What we set out to reach, and what the run says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.report.table import Table, number
from whisper_hailo_lab.runs.records import CaseRecord, FileResult, RunRecords
from whisper_hailo_lab.runs.summary import stage_ms
from whisper_hailo_lab.speed import plan
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
    """Return whether a batch gave the text of its windows one by one."""
    return "same text" if row["same_text"] else "another text"


GROUP: Final = "tiny-1"
"""One core, tiny's dimensions, 10 s, 28 tokens."""

INT8: Final = (plan.INT8_INT4, plan.INT8_INT8)
FLOATS: Final = (plan.FLOAT_INT4, plan.FLOAT_INT8)


@dataclass(frozen=True, slots=True)
class Target:
    """One line.

    Attributes:
        what: against whom, and of which of our configurations.
        wanted: the bound.
        at_least: whether more is better.
        measured: by the wall clock; `None` where it was not measured.
        by_cpu: the same by processor time, which a busy machine disturbs less.
        unit: such as `x`.
        note: price and conditions.
        busy: the machine was, so that processor time decides where it is known.
    """

    what: str
    wanted: float
    at_least: bool
    measured: float | None
    by_cpu: float | None = None
    unit: str = "x"
    note: str = ""
    busy: bool = False

    @property
    def decides(self) -> float | None:
        """The figure that is held against the bound."""
        return self.by_cpu if self.busy and self.by_cpu is not None else self.measured

    @property
    def verdict(self) -> str:
        """`met`, `not met`, or a dash where nothing was measured."""
        value = self.decides
        if value is None:
            return "-"
        good = value >= self.wanted if self.at_least else value <= self.wanted
        return "met" if good else "not met"


def targets_table(speed: Speed) -> Table:
    """Every target with its measurement."""
    columns = ("target", "wanted", "measured", "by processor time", "", "conditions")
    return Table(columns, tuple(_row(target) for target in targets(speed)))


def _row(target: Target) -> tuple[str, ...]:
    bound = "at least" if target.at_least else "at most"
    return (
        target.what,
        f"{bound} {target.wanted:g} {target.unit}",
        _with_unit(target.measured, target.unit),
        _with_unit(target.by_cpu, target.unit),
        target.verdict,
        target.note,
    )


def _with_unit(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{number(value, 0 if value >= 100 else 2)} {unit}"


def targets(speed: Speed) -> Iterator[Target]:
    """All targets, in the order in which they were set."""
    busy = speed.busy
    yield from (replace(target, busy=busy) for target in _all(speed))


def _all(speed: Speed) -> Iterator[Target]:
    yield from _against(speed, INT8, {
        plan.FASTER_WHISPER: 7.0, plan.CTRANSLATE2: 2.0, plan.CPP_F16: 4.0, plan.CPP_Q8: 4.0,
        plan.STUDY: 2.5,
    })  # fmt: skip
    yield from _against(speed, FLOATS, {
        plan.FASTER_WHISPER: 4.5, plan.CTRANSLATE2: 1.5, plan.STUDY: 1.7,
    })  # fmt: skip
    yield from _steps(speed)
    yield from _floor(speed)
    yield from _padding(speed)
    yield from _start(speed)
    yield from _batch(speed)
    yield from _accuracy(speed)


def _against(speed: Speed, ours: tuple[str, ...], wanted: dict[str, float]) -> Iterator[Target]:
    """Whole windows: the quicker of our two decoders with that encoder."""
    present = [label for label in ours if speed.files(GROUP, label)]
    for rival, bound in wanted.items():
        ratios = {label: speed.ratio(GROUP, rival, label) for label in present}
        known = {label: ratio for label, ratio in ratios.items() if ratio is not None}
        best = max(known, key=lambda label: known[label]) if known else ours[0]
        yield Target(
            f"{rival}", bound, True, known.get(best), speed.ratio(GROUP, rival, best, "cpu"),
            note=f"{best}{_price(speed, best)}",
        )  # fmt: skip


def _price(speed: Speed, label: str) -> str:
    """What a configuration costs in word errors."""
    mine, base = speed.accuracy(label), speed.accuracy(plan.FLOAT)
    if not mine or not base or mine["wer"] is None or base["wer"] is None:
        return ""
    return f"; WER {100 * (mine['wer'] - base['wer']):+.1f} points on micro"


def _steps(speed: Speed) -> Iterator[Target]:
    for label in INT8:
        wall = speed.step_ratio(GROUP, plan.CTRANSLATE2, label)
        cpu = speed.step_ratio(GROUP, plan.CTRANSLATE2, label, "cpu")
        bits = "4-bit" if label == plan.INT8_INT4 else "8-bit"
        yield Target("CTranslate2 INT8, a decoder step alone", 3.0, True, wall, cpu,
                     note=f"{bits}; a twentieth of what 20 more tokens cost")  # fmt: skip


def _floor(speed: Speed) -> Iterator[Target]:
    for row in speed.comparison("speed-floor"):
        mib = sum(row["bytes"].values()) / (1 << 20)
        yield Target(
            f"decoder step against its floor, {row['decoder']}", 1.5, False, row["ratio"],
            row["cpu_ms"] / row["floor_ms"],
            note=f"{mib:.1f} MiB at {row['gb_per_s']:.1f} GB/s",
        )  # fmt: skip


def _padding(speed: Speed) -> Iterator[Target]:
    for label in INT8:
        unpadded = f"{label}, {plan.UNPADDED}"
        ratio = speed.ratio(GROUP, label, unpadded, "decoder")
        # Processor time is only known of the whole, which would hide what the decoder pays.
        yield Target("free padding against none", 1.05, False, ratio, note=f"decoder of {label}")


def _start(speed: Speed) -> Iterator[Target]:
    rows = {(row["size"], row["label"]): row for row in speed.comparison("speed-start")}

    def told(size: str, label: str, what: str) -> float | None:
        found: Any = rows.get((size, label), {}).get(what)
        return None if found is None else float(found)

    def faster(what: str) -> float | None:
        mine, other = told("tiny", "ours", what), told("tiny", "faster-whisper", what)
        return other / mine if mine and other else None

    micro, busy = told("micro", "ours", "ms"), told("micro", "ours", "cpu_ms")
    said = "process start, import, load, first text of 3 s"
    yield Target("start with micro", 600, False, micro, busy, "ms", said)
    yield Target("start with tiny's dimensions against faster-whisper", 1.3, True, faster("ms"),
                 faster("cpu_ms"), note=said)  # fmt: skip
    peak, other = told("tiny", "ours", "peak_mib"), told("tiny", "faster-whisper", "peak_mib")
    yield Target("peak memory, tiny's dimensions, INT8", 150e6 / (1 << 20), False, peak, None,
                 "MiB", "150 MB; of the process that gave the first text")  # fmt: skip
    if other is not None:
        yield Target("peak memory, faster-whisper's", other, False, peak, None, "MiB")


def _batch(speed: Speed) -> Iterator[Target]:
    for row in speed.comparison("speed-batch"):
        note = f"decoder; whole file {row['whole_ratio']:.2f} x; {sameness(row)}"
        yield Target(
            f"8 windows in a batch against one by one, {row['model']}, {row['decoder']}", 2.5,
            True, row["ratio"], note=note,
        )  # fmt: skip


def _accuracy(speed: Speed) -> Iterator[Target]:
    base = speed.accuracy(plan.FLOAT)
    lost: Callable[[dict[str, Any]], float] = lambda row: (  # noqa: E731
        100 * (row["wer"] - base["wer"]) if base else 0.0
    )
    for label, bound in ((plan.FLOAT_INT8, 0.3), (plan.INT8_INT8, 0.3), (plan.FLOAT_INT4, 1.0),
                         (plan.INT8_INT4, 1.0)):  # fmt: skip
        row = speed.accuracy(label)
        known = row is not None and base is not None
        yield Target(
            f"WER lost by {label}", bound, False, lost(row) if known and row else None, None,
            "points", f"on {row['words']:,} words of micro's test set" if row else "",
        )  # fmt: skip
