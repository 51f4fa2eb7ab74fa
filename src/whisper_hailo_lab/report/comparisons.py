"""Records of comparisons as tables, one for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whisper_hailo_lab.report.table import Table, number, percent, share, table_of
from whisper_hailo_lab.runs.records import ComparisonRecord

Row = dict[str, Any]


def comparison_table(record: ComparisonRecord) -> Table:
    """The table of one comparison."""
    makers = {"cache": _cache, "mel": _mel, "captions": _captions}
    return makers.get(record.name, _settings)(record)


def _cache(record: ComparisonRecord) -> Table:
    def counted(name: str) -> Callable[[Row], str]:
        return lambda row: f"{row[name]:,}" if name in row else "-"

    return table_of(
        record.rows,
        ("decoding", lambda row: str(row.get("what", ""))),
        ("decoder", lambda row: str(row["decoder"])),
        ("runs", counted("runs")),
        ("attention rows", counted("attention_rows")),
        ("query-key pairs", counted("query_key_products")),
        ("rows to vocabulary", counted("projected_rows")),
        ("median ms", lambda row: number(row["ms"])),
        ("times the cached one", lambda row: number(row["ratio"], 2)),
    )


def _mel(record: ComparisonRecord) -> Table:
    return table_of(
        record.rows,
        ("audio", lambda row: f"{row['audio_s']:g} s"),
        ("implementation", lambda row: str(row["implementation"])),
        ("median ms", lambda row: number(row["ms"], 2)),
        ("times ours", lambda row: number(row["ratio"], 2)),
        ("from float64", lambda row: f"{row['largest_difference']:.1e}"),
        ("frames", lambda row: str(row["frames"])),
    )


def _captions(record: ComparisonRecord) -> Table:
    return table_of(
        record.rows,
        ("captions", lambda row: str(row["way"])),
        ("engine", lambda row: str(row["engine"])),
        ("partials", lambda row: str(row["partials"])),
        ("passes per partial", lambda row: number(row["passes_per_partial"] or None, 2)),
        ("decoder ms per partial", lambda row: number(row["decode_ms_per_partial"])),
        ("times less than anew", lambda row: number(row["less_decoding"], 2)),
        (
            "final ms (median, 95 %)",
            lambda row: f"{number(row['final_ms_median'])}, {number(row['final_ms_p95'])}",
        ),
        ("RTFx", lambda row: number(row["rtfx"])),
        ("corrections per word", lambda row: number(row["corrections_per_word"], 2)),
        ("WER", lambda row: percent(row["wer"])),
    )


def _settings(record: ComparisonRecord) -> Table:
    first = {"window": "window", "precision": "weights", "padding": "padding"}[record.name]
    return table_of(
        record.rows,
        (first, lambda row: str(row["value"])),
        ("encoder ms", lambda row: number(row["encoder_ms"])),
        ("decoder ms", lambda row: number(row["decoder_ms"])),
        ("median ms", lambda row: number(row["median_ms"])),
        ("ratio", lambda row: number(row["ratio"], 2)),
        (
            "WER",
            lambda row: (
                f"{percent(row['wer'])} ({row['substitutions']} S {row['deletions']} D "
                f"{row['insertions']} I of {row['words']})"
            ),
        ),
        ("simple WER (mean)", lambda row: percent(row["simple_mean_wer"])),
        ("runaway", lambda row: share(row["runaway"], row["files"])),
        ("repetitive", lambda row: share(row["repetitive"], row["files"])),
        ("model MiB", lambda row: number(row["components_mib"])),
    )
