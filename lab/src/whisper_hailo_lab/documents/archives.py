"""Tables of `docs/measurements/archives.md`: long jobs, killed ones, and many short recordings."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.results import origin_of
from whisper_hailo_lab.tables import make_table

INTERRUPTED: Final = RESULTS / "interrupted.json"
ARCHIVES: Final = RESULTS / "archives.json"

Result = dict[str, Any]

_LOCAL: Final = "two workers"
_RAY: Final = "Ray, two workers"


def interrupted_tables(result: Result, weights: str) -> dict[str, str]:
    """Return the table of jobs that were killed and resumed."""
    text = (
        f"{result['minutes']:g} minutes of the frozen clips, `micro`, "
        f"{origin_of(result, weights)}. First line of text after {result['first_text_s']:.1f} s, "
        f"all {result['lines']:,} lines after {result['straight_s']:.0f} s.\n\n"
    )
    table = make_table(
        sorted(result["kills"], key=lambda kill: float(kill["at"])),
        (
            ("killed with so much done", _share_done),
            ("same files in the end", lambda kill: _yes_or_no(kill["same"])),
        ),
    )
    return {"interrupted": text + table.markdown()}


def _share_done(kill: Result) -> str:
    return f"{100 * kill['at']:.0f} %" if kill["killed"] else "done before"


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "NO"


def archive_tables(result: Result, weights: str) -> dict[str, str]:
    """Return the tables of one long recording and of many short ones."""
    return {
        "archive-long": _long_table(result, weights),
        "archive-engines": _engine_table(result, weights),
    }


def _long_table(result: Result, weights: str) -> str:
    long = result["long"]
    share = 100 * long["words_changed"] / long["words"]
    text = (
        f"{long['hours']:g} hours of the frozen clips with silence and noise between them, one "
        f"recording, `micro`, {origin_of(result, weights)}. {long['words']:,} words; `transcribe`, "
        f"which cuts nowhere, has {share:.1f} % of them otherwise and took "
        f"{long['transcribe']['seconds']:,.0f} s.\n\n"
    )
    table = make_table(
        long["rows"],
        (
            ("engine", "{engine}"),
            ("seconds", "{seconds:,.0f}"),
            ("most memory of a worker, MiB", "{worker_mib:.0f}"),
            ("same bytes as one worker", lambda row: _yes_or_no(row["same"])),
        ),
    )
    return text + table.markdown()


def ray_overhead(pair: Result) -> float:
    """Return the share of processor time that Ray takes beyond the local engine, start excluded.

    Wall-clock seconds are not compared: other programs were running.
    """
    local = pair[_LOCAL]
    ray = pair[_RAY]
    local_s = local["cpu_s"] - local["start_cpu_s"]
    ray_s = ray["cpu_s"] - ray["start_cpu_s"]
    return float(ray_s / local_s - 1)


def _engine_table(result: Result, weights: str) -> str:
    pairs = result["pairs"]
    first = pairs[0][_LOCAL]
    more = sorted(100 * ray_overhead(pair) for pair in pairs)
    scheduling = result["scheduling"]
    text = (
        f"{result['clips']:,} clips of {first['audio_s'] / result['clips']:.1f} s, "
        f"{len(pairs)} pairs in turns, {origin_of(result, weights)}; the start is what a job of "
        f"{first['start_clips']} clips takes. Beside the start Ray takes "
        f"{median(more):+.0f} % of the local engine's processor time (median; {more[0]:+.0f} to "
        f"{more[-1]:+.0f} %). {scheduling['tasks']:,} tasks without anything to transcribe went "
        f"through Ray in {scheduling['seconds']:.0f} s.\n\n"
    )
    table = make_table(
        [_median_run(name, pairs) for name in (_LOCAL, _RAY)],
        (
            ("engine", "{engine}"),
            ("start, s", "{start_s:.0f}"),
            ("of the processor", "{start_cpu_s:.0f}"),
            ("whole job, s", "{seconds:.0f}"),
            ("of the processor", "{cpu_s:.0f}"),
        ),
    )
    return text + table.markdown()


def _median_run(name: str, pairs: list[Result]) -> Result:
    figures = ("start_s", "start_cpu_s", "seconds", "cpu_s")
    medians = {
        figure: median(pair[name][figure] for pair in pairs) for figure in figures
    }
    return {"engine": name, **medians}
