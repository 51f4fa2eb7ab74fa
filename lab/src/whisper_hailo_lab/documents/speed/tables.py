"""Tables and the chart of the speed comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from whisper_hailo_lab.documents.speed.targets import Speed, sameness, targets_table
from whisper_hailo_lab.report.canvas import draw_chart, legend, stacked
from whisper_hailo_lab.report.table import Table, number, percent, table_of
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark, safetensors
from whisper_hailo_lab.runs.records import CaseRecord, RunRecords
from whisper_hailo_lab.runs.run_file import to_line
from whisper_hailo_lab.speed import plan

RESULT: Final = RESULTS / "speed" / "run.jsonl"

BASE: Final = plan.INT8_INT8
"""The case that the others are compared with."""

_EXTRA: Final = (plan.UNPADDED, f"{plan.FEW_TOKENS} tokens")


def tables(run: RunRecords, weights: str) -> dict[str, str]:
    """Every table in Markdown, with where it comes from.

    Args:
        run: of the comparison.
        weights: mark of micro's present weights; a run of others says so.
    """
    speed, header = Speed(run), run.header
    note = f" {header.note}" if header.note else ""
    found = {}
    for name in (*_TABLES, *plan.GROUPS):
        other = "" if name in _RANDOM else remark(_micro_hashes(run), weights)
        text = "Not measured in this run.\n"
        if name in _TABLES:
            text = _TABLES[name](speed).markdown()
        elif name in speed.groups():
            text = group_table(speed, name).markdown()
        origin = f"{header.created[:10]}, {header.machine.label}{other}.{note}"
        found[f"speed-{name}"] = f"{origin}\n\n{text}"
    return found


def _micro_hashes(run: RunRecords) -> set[str]:
    """Of micro's weights in a run, in turns and for its word error rates."""
    cases = [case.model_sha256 for case in run.cases if case.model == plan.MICRO]
    rows = [row["weights"] for row in Speed(run).comparison("speed-accuracy")]
    return {value for hashes in (*cases, *rows) for value in safetensors(hashes)}


def report_text(run: RunRecords) -> str:
    """All tables for a terminal."""
    speed = Speed(run)
    parts = [f"{name}\n{group_table(speed, name).plain()}" for name in speed.groups()]
    parts += [f"{name}\n{make(speed).plain()}" for name, make in _TABLES.items()]
    return "\n".join(parts)


def group_table(speed: Speed, group: str) -> Table:
    """Times of a group's cases, with their ratios to ours and what they cost in words."""
    columns = (
        "case", "encoder ms", "cross K/V ms", "decoder ms", "total ms", "times ours",
        "half of rounds", "CPU ms", "by CPU", "peak MiB", "WER, micro", "95 %",
        "tokens as float32",
    )  # fmt: skip
    shown = [c for c in speed.cases(group) if not plan.label_of(c.name).endswith(_EXTRA)]
    return Table(columns, tuple(_group_row(speed, group, case) for case in shown))


def _group_row(speed: Speed, group: str, case: CaseRecord) -> tuple[str, ...]:
    label = plan.label_of(case.name)
    if not speed.files(group, label):
        failed = [f.error for f in speed.run.files_of(case.name) if f.error]
        return (f"{label}: {case.error or (failed or ['no rounds'])[0]}", *("-",) * 12)
    stages = [speed.median(group, label, name) for name in ("encode", "cross_kv", "decode")]
    return (
        label,
        *(number(ms) for ms in stages),
        number(speed.median(group, label, "work")),
        number(speed.ratio(group, label, BASE), 2),
        _between(speed.spread(group, label, BASE)),
        number(speed.median(group, label, "cpu")),
        number(speed.ratio(group, label, BASE, "cpu"), 2),
        number(case.memory.peak, 0),
        *_accuracy_cells(speed.accuracy(label)),
    )


def _between(spread: tuple[float, float] | None) -> str:
    return "-" if spread is None else f"{spread[0]:.2f}-{spread[1]:.2f}"


def _accuracy_cells(row: dict[str, Any] | None) -> tuple[str, str, str]:
    """Rate, interval, and share of equal tokens."""
    if row is None:
        return "-", "-", "-"
    low, high = row["interval"]
    span = "-" if low is None else f"{100 * low:.1f}-{100 * high:.1f} %"
    equal = row["tokens_equal"] / row["tokens_all"] if row["tokens_all"] else None
    return percent(row["wer"]), span, percent(equal)


def accuracy_table(speed: Speed) -> Table:
    """Word error rates with their counts."""
    return table_of(
        speed.comparison("speed-accuracy"),
        ("case", lambda row: row["case"]),
        ("WER", lambda row: _accuracy_cells(row)[0]),
        ("95 %", lambda row: _accuracy_cells(row)[1]),
        ("S", lambda row: f"{row['substitutions']:,}"),
        ("D", lambda row: f"{row['deletions']:,}"),
        ("I", lambda row: f"{row['insertions']:,}"),
        ("words", lambda row: f"{row['words']:,}"),
        ("tokens as float32", lambda row: _accuracy_cells(row)[2]),
        ("same texts", lambda row: f"{row['texts_equal']} of {row['texts']}"),
        ("failed", lambda row: str(row["failed"])),
    )


def steps_table(speed: Speed) -> Table:
    """A decoder step alone, and its floor."""
    columns = ("decoder step", "ms", "CPU ms", "floor ms", "times its floor", "by CPU", "MiB read",
               "GB/s")  # fmt: skip
    group = "tiny-1"
    rows = [
        (label, number(speed.step_ms(group, label), 2),
         number(speed.step_ms(group, label, "cpu"), 2), "-", "-", "-", "-", "-")
        for label in plan.STEPPED
        if speed.files(group, label)
    ]  # fmt: skip
    rows += [
        (f"ours, {row['decoder']}, in one process", number(row["step_ms"], 2),
         number(row["cpu_ms"], 2), number(row["floor_ms"], 2), number(row["ratio"], 2),
         number(row["cpu_ms"] / row["floor_ms"], 2), number(sum(row["bytes"].values()) / (1 << 20)),
         number(row["gb_per_s"]))
        for row in speed.comparison("speed-floor")
    ]  # fmt: skip
    return Table(columns, tuple(rows))


def start_table(speed: Speed) -> Table:
    """From the start of a process to its first text, system by system."""
    return table_of(
        speed.comparison("speed-start"),
        ("dimensions", lambda row: row["size"]),
        ("system", lambda row: row["label"]),
        ("median ms", lambda row: number(row["ms"], 0)),
        ("least ms", lambda row: number(row["least_ms"], 0)),
        ("CPU ms", lambda row: number(row["cpu_ms"], 0)),
        ("peak MiB", lambda row: number(row["peak_mib"], 0)),
    )


def batch_table(speed: Speed) -> Table:
    """Eight windows decoded one by one and in one batch."""
    return table_of(
        speed.comparison("speed-batch"),
        ("model", lambda row: row["model"]),
        ("decoder", lambda row: row["decoder"]),
        ("one by one ms", lambda row: number(row["one_ms"], 0)),
        ("batch ms", lambda row: number(row["batch_ms"], 0)),
        ("ratio", lambda row: number(row["ratio"], 2)),
        ("whole file", lambda row: number(row["whole_ratio"], 2)),
        ("text", sameness),
    )


def run_mark(run: RunRecords) -> str:
    """Hash of a run, which its chart carries."""
    lines = [*map(to_line, run.cases), *map(to_line, run.files)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def chart_svg(run: RunRecords) -> str:
    """Bars of one window on tiny's dimensions, one thread; marked with the run that it shows."""
    speed, group = Speed(run), "tiny-1"
    labels = [n for n in speed.labels(group) if not n.endswith(_EXTRA) and speed.files(group, n)]
    rows = []
    for label in labels:
        parts = [speed.median(group, label, name) or 0.0 for name in ("encode", "decoder", "work")]
        encoder, decoder, total = parts
        rows.append((label, encoder, decoder, max(0.0, total - encoder - decoder)))

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib
        stacked(axes[0], rows, None)
        axes[0].set_xlabel("ms from log-mel to 28 tokens")
        legend(axes[0], 3)

    title = "A window of 10 s, the same weights of tiny's size, one thread"
    svg = draw_chart("speed", title, draw, (1, 1), len(rows) + 3).svg
    return f"<!-- run {run_mark(run)} -->\n{svg}"


_TABLES: Final[dict[str, Callable[[Speed], Table]]] = {
    "targets": targets_table,
    "accuracy": accuracy_table,
    "steps": steps_table,
    "start": start_table,
    "batch": batch_table,
}
_RANDOM: Final = frozenset({"steps"})
"""Tables of random weights alone; all others tell something of micro."""
