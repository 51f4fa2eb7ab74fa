"""Tables and the chart of `docs/measurements/speed.md`, from kept run files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.report.canvas import (
    StackedBar,
    draw_chart,
    draw_legend,
    draw_stacked_bars,
)
from whisper_hailo_lab.report.gather import RunSource, gather_runs
from whisper_hailo_lab.report.tables import comparison_table
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.records import CaseRecord, FileResult, RunRecords
from whisper_hailo_lab.runs.results import remark_weights, safetensors_hashes
from whisper_hailo_lab.runs.run_file import to_line
from whisper_hailo_lab.runs.summary import stage_ms
from whisper_hailo_lab.tables import DASH, Table, make_table

RESULT: Final = RESULTS / "speed" / "run.jsonl"
"""Every program on the same weights and core, in turns."""

Row = dict[str, Any]

GROUP: Final = "tiny-1"
"""Cases on tiny's dimensions, one thread, 10 s, 28 tokens."""

BASE: Final = "ours, INT8 encoder + 8-bit decoder"
"""Case that the others are compared with."""

STEPPED: Final = ("ours, INT8 encoder + 4-bit decoder", BASE, "CTranslate2 INT8, 10 s")
"""Cases of which a decoder step alone was measured."""

FEW_TOKENS: Final = 8
MANY_TOKENS: Final = 28
"""Tokens of the two processes of such a case; their difference is the time of the steps between."""

_HELPERS: Final = ("unpadded", f"{FEW_TOKENS} tokens")
"""Ends of the names of cases that only serve others."""

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SpeedRun:
    """One run of the comparison, read case by case."""

    run: RunRecords

    def cases(self) -> list[CaseRecord]:
        """Return the cases that have a line of their own."""
        return [
            case
            for case in self.run.cases
            if case.group == GROUP and not case.name.endswith(_HELPERS)
        ]

    def rounds(self, label: str) -> list[FileResult]:
        """Return the rounds of a case that succeeded."""
        return [
            file for file in self.run.files_of(f"{GROUP}: {label}") if not file.error
        ]

    def part(self, name: str) -> Sequence[Row]:
        """Return the rows of a part; nothing where it was not measured."""
        return next(
            (record.rows for record in self.run.comparisons if record.name == name), ()
        )

    def median_ms(self, label: str, stage: str) -> float | None:
        """Return the median over the rounds of a stage; see `stage_ms`."""
        times = [stage_ms(file, stage) for file in self.rounds(label)]
        known = [time for time in times if time is not None]
        return float(np.median(known)) if known else None

    def ratios(self, label: str, stage: str) -> list[float]:
        """Return a case's time by that of `BASE`, round by round."""
        return [
            case_ms / base_ms
            for case_ms, base_ms in self._paired_times(label, BASE, stage)
        ]

    def step_ms(self, label: str, stage: str) -> float | None:
        """Return the median time of a decoder step alone."""
        pairs = self._paired_times(label, f"{label}, {FEW_TOKENS} tokens", stage)
        n_steps = MANY_TOKENS - FEW_TOKENS
        steps = [(many_ms - few_ms) / n_steps for many_ms, few_ms in pairs]
        return float(np.median(steps)) if steps else None

    def _paired_times(
        self,
        first: str,
        second: str,
        stage: str,
    ) -> list[tuple[float, float]]:
        """Return the times of two cases in the rounds that both have."""
        times = {file.id: stage_ms(file, stage) for file in self.rounds(second)}
        pairs = []
        for file in self.rounds(first):
            first_ms = stage_ms(file, stage)
            second_ms = times.get(file.id)
            if first_ms is not None and second_ms:
                pairs.append((first_ms, second_ms))
        return pairs


def make_tables(run: RunRecords, weights: str) -> dict[str, str]:
    """Return every table with its origin.

    Args:
        run: of the comparison.
        weights: mark of micro's present weights; a run of others says so.
    """
    speed = SpeedRun(run)
    other = remark_weights(_micro_hashes(speed), weights)
    makers: dict[str, tuple[Callable[[SpeedRun], Table], str]] = {
        GROUP: (case_table, other),
        "steps": (step_table, ""),  # its weights are random
        "start": (start_table, other),
        "batch": (batch_table, other),
    }
    header = run.header
    note = f" {header.note}" if header.note else ""
    origin = f"{header.created[:10]}, {header.machine.label}"
    return {
        f"speed-{name}": f"{origin}{remark}.{note}\n\n{make(speed).markdown()}"
        for name, (make, remark) in makers.items()
    }


def _micro_hashes(speed: SpeedRun) -> set[str]:
    """Return the hashes of micro's weights, in turns and for its word error rates."""
    cases = [case.model_sha256 for case in speed.run.cases if case.model == "micro"]
    rows = [row["weights"] for row in speed.part("speed-accuracy")]
    return {value for hashes in (*cases, *rows) for value in safetensors_hashes(hashes)}


def case_table(speed: SpeedRun) -> Table:
    """Return the times of each case, their ratios to ours, and the price in words."""
    return make_table(
        [_case_row(speed, case) for case in speed.cases()],
        (
            ("case", "{case}"),
            ("encoder ms", "{encode:.1f}"),
            ("cross K/V ms", "{cross_kv:.1f}"),
            ("decoder ms", "{decode:.1f}"),
            ("total ms", "{work:.1f}"),
            ("times ours", "{ratio:.2f}"),
            ("half of rounds", "{half}"),
            ("CPU ms", "{cpu:.1f}"),
            ("by CPU", "{cpu_ratio:.2f}"),
            ("peak MiB", "{peak_mib:.0f}"),
            ("WER, micro", "{wer:.1%}"),
            ("95 %", "{interval}"),
            ("tokens as float32", "{equal:.1%}"),
        ),
    )


def _case_row(speed: SpeedRun, case: CaseRecord) -> Row:
    label = case.name.partition(": ")[2]
    if not speed.rounds(label):
        errors = [file.error for file in speed.run.files_of(case.name) if file.error]
        reason = case.error or (errors or ["no rounds"])[0]
        return {"case": f"{label}: {reason}"}
    stages = ("encode", "cross_kv", "decode", "work", "cpu")
    ratios = speed.ratios(label, "work")
    return {
        "case": label,
        **{stage: speed.median_ms(label, stage) for stage in stages},
        "ratio": np.median(ratios),
        "half": "{:.2f}-{:.2f}".format(*np.quantile(ratios, [0.25, 0.75])),
        "cpu_ratio": np.median(speed.ratios(label, "cpu")),
        "peak_mib": case.memory.peak,
        **_word_errors(speed, label),
    }


def _word_errors(speed: SpeedRun, label: str) -> Row:
    """Return rate, interval and share of equal tokens, where they were measured."""
    row = next(
        (row for row in speed.part("speed-accuracy") if row["case"] == label), None
    )
    if row is None:
        return {}
    low, high = row["interval"]
    return {
        "wer": row["wer"],
        "interval": DASH if low is None else f"{100 * low:.1f}-{100 * high:.1f} %",
        "equal": row["tokens_equal"] / row["tokens_all"] if row["tokens_all"] else None,
    }


def step_table(speed: SpeedRun) -> Table:
    """Return a decoder step alone, and the time to read its weights once."""
    rows: list[Row] = [
        {
            "step": label,
            "step_ms": speed.step_ms(label, "work"),
            "cpu_ms": speed.step_ms(label, "cpu"),
        }
        for label in STEPPED
        if speed.rounds(label)
    ]
    rows += [
        row
        | {
            "step": f"ours, {row['decoder']}, in one process",
            "cpu_ratio": row["cpu_ms"] / row["floor_ms"],
            "mib": sum(row["bytes"].values()) / _MIB,
        }
        for row in speed.part("speed-floor")
    ]
    return make_table(
        rows,
        (
            ("decoder step", "{step}"),
            ("ms", "{step_ms:.2f}"),
            ("CPU ms", "{cpu_ms:.2f}"),
            ("floor ms", "{floor_ms:.2f}"),
            ("times its floor", "{ratio:.2f}"),
            ("by CPU", "{cpu_ratio:.2f}"),
            ("MiB read", "{mib:.1f}"),
            ("GB/s", "{gb_per_s:.1f}"),
        ),
    )


def start_table(speed: SpeedRun) -> Table:
    """Return the time from the start of a process to its first text."""
    return make_table(
        speed.part("speed-start"),
        (
            ("dimensions", "{size}"),
            ("system", "{label}"),
            ("median ms", "{ms:.0f}"),
            ("least ms", "{least_ms:.0f}"),
            ("CPU ms", "{cpu_ms:.0f}"),
            ("peak MiB", "{peak_mib:.0f}"),
        ),
    )


def batch_table(speed: SpeedRun) -> Table:
    """Return eight windows decoded one by one and in one batch."""
    return make_table(
        speed.part("speed-batch"),
        (
            ("model", "{model}"),
            ("decoder", "{decoder}"),
            ("one by one ms", "{one_ms:.0f}"),
            ("batch ms", "{batch_ms:.0f}"),
            ("ratio", "{ratio:.2f}"),
            ("whole file", "{whole_ratio:.2f}"),
            ("text", lambda row: "same text" if row["same_text"] else "another text"),
        ),
    )


def hash_run(run: RunRecords) -> str:
    """Return the hash of a run's records, which its chart carries."""
    lines = [*map(to_line, run.cases), *map(to_line, run.files)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def draw_speed_chart(run: RunRecords) -> str:
    """Return bars of one window on tiny's dimensions as SVG, marked with the run's hash."""
    speed = SpeedRun(run)
    labels = [case.name.partition(": ")[2] for case in speed.cases()]
    bars = [_stacked_bar(speed, label) for label in labels if speed.rounds(label)]

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib
        draw_stacked_bars(axes[0], bars, None)
        axes[0].set_xlabel("ms from log-mel to 28 tokens")
        draw_legend(axes[0], 3)

    title = "A window of 10 s, the same weights of tiny's size, one thread"
    svg = draw_chart(
        "speed",
        title,
        draw,
        (1, 1),
        len(bars) + 3,
    ).svg
    return f"<!-- run {hash_run(run)} -->\n{svg}"


def _stacked_bar(speed: SpeedRun, label: str) -> StackedBar:
    encoder_ms = speed.median_ms(label, "encode") or 0.0
    decoder_ms = speed.median_ms(label, "decoder") or 0.0
    total_ms = speed.median_ms(label, "work") or 0.0
    return StackedBar(
        label,
        encoder_ms,
        decoder_ms,
        max(0.0, total_ms - encoder_ms - decoder_ms),
    )


def make_comparison_tables(weights: str) -> dict[str, str]:
    """Return the tables of `compare`, each from the last run that has it."""
    machine = gather_runs([RESULTS])[0]
    return {
        name: f"{_comparison_origin(source, record.settings, weights)}\n\n"
        f"{comparison_table(record).markdown()}"
        for name, (source, record) in machine.comparisons.items()
    }


def _comparison_origin(source: RunSource, settings: Row, weights: str) -> str:
    header = source.header
    other = ""
    if "model" in settings:  # log-mels are compared without one
        hashes = (
            value for system in source.systems for value in _hashes_of(system.case)
        )
        other = remark_weights(hashes, weights)
    note = f" {header.note}" if header.note else ""
    return (
        f"{header.created[:10]}, {header.machine.label}; {header.n_samples} recordings of "
        f"{header.dataset}{other}.{note}"
    )


def _hashes_of(case: CaseRecord) -> set[str]:
    return safetensors_hashes(case.model_sha256)
