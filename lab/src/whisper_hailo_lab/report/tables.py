"""Tables of summaries and comparisons, for the report and for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from whisper_hailo_lab.report.gather import RunSource
from whisper_hailo_lab.runs.records import ComparisonRecord, FileResult
from whisper_hailo_lab.runs.summary import Summary, paired_ratio
from whisper_hailo_lab.score import Evaluation, score_file
from whisper_hailo_lab.tables import (
    DASH,
    Column,
    Table,
    fill_template,
    format_number,
    format_score,
    format_share,
    make_table,
)

REFERENCE: Final = "faster-whisper"
"""System that speed-ups are over, as the study's were, under the same rules where it ran."""

Row = dict[str, Any]

_CASE: Final[Column] = ("case", "{all.case.name}")
_TIMES: Final[tuple[Column, ...]] = (
    ("median ms", "{heard.times.median_ms:.1f}"),
    ("p95 ms", "{heard.times.p95_ms:.1f}"),
    ("rtfx", "{heard.rtfx:.1f}"),
)
_CPU: Final[Column] = ("CPU s per s", "{heard.cpu_per_audio_s:.3f}")


def _case_rows(summaries: Iterable[Summary]) -> list[Row]:
    """Return each summary as `all`, and as `heard` where some file gave a result."""
    return [
        {"all": each, "heard": each if each.n_heard else None} for each in summaries
    ]


def describe_file(record: FileResult) -> str:
    """Return three lines about one recording."""
    if record.error:
        return f"{record.case} | {record.id}: FAILED: {record.error}\n"
    words = score_file(
        record.reference, record.hypothesis, "normalised", record.language
    ).words
    stages = "".join(f"{name} {ms:.1f}, " for name, ms in record.stages_ms.items())
    runaway = "; runaway" if record.runaway else ""
    return (
        f"{record.case} | {record.id}: WER {format_score(words)}; "
        f"{stages}total {record.total_ms:.1f} ms{runaway}\n"
        f"  said:  {record.reference}\n  heard: {record.hypothesis}\n"
    )


def describe_cases(summaries: Sequence[Summary]) -> str:
    """Return the failures of whole cases, then all cases side by side to fit a terminal."""
    failures = "".join(
        f"{summary.case.name}: FAILED: {summary.case.error}\n"
        for summary in summaries
        if summary.case.error
    )
    return failures + case_table(summaries).transpose().plain()


def case_table(summaries: Iterable[Summary]) -> Table:
    """Return accuracy, times and memory, one line per case."""
    return make_table(
        _case_rows(summaries),
        (
            _CASE,
            ("files", "{all.n_heard}/{all.n_files}"),
            (
                "WER (corpus)",
                _if_heard(lambda heard: format_score(heard.normalised.words)),
            ),
            ("WER (mean)", "{heard.normalised.mean_wer:.1%}"),
            ("CER", "{heard.normalised.characters.rate:.1%}"),
            ("simple WER / CER (mean)", _if_heard(_simple_rates)),
            ("runaway", _share_of_heard("n_runaway")),
            ("repetitive", _share_of_heard("n_repetitive")),
            ("text for silence", "{all.n_hallucinated} of {all.n_silent}"),
            *_TIMES,
            _CPU,
            ("model MiB", "{all.case.memory.components_total:.1f}"),
            ("peak MiB", "{all.case.memory.peak:.0f}"),
        ),
    )


def _if_heard(cell: Callable[[Summary], str]) -> Callable[[Row], str]:
    return lambda row: DASH if row["heard"] is None else cell(row["heard"])


def _share_of_heard(name: str) -> Callable[[Row], str]:
    return lambda row: format_share(getattr(row["all"], name), row["all"].n_heard)


def _simple_rates(summary: Summary) -> str:
    """Return word and character error rates in the study's form: `30.0 % / 10.0 %`."""
    return fill_template("{mean_wer:.1%} / {mean_cer:.1%}", summary.simple)


def overview_table(summaries: Iterable[Summary]) -> Table:
    """Return what a reader asks first: words, cost, memory, invented text."""
    return make_table(
        _case_rows(summaries),
        (
            _CASE,
            ("words wrong", "{heard.normalised.words.rate:.1%}"),
            (
                "95 % interval",
                _if_heard(lambda heard: _format_interval(heard.normalised)),
            ),
            _CPU,
            ("peak MiB", "{heard.case.memory.peak:.0f}"),
            ("text for silence", "{all.n_hallucinated} of {all.n_silent}"),
        ),
    )


def find_reference(source: RunSource, model: str) -> Summary | None:
    """Return the case that speed-ups with some weights are over: a matched one, or the first."""
    cases = [
        system
        for system in source.systems
        if (system.case.system, system.case.model) == (REFERENCE, model)
        and system.times is not None
    ]
    matched = (system for system in cases if system.case.row == "matched")
    return next(matched, cases[0] if cases else None)


def latency_table(source: RunSource) -> Table:
    """Return times per file, and the speed-up over the reference on the same files.

    The processor's time comes first; other times are of a clock. Ratios are of the clock's times,
    unless other programs ran.
    """
    kind = "cpu" if source.was_busy else "total"

    def speed_up(row: Row) -> str:
        case = row["all"].case
        base = find_reference(source, case.model)
        if base is None:
            return DASH
        base_files = source.files[base.case.name]
        return format_number(paired_ratio(base_files, source.files[case.name], kind), 2)

    return make_table(
        _case_rows(source.systems),
        (
            _CASE,
            ("processor ms", "{heard.times.cpu_ms:.1f}"),
            ("encoder ms", "{heard.times.encoder_ms:.1f}"),
            ("decoder ms", "{heard.times.decoder_ms:.1f}"),
            ("total ms", "{heard.times.total_ms:.1f}"),
            *_TIMES,
            (f"times {REFERENCE}", speed_up),
            _CPU,
        ),
    )


def accuracy_table(summaries: Iterable[Summary]) -> Table:
    """Return error rates in both forms, with counts and an interval."""
    return make_table(
        _case_rows(summaries),
        (
            _CASE,
            (
                "WER, corpus",
                _if_heard(lambda heard: format_score(heard.normalised.words)),
            ),
            (
                "95 % interval",
                _if_heard(lambda heard: _format_interval(heard.normalised)),
            ),
            ("WER, mean", "{heard.normalised.mean_wer:.1%}"),
            ("CER, corpus", "{heard.normalised.characters.rate:.1%}"),
            ("simple WER, corpus", "{heard.simple.words.rate:.1%}"),
            ("simple WER / CER, mean", _if_heard(_simple_rates)),
            ("failed files", "{all.n_failed} of {all.n_files}"),
        ),
    )


def _format_interval(scores: Evaluation) -> str:
    """Return the interval of the word error rate, such as `3.1-7.2 %`."""
    low, high = scores.wer_interval()
    if not math.isfinite(high):
        return DASH
    return f"{100 * low:.1f}-{100 * high:.1f} %"


def hallucination_table(summaries: Iterable[Summary]) -> Table:
    """Return how often text was invented or repeated."""
    heard = (summary for summary in summaries if summary.n_heard)
    return make_table(
        _case_rows(heard),
        (
            _CASE,
            ("text for silence", "{all.n_hallucinated} of {all.n_silent}"),
            ("budget ran out", _share_of_heard("n_runaway")),
            ("repeats itself", _share_of_heard("n_repetitive")),
        ),
    )


def memory_table(summaries: Iterable[Summary]) -> Table:
    """Return the growth of resident memory by component, and the peak of the process."""
    rows = [
        {
            "case": summary.case.name,
            "component": component,
            "load": summary.case.memory.load.get(component, 0.0),
            "warm_up": summary.case.memory.warm_up.get(component, 0.0),
            "total": summary.case.memory.total(component),
            "peak": summary.case.memory.peak,
        }
        for summary in summaries
        for component in summary.case.memory.components
    ]
    return make_table(
        rows,
        (
            ("case", "{case}"),
            ("component", "{component}"),
            ("load MiB", "{load:.1f}"),
            ("warm-up MiB", "{warm_up:.1f}"),
            ("total MiB", "{total:.1f}"),
            ("process peak MiB", "{peak:.0f}"),
        ),
    )


_CACHE: Final[tuple[Column, ...]] = (
    ("decoding", lambda row: str(row.get("what", ""))),
    ("decoder", "{decoder}"),
    ("runs", "{runs:,}"),
    ("attention rows", "{attention_rows:,}"),
    ("query-key pairs", "{query_key_products:,}"),
    ("rows to vocabulary", "{projected_rows:,}"),
    ("median ms", "{ms:.1f}"),
    ("times the cached one", "{ratio:.2f}"),
)

_CAPTIONS: Final[tuple[Column, ...]] = (
    ("captions", "{way}"),
    ("engine", "{engine}"),
    ("partials", "{partials}"),
    # An engine that has no passes of its own counts none.
    (
        "passes per partial",
        lambda row: format_number(row["passes_per_partial"] or None, 2),
    ),
    ("decoder ms per partial", "{decode_ms_per_partial:.1f}"),
    ("times less than anew", "{less_decoding:.2f}"),
    ("final ms (median, 95 %)", "{final_ms_median:.1f}, {final_ms_p95:.1f}"),
    ("RTFx", "{rtfx:.1f}"),
    ("corrections per word", "{corrections_per_word:.2f}"),
    ("WER", "{wer:.1%}"),
)

_SETTINGS: Final[tuple[Column, ...]] = (
    ("encoder ms", "{encoder_ms:.1f}"),
    ("decoder ms", "{decoder_ms:.1f}"),
    ("median ms", "{median_ms:.1f}"),
    ("ratio", "{ratio:.2f}"),
    ("WER", "{wer:.1%} ({substitutions} S {deletions} D {insertions} I of {words})"),
    ("simple WER (mean)", "{simple_mean_wer:.1%}"),
    ("runaway", lambda row: format_share(row["runaway"], row["files"])),
    ("repetitive", "{repetitive} of {files}"),
    ("text for silence", "{silent_with_text} of {silent}"),
    ("model MiB", "{components_mib:.1f}"),
)

_COMPARISONS: Final[dict[str, tuple[Column, ...]]] = {
    "cache": _CACHE,
    "captions": _CAPTIONS,
    "window": (("window", "{value}"), *_SETTINGS),
    "precision": (("weights", "{value}"), *_SETTINGS),
    "padding": (("padding", "{value}"), *_SETTINGS),
    "grid": (("setting", "{value}"), *_SETTINGS),
}


def comparison_table(record: ComparisonRecord) -> Table:
    """Return the table of one comparison."""
    return make_table(record.rows, _COMPARISONS[record.name])
