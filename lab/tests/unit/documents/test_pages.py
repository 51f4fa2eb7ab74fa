"""Tables inside documents, and the check that they are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.documents import __main__ as program
from whisper_hailo_lab.documents import (
    comparisons,
    pages,
    server,
)
from whisper_hailo_lab.documents.pages import (
    KEPT,
    fill_document,
    make_all_tables,
)
from whisper_hailo_lab.runs.results import OTHER_WEIGHTS

DOCUMENT = "Before.\n\n<!-- table: {} -->\nold\n<!-- end of table -->\n\nAfter.\n"


def test_fill_document_replaces_the_old_table() -> None:
    tables = {"one": "new\n"}
    text = fill_document(DOCUMENT.format("one"), tables)
    assert text == DOCUMENT.format("one").replace("old", "new")
    assert fill_document(text, tables) == text


def test_fill_document_without_markers_changes_nothing() -> None:
    assert fill_document("nothing\n", {"one": "new\n"}) == "nothing\n"


def test_fill_document_refuses_an_unknown_table() -> None:
    with pytest.raises(OptionError, match="colour"):
        fill_document(DOCUMENT.format("colour"), {"one": "new\n"})


def test_documents_check_names_stale_pages_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document: Path = pages.ROOT / "docs" / "measurements" / "speed.md"
    before = document.read_bytes()
    changed = make_all_tables() | {"speed-steps": "another\n"}
    monkeypatch.setattr(pages, "make_all_tables", lambda: changed)
    monkeypatch.setattr("sys.argv", ["documents", "--check"])
    assert program.main() == 1
    assert "docs/measurements/speed.md" in capsys.readouterr().err
    assert document.read_bytes() == before


def test_stale_documents_missing_result_raises(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_server = [
        (tmp_path / "none.json" if path == server.RESULT else path, make)
        for path, make in KEPT
    ]
    monkeypatch.setattr(pages, "KEPT", without_server)
    with pytest.raises(OptionError, match="server"):
        pages.stale_documents()


def test_comparison_tables_name_other_weights() -> None:
    tables = comparisons.make_tables("another")
    assert OTHER_WEIGHTS in tables["cache"].splitlines()[0]
