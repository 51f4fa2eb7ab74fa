"""The kept runs of `device_faults.py`, and the table that docs/hailo-device.md shows of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "device_faults.json"
PAGE = Path(__file__).parents[1] / "docs" / "hailo-device.md"
BEGIN, END = "<!-- device faults: begin -->", "<!-- device faults: end -->"


def keep(run: dict[str, Any]) -> None:
    """Put a run in the place of an earlier one with the same arguments, and fill the page."""
    runs = load() if RESULT.is_file() else []
    same = [_arguments(other) == _arguments(run) for other in runs]
    runs = [other for other, is_same in zip(runs, same, strict=True) if not is_same] + [run]
    runs.sort(key=_arguments)
    RESULT.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), runs), encoding="utf-8")


def load() -> list[dict[str, Any]]:
    """All kept runs."""
    runs: list[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))
    return runs


def filled(page: str, runs: list[dict[str, Any]]) -> str:
    """The page with the table of these runs in its place."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(runs)}\n{END}{tail}"


def table(runs: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| run | files | right text | wrong text | reported errors | open files, threads: before; "
        "after | MiB in use: before, after | resident MiB: before, after | longest file "
        "| verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(lines + [_line(run) for run in runs])


def _line(run: dict[str, Any]) -> str:
    before, after = run["before"], run["after"]
    several = "s" if run["streams"] > 1 else ""
    cells = [
        f"{run['faults']} faults, seed {run['seed']}, {run['streams']} stream{several}, "
        f"{run['seconds']:.0f} s",
        run["files"],
        run["right_text"],
        run["wrong_text"],
        sum(run["reported"].values()),
        f"{before['fds']}, {before['threads']}; {after['fds']}, {after['threads']}",
        f"{before['heap_mib']}, {after['heap_mib']}",
        f"{before['rss_mib']}, {after['rss_mib']}",
        f"{run['longest_file_s']:.1f} s",
        run["verdict"],
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _arguments(run: dict[str, Any]) -> tuple[int, int, int]:
    return run["streams"], run["seed"], -run["faults"]
