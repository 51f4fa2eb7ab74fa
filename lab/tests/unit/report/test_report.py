"""The report of the constructed run: a golden, and the properties of any report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.tests.unit.small_run import (
    CACHE,
    HEADER,
    MACHINE,
    OURS,
    OURS_FILES,
    RIVAL,
    RUN,
)
from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo_lab.report import charts, study
from whisper_hailo_lab.report.build import build_page, write_report
from whisper_hailo_lab.report.canvas import Chart
from whisper_hailo_lab.report.gather import gather_runs, group_by_machine
from whisper_hailo_lab.report.page import Page
from whisper_hailo_lab.report.tables import describe_file
from whisper_hailo_lab.runs.records import ComparisonRecord, FileResult, RunRecords
from whisper_hailo_lab.runs.run_file import RunWriter

GOLDEN = Path(__file__).with_name("golden.md")
VALUE_ROW = {
    "encoder_ms": 10.0, "decoder_ms": 5.0, "median_ms": 16.0, "p95_ms": 20.0, "ratio": 1.0,
    "wer": 0.05, "substitutions": 1, "deletions": 0, "insertions": 0, "words": 20,
    "simple_mean_wer": 0.06, "runaway": 2, "repetitive": 1, "files": 10, "components_mib": 50.0,
    "silent": 2, "silent_with_text": 1,
}  # fmt: skip
OLD = ComparisonRecord("mel", {}, ({"implementation": "ours", "ms": 2.0},))
"""Of an earlier version; it is left out."""

VALUES = {
    "window": ("10 s", "30 s"),
    "precision": ("encoder FP32, decoder FP32", "encoder INT8, decoder FP32"),
    "padding": ("none", "silence keys"),
}
OTHERS = (
    OLD,
    *(
        ComparisonRecord(
            name, {"model": "micro"}, tuple({"value": v} | VALUE_ROW for v in values)
        )
        for name, values in VALUES.items()
    ),
)


def make_plain_chart(name: str, title: str, *_: object) -> Chart:
    """Return a chart without drawing it, which takes a second."""
    return Chart(name, title, f'<svg id="{name}"/>', b"\x89PNG")


@pytest.fixture(autouse=True)
def replace_drawing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "slow" not in request.keywords:
        monkeypatch.setattr(charts, "draw_chart", make_plain_chart)


def make_page(*runs: RunRecords) -> Page:
    return build_page(
        group_by_machine([(f"run-{i}.jsonl", run) for i, run in enumerate(runs)])
    )


def test_build_page_of_a_small_run_equals_the_golden() -> None:
    """To regenerate the golden: python -m lab.tests.unit.report.test_report."""
    assert make_page(RUN).markdown() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.slow
def test_systems_chart_is_reproducible() -> None:
    (source,) = group_by_machine([("run.jsonl", RUN)])[0].sources
    assert charts.systems_chart(source) == charts.systems_chart(source)


@pytest.mark.parametrize("name", ["report.md", "index.html"])
def test_write_report_replaces_only_an_earlier_one(tmp_path: Path, name: str) -> None:
    with RunWriter(tmp_path / "run.jsonl", HEADER) as writer:
        for record in (*RUN.files, *RUN.cases):
            writer.write(record)
    for _ in range(2):
        write_report([tmp_path / "run.jsonl"], tmp_path / "out")
    foreign_text = "# My report\n<!doctype html>"
    (tmp_path / "out" / name).write_text(foreign_text)
    with pytest.raises(OutputError, match=name):
        write_report([tmp_path / "run.jsonl"], tmp_path / "out")
    assert (tmp_path / "out" / name).read_text() == foreign_text


@pytest.mark.slow
def test_write_report_writes_all_that_it_links(tmp_path: Path) -> None:
    run_file = tmp_path / "run.jsonl"
    everything = replace(RUN, comparisons=(CACHE, *OTHERS))
    with RunWriter(run_file, HEADER) as writer:
        for record in (*everything.files, *everything.cases, *everything.comparisons):
            writer.write(record)
    html = write_report([run_file], tmp_path / "out").read_text(encoding="utf-8")
    written = {path.name for path in (tmp_path / "out" / "charts").iterdir()}
    names = {"systems", "latency", "tail", "memory", "accuracy", "cache", "window", "precision",
             "padding", "study", "study-memory"}  # fmt: skip
    assert written == {f"{n}.{kind}" for n in names for kind in ("svg", "png")} | {
        "data-path.svg"
    }
    for path in (tmp_path / "out" / "charts").glob("*.svg"):
        ElementTree.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314 - ours
    for path in (tmp_path / "out" / "charts").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    for target in re.findall(r'<a href="#([^"]+)"', html):
        assert f'id="{target}"' in html
    markdown = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((charts/[^)]+)\)", markdown):
        assert (tmp_path / "out" / target).is_file()


def test_build_page_html_has_no_external_links() -> None:
    html = make_page(RUN).html()
    assert not re.search(r'(src|href)="(?!#)[^"]+"', html.replace("xlink:href", "href"))
    assert "<script" not in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_build_page_of_a_failed_case_has_dashes() -> None:
    lost = tuple(
        FileResult(RIVAL.name, r.id, reference=r.reference, error="no weights")
        for r in OURS_FILES
    )
    failed = replace(RIVAL, error="no weights")
    markdown = make_page(
        replace(RUN, cases=(OURS, failed), files=OURS_FILES + lost)
    ).markdown()
    dashes = " | ".join("-" * 6)
    assert f"| {RIVAL.name} | {dashes} | 3 of 3 |" in markdown
    assert "no weights" in markdown


def test_build_page_marks_the_study_as_published() -> None:
    markdown = make_page(RUN).markdown()
    assert "published by the study" in markdown
    assert (
        "| HEF encoder + cached INT8 | 31.4 | 101.1 | 132.5 | 8.13 | 34.71 % / 14.02 % |"
        in markdown
    )
    for row in study.LIBRISPEECH:
        assert row.name in markdown


def test_study_totals_are_sums_of_their_parts() -> None:
    timings = (*study.HELLO_WORLD, *study.ASK_NOT)
    for row in (*study.LIBRISPEECH, *study.ACCENTED, *timings):
        if row.encoder_ms is not None and row.decoder_ms is not None:
            assert row.encoder_ms + row.decoder_ms == pytest.approx(
                row.total_ms, abs=0.15
            )
    assert [warm >= load for load, warm in study.MEMORY_MB.values()] == [True] * 7


def test_study_ratios_follow_from_their_rows() -> None:
    """The claims of the study agree with its tables within rounding."""
    ms = {row.name: row.total_ms for row in study.LIBRISPEECH}
    hybrid = ms["HEF encoder + cached INT8"]
    over = {
        "hybrid over FasterWhisper": ms["FasterWhisper INT8"],
        "hybrid over HEF encoder + HEF decoder": ms["HEF encoder + HEF decoder"],
        "hybrid over 30 s FP32 encoder + cached INT8": ms[
            "30 s FP32 encoder + cached INT8"
        ],
        "hybrid over 10 s encoder + cached INT8": ms["10 s encoder + cached INT8"],
    }
    for claim, total_ms in over.items():
        assert total_ms / hybrid == pytest.approx(study.RATIOS[claim], abs=0.06)
    recounted = [row.speech_s / row.compute_s for row in study.CAPTIONS]
    assert recounted == pytest.approx([14.05, 14.21], abs=0.02)


def test_build_page_of_two_machines_separates_them() -> None:
    other = replace(HEADER, machine=replace(MACHINE, board="Raspberry Pi 5"))
    both = make_page(RUN, RunRecords(other, (OURS,), OURS_FILES))
    titles = [
        section.title
        for section in both.sections
        if section.title.startswith("Latency")
    ]
    assert len(titles) == 2
    assert "(Raspberry Pi 5, Test CPU, 2 CPUs, 8 GiB, x86_64)" in titles[1]
    latency = [
        section for section in both.sections if section.anchor.endswith("latency")
    ]
    assert [len(section.tables[0][1].rows) for section in latency] == [2, 1]
    names = [chart.name for chart in both.charts]
    assert len(names) == len(set(names))


def test_build_page_of_two_runs_has_tables_for_each() -> None:
    second = replace(RUN, comparisons=())
    anchors = [section.anchor for section in make_page(RUN, second).sections]
    assert len(anchors) == len(set(anchors))
    assert {"latency", "1-latency", "run-run-0-jsonl", "run-run-1-jsonl"} <= set(
        anchors
    )


def test_build_page_without_cases_has_comparisons() -> None:
    alone = make_page(RunRecords(HEADER, comparisons=(CACHE,)))
    assert [section.anchor for section in alone.sections] == [
        "cache",
        "run-run-0-jsonl",
        "study",
    ]
    assert alone.headline == "0 cases measured on 1 machine."
    assert "1,024 rows of attention" in alone.findings[0].text


@pytest.mark.parametrize(("cpu_of_clock", "was_busy"), [(0.95, False), (0.5, True)])
def test_run_source_was_busy_if_the_clock_was_longer(
    cpu_of_clock: float, was_busy: bool
) -> None:
    files = tuple(
        replace(file, cpu_s=cpu_of_clock * file.total_ms / 1000) for file in OURS_FILES
    )
    (machine,) = group_by_machine([("run.jsonl", RunRecords(HEADER, (OURS,), files))])
    (source,) = machine.sources
    assert source.was_busy is was_busy
    markdown = make_page(RunRecords(HEADER, (OURS,), files)).markdown()
    assert ("processor's times" in markdown) is was_busy


def test_gather_runs_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="run files"):
        gather_runs([tmp_path])


def test_describe_file_has_times_and_texts() -> None:
    text = describe_file(replace(OURS_FILES[1], runaway=True))
    assert "encode 6.0" in text
    assert "total 20.0 ms; runaway" in text
    assert "said:  Five six." in text
    assert "FAILED: broken" in describe_file(replace(OURS_FILES[1], error="broken"))


if __name__ == "__main__":
    charts.draw_chart = make_plain_chart
    GOLDEN.write_text(make_page(RUN).markdown(), encoding="utf-8")
