"""Tables inside documents, and the check that those of this repository are not stale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.lab.small_run import CACHE, RUN
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.documents import __main__ as program
from whisper_hailo_lab.documents import interrupted
from whisper_hailo_lab.documents import tables as module
from whisper_hailo_lab.documents.systems import tables
from whisper_hailo_lab.documents.tables import KEPT, fill, kept_tables, stale
from whisper_hailo_lab.report.gather import group

AS_THEY_COME = replace(RUN, cases=tuple(replace(case, row="default") for case in RUN.cases))
GROUP = group([("run.jsonl", AS_THEY_COME)])[0]
DOCUMENT = "Before.\n\n<!-- table: {} -->\nold\n<!-- end of table -->\n\nAfter.\n"


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    """The tables of all kept results."""
    return kept_tables()


def filled(name: str, weights: str = "cd34") -> str:
    return fill(DOCUMENT.format(name), tables(GROUP, weights))


def test_a_table_takes_the_place_of_the_old_one() -> None:
    text = filled("headline")
    assert "old" not in text
    assert text.startswith("Before.\n\n<!-- table: headline -->\n2026-01-02, Test CPU, 2 CPUs")
    assert "| whisper-hailo, matched | 40 | 10.0 | 50.0 % | 66 |" in text
    assert "| faster-whisper, matched | 200 | 1.0 | " in text
    assert text.endswith("<!-- end of table -->\n\nAfter.\n")
    assert fill(text, tables(GROUP, "cd34")) == text


def test_the_headline_has_programs_as_they_come() -> None:
    ours, *others = AS_THEY_COME.cases
    named = replace(ours, name="whisper-hailo, default")
    files = tuple(
        replace(one, case=named.name) if one.case == ours.name else one
        for one in AS_THEY_COME.files
    )
    matched = replace(ours, row="matched")
    run = replace(AS_THEY_COME, cases=(named, matched, *others), files=files + RUN.files)
    text = tables(group([("run.jsonl", run)])[0], "cd34")["headline"]
    assert "\n| whisper-hailo | 40 | 10.0 | 50.0 % | 66 |\n" in text
    assert "whisper-hailo, matched" not in text


def test_comparisons_are_tables_too() -> None:
    assert "| fixed | - | 1,024 |" in filled("cache")


def test_a_run_of_other_weights_says_so_but_where_none_are_heard() -> None:
    origin = "2026-01-02, Test CPU, 2 CPUs, 8 GiB, x86_64; 3 recordings of clips"
    for name in ("headline", "cache"):
        assert f"{origin}.\n" in filled(name)
        assert f"{origin}; other weights than the present ones.\n" in filled(name, "ef56")
    mel = replace(CACHE, name="mel", settings={"n_mels": 80}, rows=())
    without = group([("run.jsonl", replace(RUN, comparisons=(mel,)))])[0]
    assert f"{origin}.\n" in tables(without, "ef56")["mel"]


def test_a_document_without_places_stays() -> None:
    assert fill("nothing\n", tables(GROUP, "cd34")) == "nothing\n"


def test_unknown_tables_are_refused() -> None:
    with pytest.raises(OptionError, match="no kept result has a table 'colour'; there are accur"):
        filled("colour")


@pytest.mark.slow
def test_a_result_that_is_not_there_is_told_by_its_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lost = tuple(
        (tmp_path / "none.json" if path == interrupted.RESULT else path, make)
        for path, make in KEPT
    )
    monkeypatch.setattr(module, "KEPT", lost)
    with pytest.raises(OptionError, match="no kept result has a table 'interrupted'"):
        stale()


def test_the_check_names_what_is_stale_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept: dict[str, str]
) -> None:
    document: Path = module.ROOT / "docs" / "measurements" / "speed.md"
    before = document.read_bytes()
    changed = kept | {"speed-steps": "another\n"}
    monkeypatch.setattr(module, "kept_tables", lambda: changed)
    monkeypatch.setattr("sys.argv", ["documents", "--check"])
    assert program.main() == 1
    assert "docs/measurements/speed.md is stale" in capsys.readouterr().err
    assert document.read_bytes() == before
