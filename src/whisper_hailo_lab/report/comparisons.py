"""Comparison records as tables."""

from __future__ import annotations

from typing import Any

from whisper_hailo_lab.records import ComparisonRecord
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.report.text import number, percent, share

Row = dict[str, Any]


def comparison_table(record: ComparisonRecord) -> Table:
    """The table of one comparison."""
    makers = {"cache": _cache, "mel": _mel, "captions": _captions}
    return makers.get(record.name, _settings)(record)


def _cache(record: ComparisonRecord) -> Table:
    columns = (
        "decoding",
        "decoder",
        "runs",
        "attention rows",
        "query-key pairs",
        "rows to vocabulary",
        "median ms",
        "times the cached one",
    )
    return Table(columns, tuple(_cache_row(row) for row in record.rows))


def _cache_row(row: Row) -> tuple[str, ...]:
    counted = ("runs", "attention_rows", "query_key_products", "projected_rows")
    return (
        str(row.get("what", "")),
        str(row["decoder"]),
        *(f"{row[name]:,}" if name in row else "-" for name in counted),
        number(row["ms"]),
        number(row["ratio"], 2),
    )


def _mel(record: ComparisonRecord) -> Table:
    columns = ("audio", "implementation", "median ms", "times ours", "from float64", "frames")
    rows = tuple(
        (
            f"{row['audio_s']:g} s",
            str(row["implementation"]),
            number(row["ms"], 2),
            number(row["ratio"], 2),
            f"{row['largest_difference']:.1e}",
            str(row["frames"]),
        )
        for row in record.rows
    )
    return Table(columns, rows)


def _captions(record: ComparisonRecord) -> Table:
    columns = (
        "captions",
        "engine",
        "partials",
        "passes per partial",
        "decoder ms per partial",
        "times less than anew",
        "final ms (median, 95 %)",
        "RTFx",
        "corrections per word",
        "WER",
    )
    rows = tuple(
        (
            str(row["way"]),
            str(row["engine"]),
            str(row["partials"]),
            number(row["passes_per_partial"] or None, 2),
            number(row["decode_ms_per_partial"]),
            number(row["less_decoding"], 2),
            f"{number(row['final_ms_median'])}, {number(row['final_ms_p95'])}",
            number(row["rtfx"]),
            number(row["corrections_per_word"], 2),
            percent(row["wer"]),
        )
        for row in record.rows
    )
    return Table(columns, rows)


def _settings(record: ComparisonRecord) -> Table:
    first = {"window": "window", "precision": "weights", "padding": "padding"}[record.name]
    columns = (
        first,
        "encoder ms",
        "decoder ms",
        "median ms",
        "ratio",
        "WER",
        "simple WER (mean)",
        "runaway",
        "repetitive",
        "model MiB",
    )
    rows = tuple(
        (
            str(row["value"]),
            number(row["encoder_ms"]),
            number(row["decoder_ms"]),
            number(row["median_ms"]),
            number(row["ratio"], 2),
            f"{percent(row['wer'])} ({row['substitutions']} S {row['deletions']} D "
            f"{row['insertions']} I of {row['words']})",
            percent(row["simple_mean_wer"]),
            share(row["runaway"], row["files"]),
            share(row["repetitive"], row["files"]),
            number(row["components_mib"]),
        )
        for row in record.rows
    )
    return Table(columns, rows)
