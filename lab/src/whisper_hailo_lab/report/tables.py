"""The report's tables, from summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from whisper_hailo_lab.report.gather import RunSource
from whisper_hailo_lab.report.table import (
    Table,
    number,
    percent,
    score_text,
    share,
    simple_text,
    table_of,
)
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.runs.summary import Summary, paired_ratio
from whisper_hailo_lab.score import Evaluation

REFERENCE = "faster-whisper"
"""System that speed-ups are over, as the study's were, under the same rules where it ran."""


def reference(source: RunSource) -> Summary | None:
    """The case that speed-ups are over: the reference system's matched one, or its first."""
    found = [s for s in source.systems if s.case.system == REFERENCE and s.times is not None]
    return next((s for s in found if s.case.row == "matched"), found[0] if found else None)


def latency_table(source: RunSource) -> Table:
    """Times per file, and how many times as fast as the reference on the same files."""
    base = reference(source)
    over = f"times {base.case.name}" if base else "speed-up"
    return table_of(
        source.systems,
        ("case", lambda s: s.case.name),
        ("encoder ms", lambda s: number(s.times.encoder_ms if s.times else None)),
        ("decoder ms", lambda s: number(s.times.decoder_ms if s.times else None)),
        ("total ms", lambda s: number(s.times.total_ms if s.times else None)),
        ("median ms", lambda s: number(s.times.median_ms if s.times else None)),
        ("p95 ms", lambda s: number(s.times.p95_ms if s.times else None)),
        ("rtfx", lambda s: number(s.rtfx if s.times else None)),
        (over, lambda s: speed_up(source, s, base)),
        ("CPU s per s", lambda s: number(s.cpu_per_audio_s if s.times else None, 3)),
    )


def speed_up(source: RunSource, summary: Summary, base: Summary | None) -> str:
    """How many times as fast as another case, by the median over the files of both."""
    if base is None:
        return "-"
    ratio = paired_ratio(source.files[base.case.name], source.files[summary.case.name])
    return number(ratio, 2)


def accuracy_table(summaries: Sequence[Summary]) -> Table:
    """Error rates in both forms, with counts and an interval."""
    rows = tuple((s.case.name, *_rates(s), f"{s.n_failed} of {s.n_files}") for s in summaries)
    columns = (
        "case", "WER, corpus", "95 % interval", "WER, mean", "CER, corpus", "simple WER, corpus",
        "simple WER / CER, mean", "failed files",
    )  # fmt: skip
    return Table(columns, rows)


def _rates(s: Summary) -> tuple[str, ...]:
    """Six cells; dashes where every file failed, since no word was counted then."""
    if s.n_failed == s.n_files:
        return ("-",) * 6
    return (
        score_text(s.normalised.words),
        interval(s.normalised),
        percent(s.normalised.mean_wer),
        percent(s.normalised.characters.rate),
        percent(s.simple.words.rate),
        simple_text(s),
    )


def interval(scores: Evaluation) -> str:
    """Of the word error rate, such as `3.1-7.2 %`; `-` where it has no bounds."""
    low, high = scores.wer_interval()
    return "-" if high == float("inf") else f"{100 * low:.1f}-{100 * high:.1f} %"


def hallucination_table(summaries: Iterable[Summary]) -> Table:
    """What was said that nobody said."""
    return table_of(
        (s for s in summaries if s.n_failed < s.n_files),
        ("case", lambda s: s.case.name),
        ("text for silence", lambda s: share(s.n_hallucinated, s.n_silent)),
        ("budget ran out", lambda s: share(s.n_runaway, s.n_heard)),
        ("repeats itself", lambda s: share(s.n_repetitive, s.n_heard)),
    )


def memory_table(summaries: Iterable[Summary]) -> Table:
    """Growth of resident memory by component, and the peak of the process."""
    components = (
        (s.case.name, component, s.case.memory)
        for s in summaries
        for component in dict.fromkeys([*s.case.memory.load, *s.case.memory.warm_up])
    )
    return table_of(
        components,
        ("case", lambda row: row[0]),
        ("component", lambda row: row[1]),
        ("load MiB", lambda row: number(row[2].load.get(row[1], 0.0))),
        ("warm-up MiB", lambda row: number(row[2].warm_up.get(row[1], 0.0))),
        ("total MiB", lambda row: number(row[2].total(row[1]))),
        ("process peak MiB", lambda row: number(row[2].peak, 0)),
    )


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
