"""The report's tables, from summaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whisper_hailo_lab.report.gather import Source
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.report.text import number, percent, score_text, share
from whisper_hailo_lab.score import Evaluation
from whisper_hailo_lab.summary import Summary, paired_ratio

REFERENCE = "faster-whisper"
"""System that speed-ups are over, as the study's were, under the same rules where it ran."""


def reference(source: Source) -> Summary | None:
    """The case that speed-ups are over: the reference system's matched one, or its first."""
    found = [s for s in source.systems if s.case.system == REFERENCE and s.times is not None]
    return next((s for s in found if s.case.row == "matched"), found[0] if found else None)


def latency_table(source: Source) -> Table:
    """Times per file, and how many times as fast as the reference on the same files."""
    base = reference(source)
    rows = []
    for s in source.systems:
        times = s.times
        rows.append(
            (
                s.case.name,
                number(times.encoder_ms if times else None),
                number(times.decoder_ms if times else None),
                number(times.total_ms if times else None),
                number(times.median_ms if times else None),
                number(times.p95_ms if times else None),
                number(s.rtfx if times else None),
                speed_up(source, s, base),
                number(s.cpu_per_audio_s if times else None, 3),
            )
        )
    over = f"times {base.case.name}" if base else "speed-up"
    columns = (
        "case", "encoder ms", "decoder ms", "total ms", "median ms", "p95 ms", "rtfx", over,
        "CPU s per s",
    )  # fmt: skip
    return Table(columns, tuple(rows))


def speed_up(source: Source, summary: Summary, base: Summary | None) -> str:
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
        f"{percent(s.simple.mean_wer)} / {percent(s.simple.mean_cer)}",
    )


def interval(scores: Evaluation) -> str:
    """`3.1-7.2 %`."""
    low, high = scores.wer_interval()
    return "-" if high == float("inf") else f"{100 * low:.1f}-{100 * high:.1f} %"


def hallucination_table(summaries: Iterable[Summary]) -> Table:
    """What was said that nobody said."""
    rows = tuple(
        (
            s.case.name,
            share(s.n_hallucinated, s.n_silent),
            share(s.n_runaway, s.n_heard),
            share(s.n_repetitive, s.n_heard),
        )
        for s in summaries
        if s.n_failed < s.n_files
    )
    return Table(("case", "text for silence", "budget ran out", "repeats itself"), rows)


def memory_table(summaries: Iterable[Summary]) -> Table:
    """Growth of resident memory by component, and the peak of the process."""
    rows = []
    for s in summaries:
        memory = s.case.memory
        for component in dict.fromkeys([*memory.load, *memory.warm_up]):
            rows.append(
                (
                    s.case.name,
                    component,
                    number(memory.load.get(component, 0.0)),
                    number(memory.warm_up.get(component, 0.0)),
                    number(memory.total(component)),
                    number(memory.peak, 0),
                )
            )
    columns = ("case", "component", "load MiB", "warm-up MiB", "total MiB", "process peak MiB")
    return Table(columns, tuple(rows))
