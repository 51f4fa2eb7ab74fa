"""Table of `tests/device_faults.py`: a line per kept run."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import make_table

RESULT: Final = RESULTS / "device_faults.json"

Run = dict[str, Any]


def make_tables(runs: list[Run]) -> dict[str, str]:
    """Return the outcome of the files."""
    table = make_table(
        runs,
        (
            ("run", _describe_run),
            ("files", "{files}"),
            ("right text", "{right_text}"),
            ("wrong text", "{wrong_text}"),
            ("reported errors", lambda run: str(sum(run["reported"].values()))),
            (
                "open files, threads: before; after",
                "{before.fds}, {before.threads}; {after.fds}, {after.threads}",
            ),
            ("MiB in use: before, after", "{before.heap_mib}, {after.heap_mib}"),
            ("resident MiB: before, after", "{before.rss_mib}, {after.rss_mib}"),
            ("longest file", "{longest_file_s:.1f} s"),
            ("verdict", "{verdict}"),
        ),
    )
    return {"device-faults": table.markdown()}


def _describe_run(run: Run) -> str:
    streams = "1 stream" if run["streams"] == 1 else f"{run['streams']} streams"
    return (
        f"{run['faults']} faults, seed {run['seed']}, {streams}, {run['seconds']:.0f} s"
    )


def add_run(runs: list[Run], run: Run) -> list[Run]:
    """Return the kept runs with this one, which replaces a run of the same arguments."""
    others = [other for other in runs if _run_arguments(other) != _run_arguments(run)]
    return sorted([*others, run], key=_run_arguments)


def _run_arguments(run: Run) -> tuple[int, int, int]:
    return run["streams"], run["seed"], -run["faults"]
