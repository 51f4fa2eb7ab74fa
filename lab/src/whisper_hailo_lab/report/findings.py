"""Conclusions from runs, one sentence each, and the origin of each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from whisper_hailo_lab.report.gather import MachineRuns, RunSource
from whisper_hailo_lab.report.page import Conclusion, ReportSection
from whisper_hailo_lab.report.tables import find_reference
from whisper_hailo_lab.runs.records import CaseRecord, ComparisonRecord
from whisper_hailo_lab.runs.summary import Summary, paired_ratio
from whisper_hailo_lab.tables import format_percent, make_table

_Rows: TypeAlias = dict[str, dict[str, Any]]
"""Rows of a comparison by the value that differs."""


def write_headline(groups: Sequence[MachineRuns]) -> str:
    """Return the report in one sentence."""
    sources = [source for group in groups for source in group.sources]
    for source in sources:
        text = _describe_speed_up(source)
        if text:
            return text
    n_cases = sum(len(source.systems) for source in sources)
    machines = "1 machine" if len(groups) == 1 else f"{len(groups)} machines"
    return f"{n_cases} cases measured on {machines}."


def _describe_speed_up(source: RunSource) -> str:
    """Return the speed-up of our fastest case over the reference; nothing without both."""
    base = find_reference(source)
    best = find_fastest(source)
    if base is None or best is None:
        return ""
    ratio = paired_ratio(source.files[base.case.name], source.files[best.case.name])
    if ratio is None:
        return ""
    return (
        f"{best.case.name} is {ratio:.1f} times as fast as {base.case.name} on the same files, at "
        f"a word error rate of {_word_error_rate(best)} against {_word_error_rate(base)}."
    )


def _word_error_rate(summary: Summary) -> str:
    return format_percent(summary.normalised.words.rate)


def draw_conclusions(group: MachineRuns) -> tuple[Conclusion, ...]:
    """Return all sentences about one machine."""
    conclusions = []
    for source in group.sources:
        texts = _about_systems(source)
        conclusions += [Conclusion(text, source.name, source.anchor) for text in texts]
    for source, record in group.comparisons.values():
        texts = _about_comparison(record)
        conclusions += [Conclusion(text, source.name, source.anchor) for text in texts]
    return tuple(conclusions)


def find_fastest(source: RunSource) -> Summary | None:
    """Return our case with the smallest median, under the rules of the reference."""
    base = find_reference(source)
    rows = {base.case.row} if base else {"default", "matched", "study"}
    ours = [
        (system.times.median_ms, index)
        for index, system in enumerate(source.systems)
        if system.case.system == "ours" and system.case.row in rows and system.times
    ]
    return source.systems[min(ours)[1]] if ours else None


def _about_systems(source: RunSource) -> Iterator[str]:
    best = find_fastest(source)
    if best is None:
        return
    for system in source.systems:
        if system.case.system != "ours" and system.case.row == best.case.row:
            yield from _about_rival(source, best, system)
    failed = [system.case.name for system in source.systems if system.n_failed]
    if failed:
        yield f"Files failed in: {', '.join(failed)}; they are counted in the tables."
    silent = [system for system in source.systems if system.n_silent]
    if silent:
        worst = max(silent, key=lambda system: system.n_hallucinated / system.n_silent)
        yield (
            f"On recordings without speech ({best.n_silent}) {best.case.name} wrote text in "
            f"{best.n_hallucinated}; the most, {worst.n_hallucinated}, had {worst.case.name}."
        )


def _about_rival(source: RunSource, best: Summary, rival: Summary) -> Iterator[str]:
    ratio = paired_ratio(source.files[rival.case.name], source.files[best.case.name])
    if rival.times is not None and ratio is not None:
        yield (
            f"{best.case.name} is {ratio:.1f} times as fast as {rival.case.name} (median over "
            f"the files); WER {_word_error_rate(best)} and {_word_error_rate(rival)}."
        )


def _about_comparison(record: ComparisonRecord) -> Iterator[str]:
    about = _COMPARISONS.get(record.name)
    if about is None:
        return
    rows: _Rows = {}
    for row in record.rows:
        name = row.get("value", row.get("decoder", row.get("implementation")))
        rows.setdefault(str(name), row)
    yield from about(record, rows)


def _about_cache(record: ComparisonRecord, rows: _Rows) -> Iterator[str]:
    if not {"fixed", "growing", "cached"} <= rows.keys():
        return
    fixed = rows["fixed"]
    growing = rows["growing"]
    cached = rows["cached"]
    yield (
        f"For {record.settings['steps']} steps a fixed decoder computes "
        f"{fixed['attention_rows']:,} rows of attention, a growing one without a cache "
        f"{growing['attention_rows']:,}, a cached one {cached['attention_rows']:,}; in time "
        f"that is {fixed['ratio']:.1f}, {growing['ratio']:.1f} and 1 (same weights, same core)."
    )


def _about_window(_record: ComparisonRecord, rows: _Rows) -> Iterator[str]:
    if not {"10 s", "30 s"} <= rows.keys():
        return
    short = rows["10 s"]
    full = rows["30 s"]
    yield (
        f"A 30 s window costs {full['ratio'] / short['ratio']:.1f} times the encoder time of a "
        f"10 s one; WER {format_percent(short['wer'])} at 10 s, {format_percent(full['wer'])} at "
        "30 s."
    )


def _about_precision(record: ComparisonRecord, rows: _Rows) -> Iterator[str]:
    base = record.rows[0]
    for label in ("encoder INT8, decoder FP32", "encoder FP32, decoder INT8"):
        if label in rows:
            row = rows[label]
            yield (
                f"{label}: {row['ratio']:.2f} of the time of FP32, WER "
                f"{format_percent(row['wer'])} against {format_percent(base['wer'])}."
            )


def _about_padding(record: ComparisonRecord, _rows: _Rows) -> Iterator[str]:
    none = record.rows[0]
    most = record.rows[-1]
    yield (
        f"Without padding {none['runaway']} of {none['files']} files run on until the token "
        f"budget ends, padded {most['value']} {most['runaway']}; decoder time "
        f"{most['ratio']:.2f} of that without."
    )


_COMPARISONS: Final[dict[str, Callable[[ComparisonRecord, _Rows], Iterator[str]]]] = {
    "cache": _about_cache,
    "window": _about_window,
    "precision": _about_precision,
    "padding": _about_padding,
}

_HASH_LENGTH: Final = 12
_NOT_SETTINGS: Final = frozenset({"model", "threads", "reasons"})
"""Facts of `heard_as` that have columns of their own, or are too long for one."""


def describe_source(source: RunSource) -> ReportSection:
    """Return the section about one run file's origin."""
    header = source.header
    machine = header.machine
    versions = ", ".join(
        f"{name} {version}" for name, version in header.versions.items()
    )
    text = [f"{header.created}; {machine.label}; {machine.system}. {versions}."]
    if header.dataset:
        text.append(
            f"Data: {header.dataset}, {header.n_samples} recordings, "
            f"hash {header.dataset_sha256[:_HASH_LENGTH]}."
        )
    if header.note:
        text.append(header.note)
    table = make_table(
        [summary.case for summary in source.systems],
        (
            ("case", "{name}"),
            ("threads", lambda case: str(case.threads or "auto")),
            ("engine", _engine_versions),
            ("settings", _describe_settings),
            ("weights", _describe_weights),
            ("load ms", "{load_ms:.0f}"),
            (
                "warm-ups ms",
                lambda case: ", ".join(f"{ms:.0f}" for ms in case.warm_up_ms),
            ),
        ),
    )
    return ReportSection(
        anchor=source.anchor,
        title=f"Run {source.name}",
        text=tuple(text),
        tables=(("", table),) if table.rows else (),
    )


def _engine_versions(case: CaseRecord) -> str:
    versions = case.versions.items()
    return ", ".join(
        f"{name} {version}" for name, version in versions if name != "python"
    )


def _describe_settings(case: CaseRecord) -> str:
    if case.error:
        return case.error
    facts = case.heard_as.items()
    return ", ".join(
        f"{name} {value}" for name, value in facts if name not in _NOT_SETTINGS
    )


def _describe_weights(case: CaseRecord) -> str:
    hashes = case.model_sha256.items()
    return ", ".join(f"{name} {value[:_HASH_LENGTH]}" for name, value in hashes)
