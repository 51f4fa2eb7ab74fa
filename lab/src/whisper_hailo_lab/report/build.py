"""From run files to a report folder: report.md, index.html, charts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.overwrite import Signature, refuse_foreign
from whisper_hailo_lab.report import charts, study, tables
from whisper_hailo_lab.report.canvas import Chart
from whisper_hailo_lab.report.charts import comparison_chart, data_path_svg
from whisper_hailo_lab.report.findings import findings, headline, provenance
from whisper_hailo_lab.report.gather import MachineRuns, RunSource, gather
from whisper_hailo_lab.report.page import Page, ReportSection
from whisper_hailo_lab.report.study import published_tables
from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.report.tables import comparison_table

TITLE = "Whisper on Hailo NPUs and edge CPUs: measurements"
COMPARISON_TITLES = {
    "cache": "Key and value cache",
    "window": "10 s against 30 s",
    "mel": "Log-mel",
    "precision": "FP32, INT8, INT4",
    "padding": "Padding before and after",
    "captions": "Live captions",
}


def report(paths: Sequence[Path], out: Path) -> Path:
    """Write a report.

    Args:
        paths: run files, or folders of them.
        out: folder to write into; files of an earlier report are replaced.

    Returns:
        the HTML page.
    """
    page = build(gather(paths))
    title = re.escape(page.title.encode())
    markdown = Signature("an earlier report", b"# " + title)
    refuse_foreign(out / "report.md", markdown)
    html = Signature("an earlier report", b"(?s)<!doctype html>.*<title>" + title)
    refuse_foreign(out / "index.html", html)
    for chart in page.charts:
        write_file(out / "charts" / f"{chart.name}.svg", chart.svg)
        write_file(out / "charts" / f"{chart.name}.png", chart.png)
    write_file(out / "charts" / "data-path.svg", page.data_path)
    write_file(out / "report.md", page.markdown())
    write_file(out / "index.html", page.html())
    return out / "index.html"


def build(groups: Sequence[MachineRuns]) -> Page:
    """The whole report; machines one after the other, the study's figures last."""
    several = len(groups) > 1
    sections = [
        section
        for number, group in enumerate(groups, 1)
        for section in _machine(group, f"m{number}-" if several else "")
    ]
    return Page(
        title=TITLE,
        headline=headline(groups),
        findings=tuple(f for group in groups for f in findings(group)),
        data_path=data_path_svg(),
        sections=(*sections, _study()),
    )


def _machine(group: MachineRuns, prefix: str) -> Iterator[ReportSection]:
    """Sections of one machine; `prefix` keeps names apart where there are several."""
    where = f" ({group.machine.label})" if prefix else ""
    for number, source in enumerate(group.sources):
        if source.systems:
            mark = f"{prefix}{number}-" if number else prefix
            yield from _systems(source, mark, where)
    for name, (_, record) in group.comparisons.items():
        chart = comparison_chart(record)
        yield ReportSection(
            anchor=f"{prefix}{name}",
            title=COMPARISON_TITLES[name] + where,
            text=(_said(record.settings),),
            tables=(("", comparison_table(record)),),
            charts=_named(prefix, chart),
        )
    for source in group.sources:
        yield provenance(source)


def _systems(source: RunSource, mark: str, where: str) -> Iterator[ReportSection]:
    header, found = source.header, source.systems
    data = (
        f"{source.name}: {header.n_samples} recordings of {header.dataset}. Rows called matched "
        "are greedy with one temperature, no VAD, no previous text and no timestamps; those called "
        "default are as the systems' authors ship them; those called study hear 9 s and 28 tokens."
    )
    parts: list[tuple[str, str, tuple[Table, ...], tuple[Chart | None, ...]]] = [
        ("latency", "Latency", (tables.latency_table(source),), (charts.latency_chart(source),)),
        ("tail", "Tail latency", (), (charts.tail_chart(source),)),
        (
            "accuracy", "Accuracy", (tables.accuracy_table(found),),
            (charts.accuracy_chart(source), charts.scatter_chart(source)),
        ),
        ("invented", "Invented and repeated text", (tables.hallucination_table(found),), ()),
        ("memory", "Memory", (tables.memory_table(found),), (charts.memory_chart(source),)),
    ]  # fmt: skip
    for name, title, listed, pictures in parts:
        yield ReportSection(
            anchor=f"{mark}{name}",
            title=title + where,
            text=(data,) if name == "latency" else (),
            tables=tuple(("", table) for table in listed),
            charts=tuple(c for picture in pictures for c in _named(mark, picture)),
        )


def _named(prefix: str, chart: Chart | None) -> tuple[Chart, ...]:
    return () if chart is None else (replace(chart, name=prefix + chart.name),)


def _said(settings: dict[str, object]) -> str:
    return "; ".join(
        f"{name}: {value}" for name, value in settings.items() if value not in ({}, "")
    )


def _study() -> ReportSection:
    return ReportSection(
        anchor="study",
        title="The study's figures",
        text=(
            f"{study.SOURCE}. Hatched or hollow in the pictures above; never mixed into ratios of "
            "measured cases. WER and CER are its own form, called simple in the tables above.",
        ),
        tables=tuple(published_tables()),
    )
