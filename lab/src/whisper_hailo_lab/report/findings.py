"""Conclusions from runs, one sentence each, and the origin of each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from whisper_hailo_lab.report.gather import MachineRuns, RunSource
from whisper_hailo_lab.report.page import Conclusion, ReportSection
from whisper_hailo_lab.report.tables import REFERENCE
from whisper_hailo_lab.runs.records import EMULATED_SUFFIX, CaseRecord, ComparisonRecord
from whisper_hailo_lab.runs.summary import Summary, paired_ratio
from whisper_hailo_lab.systems.table import find_system
from whisper_hailo_lab.tables import format_percent, make_table

_Rows: TypeAlias = dict[str, dict[str, Any]]
"""Rows of a comparison by the value that differs."""


def write_headline(groups: Sequence[MachineRuns]) -> str:
    """Return the report in two sentences: words and cost, ours and the reference's."""
    sources = [source for group in groups for source in group.sources]
    for source in sources:
        pair = find_pair(source)
        if pair is not None:
            ours, reference = pair
            return f"{_describe_case(ours)} {_describe_case(reference)}"
    n_cases = sum(len(source.systems) for source in sources)
    machines = "1 machine" if len(groups) == 1 else f"{len(groups)} machines"
    return f"{n_cases} cases measured on {machines}."


def _describe_case(summary: Summary) -> str:
    label = find_system(summary.case.system).label
    words = summary.normalised.words
    return (
        f"{label} with {summary.case.model} gets {_word_error_rate(summary)} of "
        f"{words.reference_count:,} words wrong and takes {summary.cpu_per_audio_s:.3f} s of a "
        "processor per second of audio."
    )


def find_pair(source: RunSource) -> tuple[Summary, Summary] | None:
    """Return our most accurate case, and the reference with the same weights and rules.

    The rows of defaults come first: they are what a user gets.
    """
    best: tuple[Summary, Summary] | None = None
    for row in ("default", "matched", "study"):
        for ours in source.systems:
            reference = _find_counterpart(source, ours, REFERENCE)
            if ours.case.row != row or reference is None:
                continue
            if best is None or _errors(ours) < _errors(best[0]):
                best = (ours, reference)
        if best is not None:
            return best
    return None


def _errors(summary: Summary) -> float:
    return summary.normalised.words.rate


def _find_counterpart(source: RunSource, ours: Summary, system: str) -> Summary | None:
    """Return a system's case with the weights and the rules of one of ours, if both have times."""
    if ours.case.system != "ours" or ours.times is None:
        return None
    for other in source.systems:
        is_same = (other.case.model, other.case.row) == (ours.case.model, ours.case.row)
        if other.case.system == system and is_same and other.times is not None:
            return other
    return None


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


def _about_systems(source: RunSource) -> Iterator[str]:
    for ours in source.systems:
        if ours.case.row == "default" or not _has_defaults(source):
            yield from _about_rivals(source, ours)
    for ours in source.systems:
        if ours.case.is_emulated and ours.n_heard:
            yield from _about_emulated(source, ours)
    for system in source.systems:
        if system.case.error:
            reason, _, _ = system.case.error.partition(" (")
            yield f"{system.case.name} could not run: {reason}."
        elif system.n_failed:
            yield f"{system.case.name}: {system.n_failed} of {system.n_files} files failed."
    silent = [system for system in source.systems if system.n_silent]
    counts = ", ".join(f"{each.case.name} {each.n_hallucinated}" for each in silent)
    if silent:
        yield f"Recordings without speech that got text, of {silent[0].n_silent}: {counts}."


def _has_defaults(source: RunSource) -> bool:
    """Return whether ours was run with its defaults; if not, its other rows are compared."""
    return any(
        system.case.system == "ours" and system.case.row == "default"
        for system in source.systems
    )


def _about_rivals(source: RunSource, ours: Summary) -> Iterator[str]:
    rivals = dict.fromkeys(system.case.system for system in source.systems)
    for name in rivals:
        rival = None if name == "ours" else _find_counterpart(source, ours, name)
        if rival is None:
            continue
        files = source.files[rival.case.name]
        ratio = paired_ratio(files, source.files[ours.case.name], "cpu")
        if ratio is not None:
            yield (
                f"{ours.case.name}: {_word_error_rate(ours)} of words wrong; {rival.case.name}: "
                f"{_word_error_rate(rival)}, with {ratio:.1f} times the processor's time (median "
                "over the files)."
            )


def _about_emulated(source: RunSource, emulated: Summary) -> Iterator[str]:
    """Compare an emulated chip with the same window on the processor."""
    name = emulated.case.name.removesuffix(EMULATED_SUFFIX)
    for system in source.systems:
        if system.case.name == name:
            yield (
                f"{emulated.case.name}: {_word_error_rate(emulated)} of words wrong; the same "
                f"window on the processor: {_word_error_rate(system)}."
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
        f"Without padding {format_percent(none['wer'])} of words are wrong, and of "
        f"{none['files']} files {none['runaway']} run on until the token budget ends; with "
        f"{most['value']} it is {format_percent(most['wer'])} and {most['runaway']}."
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
