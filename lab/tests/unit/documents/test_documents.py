"""Tables inside documents, and the check that those of this repository are not stale."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from lab.tests.unit.small_run import CACHE, RUN
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.documents import __main__ as program
from whisper_hailo_lab.documents import (
    accuracy,
    device_faults,
    emulation,
    interrupted,
    processors,
    server,
    spoken_commands,
)
from whisper_hailo_lab.documents import tables as module
from whisper_hailo_lab.documents.systems import tables
from whisper_hailo_lab.documents.tables import KEPT, Maker, fill, kept_tables, stale
from whisper_hailo_lab.emulation.__main__ import EmulationBench
from whisper_hailo_lab.experiments import fallback, short_windows, windows
from whisper_hailo_lab.report.gather import group
from whisper_hailo_lab.repository import MICRO, ROOT
from whisper_hailo_lab.runs.machine import OTHER, mark_of

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
    with pytest.raises(OptionError, match="colour"):
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
    with pytest.raises(OptionError, match="interrupted"):
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


DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"(?<![\w/}])docs/[\w/-]+\.md\b")
SOURCES = ("src", "tests", "scripts", "packaging", "lab", "tools")


def anchors(document: Path) -> set[str]:
    """Of the headings, as the usual viewers make them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for text in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        assert path.exists(), target
        assert not anchor or path.suffix != ".md" or anchor in anchors(path), f"{target}#{anchor}"


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / target).resolve() for target, _ in LINK.findall(index)}
    pages = {path for path in DOCUMENTS if path.parent not in (ROOT, ROOT / "docs" / "decisions")}
    assert pages - listed == {ROOT / "docs" / "index.md"}


def test_every_document_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert f": {path.relative_to(ROOT / 'docs')}\n" in navigation, path


def test_documents_named_in_sources_exist() -> None:
    files = [path for name in SOURCES for path in (ROOT / name).rglob("*")]
    for path in [*files, ROOT / "Makefile"]:
        if path.is_file() and path.suffix in {"", ".py", ".sh", ".md", ".service"}:
            named = NAMED.findall(path.read_text(encoding="utf-8", errors="ignore"))
            assert all((ROOT / document).is_file() for document in named), path


ON_ANY_WEIGHTS = {
    processors.STEPS,
    processors.WINDOWS,
    accuracy.RESULT,
    device_faults.RESULT,
    server.RESULT,
    spoken_commands.RESULT,
}
OF_WEIGHTS = [pytest.param(*one, id=one[0].stem) for one in KEPT if one[0] not in ON_ANY_WEIGHTS]


def stamped(result: dict[str, Any], weights: str) -> dict[str, Any]:
    """The result, and each of its parts, as of these weights."""
    mark = {"weights": weights}
    parts = {k: part | mark if isinstance(part, dict) else part for k, part in result.items()}
    return parts | mark


def unknown(result: dict[str, Any]) -> dict[str, Any]:
    """The result as of a program that did not record weights."""
    return {
        k: {key: v for key, v in part.items() if key != "weights"}
        if isinstance(part, dict)
        else part
        for k, part in result.items()
        if k != "weights"
    }


@pytest.mark.parametrize(("path", "make"), OF_WEIGHTS)
def test_a_table_of_other_weights_says_so(path: Path, make: Maker) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    # Parts with `models` are of real checkpoints, not of the bundled weights.
    result = {
        k: part for k, part in kept.items() if not (isinstance(part, dict) and "models" in part)
    }
    for text in make(stamped(result, "these"), "these").values():
        assert OTHER not in text
    assert all(OTHER in text for text in make(stamped(result, "these"), "those").values())
    assert all(OTHER in text for text in make(unknown(result), "these").values())


def test_one_part_measured_anew_does_not_vouch_for_the_other() -> None:
    result = stamped(json.loads(emulation.RESULT.read_text(encoding="utf-8")), "these")
    result["decoder"]["weights"] = "those"
    assert all(OTHER in text for text in emulation.tables(result, "these").values())


def test_results_record_the_weights_that_they_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CASES", ())
    monkeypatch.setattr(fallback, "Transcriber", MagicMock())
    monkeypatch.setattr(fallback, "sets", lambda _: ())
    monkeypatch.setattr(short_windows, "measure_words", lambda *_: {})
    monkeypatch.setattr(short_windows, "measure_time", list)
    found = [
        windows.measure_all((), None),
        fallback.measure_all(0),
        short_windows.measure_all(None),
        EmulationBench.measure(MagicMock(), MagicMock()),
    ]
    assert [result["weights"] for result in found] == [mark_of(MICRO)] * 4
