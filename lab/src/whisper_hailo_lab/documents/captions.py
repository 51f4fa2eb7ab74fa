"""Tables of `docs/measurements/captions.md`."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import Column, Table, fill_cell, make_table

RESULT: Final = RESULTS / "captions.json"

Row = dict[str, Any]

_FIRST: Final[Column] = (
    "first text, s: median, 95 %",
    "{first_s_median:.2f}, {first_s_p95:.2f}",
)
_FINAL: Final[Column] = (
    "final text, s: median, 95 %",
    "{final_s_median:.2f}, {final_s_p95:.2f}",
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


def policy_table(part: Row) -> Table:
    """Return one line per model, encoder and policy; times are means over the kinds of speech."""
    grouped: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in part["rows"]:
        key = (row["model"], row["encoder"], row["policy"])
        grouped.setdefault(key, {})[row["speech"]] = row
    kinds = list(dict.fromkeys(row["speech"] for row in part["rows"]))
    columns: list[Column] = [
        ("model", "{model}"),
        ("encoder", "{encoder}"),
        ("policy", "{policy}"),
    ]
    columns += [(f"WER %, {kind}", f"{{{kind}:.1f}}") for kind in kinds]
    columns += [
        _blank_if_offline(_FIRST),
        _blank_if_offline(_FINAL),
        _blank_if_offline(("rewritten per word", "{rewritten:.2f}")),
        _blank_if_offline(("share of one core", "{share:.2f}")),
        _blank_if_offline(("most behind, s", "{behind_s:.2f}")),
    ]
    return make_table([_combine_kinds(rows) for rows in grouped.values()], columns)


def _blank_if_offline(column: Column) -> Column:
    """Leave the cell empty for whole recordings, which have no latency."""
    heading, cell = column
    return heading, lambda row: fill_cell(cell, row) if "share" in row else ""


_MEANS: Final = (
    "first_s_median",
    "first_s_p95",
    "final_s_median",
    "final_s_p95",
    "rewritten",
    "share",
)


def _combine_kinds(by_kind: dict[str, Row]) -> Row:
    rows = list(by_kind.values())
    names = ("model", "encoder", "policy")
    combined: Row = {name: rows[0][name] for name in names}
    combined |= {kind: row["wer"] for kind, row in by_kind.items()}
    if "share" in rows[0]:
        combined |= {name: fmean(row[name] for row in rows) for name in _MEANS}
        combined["behind_s"] = max(row["behind_s"] for row in rows)
    return combined


def continuous_table(part: Row) -> Table:
    """Return one line per model and speed of the core."""
    return make_table(
        part["rows"],
        (
            ("model", "{model}"),
            ("core", _core_label),
            ("minutes", lambda row: f"{row['seconds'] / 60:.0f}"),
            (
                "share of the core",
                lambda row: f"{row['share'] * row['times_slower']:.2f}",
            ),
            ("most behind, s", "{behind_s:.2f}"),
            _FIRST,
            _FINAL,
            ("partials, left out", "{partials}, {skipped_partials}"),
            ("WER %", "{wer:.1f}"),
        ),
    )


def _core_label(row: Row) -> str:
    slower = row["times_slower"]
    return "this one" if slower == 1 else f"{slower:g} times slower"


def unbroken_table(part: Row) -> Table:
    """Return one line per model and language."""
    return make_table(
        part["rows"],
        (
            ("model", "{model}"),
            ("language", "{language}"),
            ("s", "{seconds:.0f}"),
            (
                "a word settles after, s: median, 95 %",
                "{settle_s_median:.1f}, {settle_s_p95:.1f}",
            ),
            ("rewritten per word", "{rewritten:.2f}"),
            ("partials, left out", "{partials}, {skipped_partials}"),
            ("share of the core", "{share:.2f}"),
            ("WER %", "{wer:.1f}"),
            ("WER %, `transcribe`", "{whole_wer:.1f}"),
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
    "policies": policy_table,
    "continuous": continuous_table,
    "unbroken": unbroken_table,
    "mixtures": mixture_table,
}
