"""What the figures say, one sentence each, only where the runs hold what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from whisper_hailo_lab.report.gather import MachineRuns, RunSource
from whisper_hailo_lab.report.page import Conclusion, ReportSection
from whisper_hailo_lab.report.table import Table, number, percent
from whisper_hailo_lab.report.tables import reference
from whisper_hailo_lab.runs.records import CaseRecord, ComparisonRecord
from whisper_hailo_lab.runs.summary import Summary, paired_ratio

_Rows: TypeAlias = dict[str, dict[str, Any]]
"""Of a comparison, by what differs."""


def headline(groups: Sequence[MachineRuns]) -> str:
    """The report in one sentence."""
    for source in (source for group in groups for source in group.sources):
        base, best = reference(source), fastest_of_ours(source)
        if base is not None and best is not None:
            ratio = paired_ratio(source.files[base.case.name], source.files[best.case.name])
            if ratio is not None:
                return (
                    f"{best.case.name} is {ratio:.1f} times as fast as {base.case.name} on the "
                    f"same files, at a word error rate of {percent(best.normalised.words.rate)} "
                    f"against {percent(base.normalised.words.rate)}."
                )
    n_cases = sum(len(source.systems) for group in groups for source in group.sources)
    return f"{n_cases} cases measured on {len(groups)} machine{'s' * (len(groups) != 1)}."


def findings(group: MachineRuns) -> tuple[Conclusion, ...]:
    """All sentences about one machine."""
    found = [f for source in group.sources for f in _about_systems(source)]
    for source, record in group.comparisons.values():
        found += [
            Conclusion(text, source.name, source.anchor) for text in _about_comparison(record)
        ]
    return tuple(found)


def fastest_of_ours(source: RunSource) -> Summary | None:
    """Our case with the smallest median, under the rules that the reference ran under."""
    base = reference(source)
    rows = {base.case.row} if base else {"default", "matched", "study"}
    ours = [s for s in source.systems if s.case.system == "ours" and s.case.row in rows and s.times]
    return min(ours, key=lambda s: s.times.median_ms if s.times else 0.0, default=None)


def _about_systems(source: RunSource) -> Iterator[Conclusion]:
    best = fastest_of_ours(source)
    if best is None or best.times is None:
        return

    def say(text: str) -> Conclusion:
        return Conclusion(text, source.name, source.anchor)

    rivals = [s for s in source.systems if s.case.system != "ours" and s.times is not None]
    for rival in (s for s in rivals if s.case.row == best.case.row):
        ratio = paired_ratio(source.files[rival.case.name], source.files[best.case.name])
        if ratio is not None:
            yield say(
                f"{best.case.name} is {ratio:.1f} times as fast as {rival.case.name} (median over "
                f"the files); WER {percent(best.normalised.words.rate)} and "
                f"{percent(rival.normalised.words.rate)}."
            )
    failed = [s.case.name for s in source.systems if s.n_failed]
    if failed:
        yield say(f"Files failed in: {', '.join(failed)}; they are counted in the tables.")
    silent = [s for s in source.systems if s.n_silent]
    if silent:
        worst = max(silent, key=lambda s: s.n_hallucinated / s.n_silent)
        yield say(
            f"On recordings without speech ({best.n_silent}) {best.case.name} wrote text in "
            f"{best.n_hallucinated}; the most, {worst.n_hallucinated}, had {worst.case.name}."
        )


def _about_comparison(record: ComparisonRecord) -> Iterator[str]:
    about = _ABOUT.get(record.name)
    if about is not None:
        rows: _Rows = {}
        for row in record.rows:
            name = row.get("value", row.get("decoder", row.get("implementation")))
            rows.setdefault(str(name), row)
        yield from about(record, rows)


def _about_cache(record: ComparisonRecord, rows: _Rows) -> Iterator[str]:
    if {"fixed", "growing", "cached"} <= rows.keys():
        fixed, growing, cached = rows["fixed"], rows["growing"], rows["cached"]
        yield (
            f"For {record.settings['steps']} steps a fixed decoder computes "
            f"{fixed['attention_rows']:,} rows of attention, a growing one without a cache "
            f"{growing['attention_rows']:,}, a cached one {cached['attention_rows']:,}; in time "
            f"that is {fixed['ratio']:.1f}, {growing['ratio']:.1f} and 1 (same weights, same core)."
        )


def _about_window(_record: ComparisonRecord, rows: _Rows) -> Iterator[str]:
    if {"10 s", "30 s"} <= rows.keys():
        short, full = rows["10 s"], rows["30 s"]
        yield (
            f"A 30 s window costs {full['ratio'] / short['ratio']:.1f} times the encoder time of a "
            f"10 s one; WER {percent(short['wer'])} at 10 s, {percent(full['wer'])} at 30 s."
        )


def _about_precision(record: ComparisonRecord, rows: _Rows) -> Iterator[str]:
    base = record.rows[0]
    for label in ("encoder INT8, decoder FP32", "encoder FP32, decoder INT8"):
        if label in rows:
            row = rows[label]
            yield (
                f"{label}: {row['ratio']:.2f} of the time of FP32, WER "
                f"{percent(row['wer'])} against {percent(base['wer'])}."
            )


def _about_padding(record: ComparisonRecord, _rows: _Rows) -> Iterator[str]:
    none, most = record.rows[0], record.rows[-1]
    yield (
        f"Without padding {none['runaway']} of {none['files']} files run on until the token "
        f"budget ends, padded {most['value']} {most['runaway']}; decoder time "
        f"{most['ratio']:.2f} of that without."
    )


def _about_mel(record: ComparisonRecord, _rows: _Rows) -> Iterator[str]:
    others = [r for r in record.rows if r["implementation"] not in {"ours", "definition"}]
    if others:
        nearest = min(others, key=lambda row: row["ratio"])
        yield (
            f"Of the other log-mels the fastest, {nearest['implementation']}, takes "
            f"{nearest['ratio']:.1f} times as long as ours ({nearest['audio_s']:g} s of audio)."
            if nearest["ratio"] > 1
            else f"{nearest['implementation']} needs {nearest['ratio']:.2f} of our log-mel's "
            f"time at {nearest['audio_s']:g} s."
        )


_ABOUT: Final[dict[str, Callable[[ComparisonRecord, _Rows], Iterator[str]]]] = {
    "cache": _about_cache,
    "window": _about_window,
    "precision": _about_precision,
    "padding": _about_padding,
    "mel": _about_mel,
}


HASH_LENGTH = 12
LEFT_OUT = frozenset({"model", "threads", "reasons"})


def provenance(source: RunSource) -> ReportSection:
    """The section of one run file."""
    header = source.header
    versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
    text = [
        f"{header.created}; {header.machine.label}; {header.machine.system}. {versions}.",
    ]
    if header.dataset:
        text.append(
            f"Data: {header.dataset}, {header.n_samples} recordings, "
            f"hash {header.dataset_sha256[:HASH_LENGTH]}."
        )
    if header.note:
        text.append(header.note)
    rows = tuple(_row(summary.case) for summary in source.systems)
    columns = ("case", "threads", "engine", "settings", "weights", "load ms", "warm-ups ms")
    return ReportSection(
        anchor=source.anchor,
        title=f"Run {source.name}",
        text=tuple(text),
        tables=(("", Table(columns, rows)),) if rows else (),
    )


def _row(case: CaseRecord) -> tuple[str, ...]:
    engine = ", ".join(f"{n} {v}" for n, v in case.versions.items() if n != "python")
    settings = ", ".join(
        f"{name} {value}" for name, value in case.heard_as.items() if name not in LEFT_OUT
    )
    weights = ", ".join(f"{n} {h[:HASH_LENGTH]}" for n, h in case.model_sha256.items())
    return (
        case.name,
        str(case.threads or "auto"),
        engine,
        case.error or settings,
        weights,
        number(case.load_ms, 0),
        ", ".join(number(ms, 0) for ms in case.warm_up_ms),
    )
