"""The report folder: report.md, index.html and charts, from run files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Final

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.overwrite import Signature, refuse_foreign
from whisper_hailo_lab.report import charts, study, tables
from whisper_hailo_lab.report.canvas import Chart
from whisper_hailo_lab.report.findings import (
    describe_source,
    draw_conclusions,
    write_headline,
)
from whisper_hailo_lab.report.gather import MachineRuns, RunSource, gather_runs
from whisper_hailo_lab.report.page import Page, ReportSection
from whisper_hailo_lab.tables import Table

TITLE: Final = "Whisper on Hailo NPUs and edge CPUs: measurements"
COMPARISON_TITLES: Final = {
    "cache": "Key and value cache",
    "window": "Short windows against 30 s",
    "precision": "FP32, INT8, INT4",
    "padding": "Invented text before and after padding",
    "grid": "Countermeasures against repetition",
    "captions": "Live captions",
}


def write_report(paths: Sequence[Path], out: Path) -> Path:
    """Write a report.

    Args:
        paths: run files, or folders of them.
        out: folder to write into; files of an earlier report are replaced.

    Returns:
        path of the HTML page.

    Raises:
        OptionError: no run files, or broken ones.
        OutputError: `out` holds files of the same names that are no report.
    """
    page = build_page(gather_runs(paths))
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


def build_page(groups: Sequence[MachineRuns]) -> Page:
    """Build the whole report, machine by machine, the study's figures last."""
    sections: list[ReportSection] = []
    for number, group in enumerate(groups, 1):
        prefix = f"m{number}-" if len(groups) > 1 else ""
        sections += _machine_sections(group, prefix)
    conclusions = [
        conclusion for group in groups for conclusion in draw_conclusions(group)
    ]
    return Page(
        title=TITLE,
        headline=write_headline(groups),
        findings=tuple(conclusions),
        data_path=_read_data_path(),
        sections=(*sections, _study_section()),
    )


def _read_data_path() -> str:
    """Return the picture of the data path, the same for every report."""
    picture = resources.files(__package__) / "data-path.svg"
    return picture.read_text(encoding="utf-8")


def _machine_sections(group: MachineRuns, prefix: str) -> Iterator[ReportSection]:
    """Yield the sections of one machine; a prefix makes anchors unique among several."""
    suffix = f" ({group.machine.label})" if prefix else ""
    for number, source in enumerate(group.sources):
        if source.systems:
            mark = f"{prefix}{number}-" if number else prefix
            yield from _system_sections(source, mark, suffix)
    for name, (_, record) in group.comparisons.items():
        yield ReportSection(
            anchor=f"{prefix}{name}",
            title=f"{COMPARISON_TITLES[name]}{suffix}",
            text=(_describe_settings(record.settings),),
            tables=(("", tables.comparison_table(record)),),
            charts=_rename_chart(prefix, charts.comparison_chart(record)),
        )
    for source in group.sources:
        yield describe_source(source)


def _system_sections(
    source: RunSource, mark: str, suffix: str
) -> Iterator[ReportSection]:
    """Yield the sections about systems of one run file."""
    header = source.header
    rules = (
        f"{source.name}: {header.n_samples} recordings of {header.dataset}. Rows called matched "
        "are greedy with one temperature, no VAD, no previous text and no timestamps; those called "
        "default are as the systems' authors ship them; those called study hear 9 s and 28 tokens."
    )
    if source.was_busy:
        rules += (
            " Other programs ran on the machine, so the pictures show the processor's times, which "
            "they do not lengthen."
        )

    def section(
        name: str, title: str, table: Table | None, *drawn: Chart | None
    ) -> ReportSection:
        return ReportSection(
            anchor=f"{mark}{name}",
            title=f"{title}{suffix}",
            text=(rules,) if name == "systems" else (),
            tables=() if table is None else (("", table),),
            charts=tuple(
                chart for each in drawn for chart in _rename_chart(mark, each)
            ),
        )

    systems = source.systems
    overview = tables.overview_table(systems)
    latency = tables.latency_table(source)
    accuracy = tables.accuracy_table(systems)
    invented = tables.hallucination_table(systems)
    memory = tables.memory_table(systems)
    yield section("systems", "At a glance", overview, charts.systems_chart(source))
    yield section("latency", "Latency", latency, charts.latency_chart(source))
    yield section("tail", "Tail latency", None, charts.tail_chart(source))
    yield section("accuracy", "Accuracy", accuracy, charts.accuracy_chart(source))
    yield section("invented", "Invented and repeated text", invented)
    yield section("memory", "Memory", memory, charts.memory_chart(source))


def _rename_chart(prefix: str, chart: Chart | None) -> tuple[Chart, ...]:
    return () if chart is None else (replace(chart, name=f"{prefix}{chart.name}"),)


def _describe_settings(settings: dict[str, object]) -> str:
    return "; ".join(
        f"{name}: {value}" for name, value in settings.items() if value not in ({}, "")
    )


def _study_section() -> ReportSection:
    return ReportSection(
        anchor="study",
        title="The study's figures",
        text=(
            f"{study.SOURCE}. Hatched in pictures; never mixed into ratios of measured cases. WER "
            "and CER are its own form, called simple in the tables above.",
        ),
        tables=tuple(study.published_tables()),
        charts=charts.study_charts(),
    )
