"""The table of `experiments.device_faults`: a line per kept run."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.repository import RESULTS

RESULT: Final = RESULTS / "device_faults.json"
COLUMNS: Final = (
    "run", "files", "right text", "wrong text", "reported errors",
    "open files, threads: before; after", "MiB in use: before, after",
    "resident MiB: before, after", "longest file", "verdict",
)  # fmt: skip


def tables(runs: list[dict[str, Any]], _weights: str) -> dict[str, str]:
    """What became of the files, whatever the weights."""
    return {"device-faults": Table(COLUMNS, tuple(map(_row, runs))).markdown()}


def with_run(runs: list[dict[str, Any]], run: dict[str, Any]) -> list[dict[str, Any]]:
    """Kept runs, this one in the place of an earlier one with the same arguments."""
    others = [other for other in runs if _arguments(other) != _arguments(run)]
    return sorted([*others, run], key=_arguments)


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    before, after = run["before"], run["after"]
    several = "s" if run["streams"] > 1 else ""
    return (
        f"{run['faults']} faults, seed {run['seed']}, {run['streams']} stream{several}, "
        f"{run['seconds']:.0f} s",
        *(str(run[name]) for name in ("files", "right_text", "wrong_text")),
        str(sum(run["reported"].values())),
        f"{before['fds']}, {before['threads']}; {after['fds']}, {after['threads']}",
        *(f"{before[name]}, {after[name]}" for name in ("heap_mib", "rss_mib")),
        f"{run['longest_file_s']:.1f} s",
        run["verdict"],
    )


def _arguments(run: dict[str, Any]) -> tuple[int, int, int]:
    return run["streams"], run["seed"], -run["faults"]
