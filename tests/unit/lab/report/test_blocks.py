"""Tables inside documents, and the check that those of this repository are not stale."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.tables import DOCUMENTS, stale

from tests.unit.lab.runs import CACHE, RUN
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.report.blocks import fill
from whisper_hailo_lab.report.gather import group

GROUP = group([("run.jsonl", RUN)])[0]
DOCUMENT = "Before.\n\n<!-- table: {} -->\nold\n<!-- end of table -->\n\nAfter.\n"


def test_a_table_takes_the_place_of_the_old_one() -> None:
    text = fill(DOCUMENT.format("headline"), GROUP, "cd34")
    assert "old" not in text
    assert text.startswith("Before.\n\n<!-- table: headline -->\n2026-01-02, Test CPU, 2 CPUs")
    assert "| whisper-hailo, matched | 20.0 | 10.00 | 50.0 % | 66 |" in text
    assert text.endswith("<!-- end of table -->\n\nAfter.\n")
    assert fill(text, GROUP, "cd34") == text


def test_comparisons_are_tables_too() -> None:
    assert "| fixed | - | 1,024 |" in fill(DOCUMENT.format("cache"), GROUP, "cd34")


def test_a_run_of_other_weights_says_so_but_where_none_are_heard() -> None:
    origin = "2026-01-02, Test CPU, 2 CPUs, 8 GiB, x86_64; 3 recordings of clips"
    for name in ("headline", "cache"):
        assert f"{origin}.\n" in fill(DOCUMENT.format(name), GROUP, "cd34")
        assert f"{origin}; other weights than the present ones.\n" in fill(
            DOCUMENT.format(name), GROUP, "ef56"
        )
    mel = replace(CACHE, name="mel", settings={"n_mels": 80}, rows=())
    without = group([("run.jsonl", replace(RUN, comparisons=(mel,)))])[0]
    assert f"{origin}.\n" in fill(DOCUMENT.format("mel"), without, "ef56")


def test_a_document_without_marks_stays() -> None:
    assert fill("nothing\n", GROUP, "cd34") == "nothing\n"


def test_without_runs_the_document_says_so() -> None:
    assert "\nNot measured with the present weights yet" in fill(
        DOCUMENT.format("mel"), None, "cd34"
    )


def test_unknown_tables_are_refused() -> None:
    with pytest.raises(OptionError, match="no table 'colour'; there are headline, latency"):
        fill(DOCUMENT.format("colour"), GROUP, "cd34")


def test_the_documents_of_this_repository_are_what_their_runs_say() -> None:
    """If this fails: python benchmarks/tables.py."""
    assert [path.name for path in stale()] == []
    for path in DOCUMENTS:
        assert "<!-- table: " in path.read_text(encoding="utf-8")
