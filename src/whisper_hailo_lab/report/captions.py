"""The tables of live captions, from what was measured of them."""

from __future__ import annotations

import re
from typing import Any, Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.marks import remark
from whisper_hailo_lab.records import ComparisonRecord
from whisper_hailo_lab.report.comparisons import comparison_table
from whisper_hailo_lab.report.table import Table


def fill(document: str, result: dict[str, Any], weights: str) -> str:
    """A document with every table that there is a result for between its marks.

    Args:
        document: a table stands between `<!-- NAME -->` and `<!-- /NAME -->`.
        result: of `benchmarks.captions`: what was measured, by the names of the tables.
        weights: mark of the model's present weights; what was measured with others says so.

    Raises:
        OptionError: the marks of a table are missing.
    """
    for name, table in TABLES.items():
        if name not in result:
            continue
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not place.search(document):
            raise OptionError(f"the document has no place for the table {name}")
        text = f"{_origin(result[name], weights)}\n\n{table(result[name]).markdown()}"
        if name in NOTES:
            text = f"{text.rstrip()}\n\n{NOTES[name](result[name])}\n"
        document = place.sub(lambda found: f"{found[1]}{text}{found[2]}", document)  # noqa: B023
    return document


def _origin(part: dict[str, Any], weights: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in part["versions"].items())
    note = f"; {part['note']}" if part["note"] else ""
    threads = "one thread" if part["threads"] == 1 else f"{part['threads']} threads"
    other = remark([part.get("weights", "")], weights)
    return f"{part['model']}, {threads}, {part['machine']}, {versions}{other}{note}."


def _paired(part: dict[str, Any]) -> Table:
    return comparison_table(ComparisonRecord("captions", part["settings"], tuple(part["rows"])))


def _drafts_alone(part: dict[str, Any]) -> str:
    rows = {row["way"]: row for row in part["rows"]}
    one, other = rows["drafts"], rows["no drafts"]
    passes = one["passes_per_partial"], other["passes_per_partial"]
    less = other["decode_ms_per_partial"] / one["decode_ms_per_partial"]
    took, bound = f"{passes[0]:.2f} passes instead of {passes[1]:.2f}", passes[1] / passes[0]
    return (
        f"Drafts alone, at the same text, take {took}, and {less:.2f} times less decoder time;\n"
        f"if the further tokens of a pass cost nothing, it would be {bound:.2f} times."
    )


def _cost(part: dict[str, Any]) -> Table:
    columns = (
        "decoder",
        "passes: anew, no drafts, drafts",
        "ms: anew, no drafts, drafts",
        "times less than anew",
        "than no drafts",
        "a pass, ms",
        "of it the vocabulary",
        "each further token, ms",
    )
    ways = ("anew", "not drafted", "drafted")
    rows = tuple(
        (
            name.replace("none", "FP32").replace("int8", "INT8"),
            ", ".join(f"{row[f'passes {way}']:.1f}" for way in ways),
            ", ".join(f"{row[f'ms {way}']:.1f}" for way in ways),
            f"{row['times less than anew']:.2f}",
            f"{row['times less than not drafted']:.2f}",
            f"{row['pass_ms']:.2f}",
            f"{100 * (1 - row['pass_without_vocabulary_ms'] / row['pass_ms']):.0f} %",
            f"{row['further_token_ms']:.2f}",
        )
        for name, row in part.items()
        if isinstance(row, dict) and "pass_ms" in row
    )
    return Table(columns, rows)


def _same(part: dict[str, Any]) -> Table:
    counted = ("same", "near-tie", "wrong", "with near-ties")
    passes = ("passes from scratch", "passes with drafts")
    columns = ("decoder", "texts", "the same", "other by a near-tie", "wrong", "with near-ties")
    rows = tuple(
        (name, str(part["buffers"]), *(str(row.get(column, 0)) for column in (*counted, *passes)))
        for name, row in part["rows"].items()
    )
    return Table((*columns, *passes), rows)


def _facts(part: dict[str, Any], facts: dict[str, tuple[str, ...]]) -> Table:
    rows = tuple(
        (label, ", ".join(_said(part[key]) for key in keys)) for label, keys in facts.items()
    )
    return Table(("what", "measured"), rows)


def _said(value: Any) -> str:  # noqa: ANN401 - any figure
    if isinstance(value, list):
        figures = all(isinstance(entry, float) for entry in value)
        return (
            ", ".join(f"{entry:.0f}" for entry in value) if value and figures else str(len(value))
        )
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _live(part: dict[str, Any]) -> Table:
    return _facts(
        part,
        {
            "seconds of the stream, of speech": ("stream_s", "segment_s"),
            "RTFx, each second once; as often as it was heard": ("rtfx", "rtfx_recounted"),
            "share of one core": ("cpu_share",),
            "first text after the start of speech, s: median, 95 %": (
                "first_partial_latency_s_median",
                "first_partial_latency_s_p95",
            ),
            "final text after the end of speech, s: median, 95 %": (
                "final_latency_s_median",
                "final_latency_s_p95",
            ),
            "WER %: live; offline, windows on end; offline, speech only": (
                "wer_live",
                "wer_offline",
                "wer_offline_vad",
            ),
            "segments ended by": ("reasons",),
            "partials, of them skipped": ("partials", "skipped_partials"),
            "passes per partial": ("passes_per_partial",),
            "corrections per word": ("corrections_per_word",),
            "longest backlog, s": ("longest_backlog_s",),
            "peak memory, MiB": ("memory_mib",),
            "violations of the guarantees": ("violations",),
        },
    )


def _hour(part: dict[str, Any]) -> Table:
    return _facts(
        part,
        {
            "minutes of the stream, times real time": ("stream_minutes", "times_real_time"),
            "device stalls, failures": ("stalls", "device_failures"),
            "overruns of the sound card": ("source_faults",),
            "times the page came back": ("page_visits",),
            "segments": ("segments",),
            "violations of the guarantees": ("violations",),
            "segments that the page lost, had twice": ("page_lost", "page_doubled"),
            "partials, of them skipped": ("partials", "skipped_partials"),
            "longest backlog, s": ("longest_backlog_s",),
            "final text after the end of speech, s: median, 95 %": (
                "final_latency_s_median",
                "final_latency_s_p95",
            ),
            "resident MiB in each tenth": ("memory_tenths_mib",),
            "share of one core": ("cpu_share",),
            "WER %": ("wer",),
        },
    )


TABLES: Final = {
    "paired": _paired,
    "reading": _paired,
    "same": _same,
    "cost": _cost,
    "live": _live,
    "hour": _hour,
}

NOTES: Final = {"paired": _drafts_alone, "reading": _drafts_alone}
"""Sentences behind a table that hold its figures."""
