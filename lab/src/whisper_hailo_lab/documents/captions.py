"""Tables of `docs/measurements/captions.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import Column, Table, make_table

RESULT: Final = RESULTS / "captions.json"

Row = dict[str, Any]

_SETTLE: Final[Column] = (
    "a word settles after, s: median, 95 %",
    "{settle_s_median:.1f}, {settle_s_p95:.1f}",
)


def make_tables(result: Row) -> dict[str, str]:
    """Return one table for every part that was measured.

    Args:
        result: parts by name.
    """
    return {
        f"captions-{name}": f"{_describe_origin(result[name])}\n\n{make(result[name]).markdown()}"
        for name, make in PARTS.items()
        if name in result
    }


def _describe_origin(part: Row) -> str:
    models = " and ".join(part["models"])
    versions = ", ".join(
        f"{name} {version}" for name, version in part["versions"].items()
    )
    threads = "one thread" if part["threads"] == 1 else f"{part['threads']} threads"
    note = f"; {part['note']}" if part["note"] else ""
    return f"{models}, {threads}, {part['machine']}, {versions}{note}."


def rule_table(part: Row) -> Table:
    """Return one line per model, language and rule."""
    return make_table(
        part["rows"],
        (
            ("model", "{model}"),
            ("language", "{language}"),
            ("rule", "{rule}"),
            _SETTLE,
            ("rewritten per word", "{rewritten:.2f}"),
            ("partials, left out", "{partials}, {skipped_partials}"),
            (
                "share of the core",
                lambda row: f"{row['share'] * row['times_slower']:.2f}",
            ),
            ("WER %", "{wer:.1f}"),
            ("WER %, `transcribe`", "{whole_wer:.1f}"),
        ),
    )


def program_table(part: Row) -> Table:
    """Return one line per program."""
    return make_table(
        part["rows"],
        (
            ("program", "{program}"),
            _SETTLE,
            ("rewritten per word", "{rewritten:.2f}"),
            ("share of the core", "{share:.2f}"),
            ("WER %", "{wer:.1f}"),
        ),
    )


def mixture_table(part: Row) -> Table:
    """Return one line per mixture of languages."""
    return make_table(
        part["rows"],
        (
            ("languages", "{languages}"),
            ("pause, s", "{gap_s:g}"),
            ("speech without text, s", "{lost_s:.1f}"),
            ("a change, s", "{lost_per_change_s:.1f}"),
            ("reported, s", "{reported_s:.1f}"),
        ),
    )


PARTS: Final[dict[str, Callable[[Row], Table]]] = {
    "rules": rule_table,
    "programs": program_table,
    "mixtures": mixture_table,
}
