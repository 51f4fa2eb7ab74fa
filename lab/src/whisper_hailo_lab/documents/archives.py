"""The tables of `experiments.archives` and `experiments.archive_scale`."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from whisper_hailo.batch.tasks import PIECE_S
from whisper_hailo_lab.report.table import Table, table_of
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = RESULTS / "archives.json"
SCALE: Final = RESULTS / "archive_scale.json"

LOCAL: Final = "two workers"
RAY: Final = "Ray, two workers"
_GIB: Final = 1 << 30


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """One long recording, and many short ones.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    return {"archive-long": _long(result, weights), "archive-engines": _engines(result, weights)}


def _where(result: dict[str, Any], weights: str) -> str:
    return f"{result['machine']}{remark([result.get('weights', '')], weights)}"


def _long(result: dict[str, Any], weights: str) -> str:
    long = result["long"]
    share = 100 * long["words_changed"] / long["words"]
    text = (
        f"`python -m whisper_hailo_lab.experiments.archives`: {long['hours']:g} hours of the "
        "frozen clips with silence and noise between them, one recording, `micro`, "
        f"{_where(result, weights)}. {long['words']:,} words; `transcribe`, which cuts nowhere, "
        f"has {share:.1f} % of them otherwise and took {long['transcribe']['seconds']:,.0f} s.\n\n"
    )
    rows = table_of(
        long["rows"],
        ("engine", lambda row: row["engine"]),
        ("seconds", lambda row: f"{row['seconds']:,.0f}"),
        ("most memory of a worker, MiB", lambda row: f"{row['worker_mib']:.0f}"),
        ("same bytes as one worker", lambda row: "yes" if row["same"] else "NO"),
    )
    return text + rows.markdown()


def overhead(pair: dict[str, Any]) -> float:
    """So much more of the processor, as a share, Ray takes than the local engine, beside its start.

    Seconds on the wall are not compared: they are also those of other programs.
    """
    local, ray = (pair[name]["cpu_s"] - pair[name]["start_cpu_s"] for name in (LOCAL, RAY))
    return float(ray / local - 1)


def _engines(result: dict[str, Any], weights: str) -> str:
    pairs, none = result["pairs"], result["scheduling"]
    more = sorted(100 * overhead(pair) for pair in pairs)
    text = (
        f"{result['clips']:,} clips of {pairs[0][LOCAL]['audio_s'] / result['clips']:.1f} s, "
        f"{len(pairs)} pairs in turns, {_where(result, weights)}; the start is what a job of "
        f"{pairs[0][LOCAL]['start_clips']} clips takes. Beside the start Ray takes "
        f"{median(more):+.0f} % of the local engine's processor time (median; {more[0]:+.0f} to "
        f"{more[-1]:+.0f} %). {none['tasks']:,} tasks without anything to transcribe went through "
        f"Ray in {none['seconds']:.0f} s.\n\n"
    )
    rows = tuple(_engine(name, [pair[name] for pair in pairs]) for name in (LOCAL, RAY))
    heads = ("engine", "start, s", "of the processor", "whole job, s", "of the processor")
    return text + Table(heads, rows).markdown()


def _engine(name: str, runs: list[dict[str, Any]]) -> tuple[str, ...]:
    columns = ("start_s", "start_cpu_s", "seconds", "cpu_s")
    return name, *(f"{median(run[column] for run in runs):.0f}" for column in columns)


def scale_tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """What was measured, and jobs in simulated time."""
    costs = result["costs"]
    about = _where(result, weights)
    measured = (
        ("a worker with `micro`", f"{costs['speed']:.0f} x real time"),
        ("a reader", f"{costs['reading']:.0f} x real time"),
        ("the driver, in Ray", f"{1000 * costs['dispatch_s']:.0f} ms a task"),
        ("the driver, ledger and results", f"{1000 * costs['note_s']:.1f} ms a task"),
        ("the driver's memory", f"{costs['item_bytes']:.0f} bytes a recording"),
        ("the ledger", f"{costs['ledger_bytes'] / 1024:.1f} KiB a task"),
        ("results", f"{costs['result_bytes'] / 1024:.0f} KiB a task"),
    )
    rows = table_of(
        result["rows"],
        ("nodes", lambda row: f"{row['n_nodes']:,}"),
        ("hours", lambda row: f"{row['hours']:,.0f}"),
        ("a worker, x real time", lambda row: f"{row['speed']:.0f}"),
        ("tasks", lambda row: f"{row['n_tasks']:,}"),
        ("takes, h", lambda row: f"{row['seconds'] / 3600:,.1f}"),
        ("workers at work", lambda row: f"{100 * row['busy']['workers']:.0f} %"),
        ("narrowest", _narrowest),
        ("done twice", lambda row: f"{row['again']:,}"),
        ("driver, GiB", lambda row: f"{row['driver_bytes'] / _GIB:.1f}"),
        ("restart, s", lambda row: f"{row['restart_s']:.0f}"),
    )
    about = f"`python -m whisper_hailo_lab.experiments.archive_scale`, {about}.\n\n"
    return {
        "archive-costs": about + Table(("what", "measured"), measured).markdown(),
        "archive-scale": about + rows.markdown() + _limits(costs),
    }


def _limits(costs: dict[str, float]) -> str:
    """How far one driver goes, for long recordings and for short ones."""
    handle_s = costs["dispatch_s"] + costs["note_s"]
    workers = PIECE_S / handle_s / costs["speed"]
    return (
        f"\nA driver hands out {1 / handle_s:.0f} tasks a second: {PIECE_S / handle_s:,.0f} x real "
        f"time with long recordings, which keeps {workers:,.0f} workers with `micro` busy.\n"
    )


def _narrowest(row: dict[str, Any]) -> str:
    """Who is at work most of the time."""
    place = max(row["busy"], key=lambda name: float(row["busy"][name]))
    return f"{place}, {100 * row['busy'][place]:.0f} %"
