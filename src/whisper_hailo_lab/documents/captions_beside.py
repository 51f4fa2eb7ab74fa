"""Our captions beside other programs: a table of turns, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, Final

from whisper_hailo_lab.report.table import Table, table_of

NAMES: Final = {
    "ours": "whisper-hailo",
    "whisperlivekit": "WhisperLiveKit",
    "whisper_streaming": "whisper_streaming",
}


def _of_turns(part: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Medians of each program's turns."""
    found = {}
    for name in NAMES:
        own = [figures for system, figures in part["turns"] if system == name]
        for figures in own:
            figures["share"] = figures["processor_s"] / figures["stream_s"]
        if own:
            found[name] = {key: median(turn[key] for turn in own) for key in own[0]}
            found[name]["turns"] = len(own)
    return found


def beside_table(part: dict[str, Any]) -> Table:
    """A row for each program."""

    def both(what: str) -> Callable[[tuple[str, dict[str, float]]], str]:
        return lambda row: f"{row[1][f'{what}_s_median']:.2f}, {row[1][f'{what}_s_p95']:.2f}"

    return table_of(
        _of_turns(part).items(),
        ("program", lambda row: NAMES[row[0]]),
        ("turns", lambda row: str(row[1]["turns"])),
        ("first text, s: median, 95 %", both("first")),
        ("final text, s: median, 95 %", both("final")),
        ("share of one core", lambda row: f"{row[1]['share']:.2f}"),
        ("MiB", lambda row: f"{row[1]['peak_mib']:.0f}"),
        ("WER %", lambda row: f"{row[1]['wer']:.1f}"),
        ("sentences, of them unheard", lambda row: "{utterances:g}, {unheard:g}".format(**row[1])),
    )


def times_less(part: dict[str, Any]) -> str:
    """How many times less ours takes than each of the others."""
    found = _of_turns(part)
    ours = found.pop("ours")

    def times(row: dict[str, float], what: str) -> str:
        return f"{row[what] / ours[what]:.1f}"

    return "\n".join(
        f"{NAMES[name]} takes {times(row, 'first_s_median')} times as long to the first text,\n"
        f"{times(row, 'final_s_median')} times to the final one, and {times(row, 'share')} times "
        "the processor time."
        for name, row in found.items()
    )
