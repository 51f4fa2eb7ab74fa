"""Tables inside documents, and the check that those of this repository are not stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.documents import __main__ as program
from whisper_hailo_lab.documents import (
    accuracy,
    device_faults,
    emulation,
    pages,
    processors,
    server,
    speakers,
    speed,
    spoken_commands,
    untranscribed,
)
from whisper_hailo_lab.documents.pages import (
    KEPT,
    TableMaker,
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


def test_fill_document_without_places_changes_nothing() -> None:
    assert fill_document("nothing\n", {"one": "new\n"}) == "nothing\n"


def test_fill_document_refuses_an_unknown_table() -> None:
    with pytest.raises(OptionError, match="colour"):
        fill_document(DOCUMENT.format("colour"), {"one": "new\n"})


def test_check_names_stale_documents_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document: Path = pages.ROOT / "docs" / "measurements" / "speed.md"
    before = document.read_bytes()
    changed = make_all_tables() | {"speed-steps": "another\n"}
    monkeypatch.setattr(pages, "make_all_tables", lambda: changed)
    monkeypatch.setattr("sys.argv", ["documents", "--check"])
    assert program.main() == 1
    assert "docs/measurements/speed.md is stale" in capsys.readouterr().err
    assert document.read_bytes() == before


def test_check_refuses_a_place_whose_result_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_server = [
        (tmp_path / "none.json" if path == server.RESULT else path, make)
        for path, make in KEPT
    ]
    monkeypatch.setattr(pages, "KEPT", without_server)
    with pytest.raises(OptionError, match="server"):
        pages.stale_documents()


def test_comparison_tables_have_their_origin() -> None:
    tables = speed.make_comparison_tables("another")
    assert {"cache", "mel"} <= tables.keys()
    assert OTHER_WEIGHTS in tables["cache"].splitlines()[0]
    assert OTHER_WEIGHTS not in tables["mel"].splitlines()[0], (
        "it compares without a model"
    )


ON_ANY_WEIGHTS = {
    processors.STEPS,
    processors.WINDOWS,
    accuracy.RESULT,
    device_faults.RESULT,
    server.RESULT,
    speakers.RESULT,
    spoken_commands.RESULT,
    untranscribed.RESULT,
}
OF_WEIGHTS = [
    pytest.param(*item, id=item[0].stem)
    for item in KEPT
    if item[0] not in ON_ANY_WEIGHTS
]


def _is_of_micro(part: Any) -> bool:
    """Return whether a part is of the bundled weights; those with `models` are of checkpoints."""
    return not (isinstance(part, dict) and "models" in part)


def mark_parts(result: dict[str, Any], weights: str) -> dict[str, Any]:
    """Return a result that is, with each of its parts, of these weights."""
    mark = {"weights": weights}
    parts = {
        name: part | mark if isinstance(part, dict) else part
        for name, part in result.items()
    }
    return parts | mark


def unmark_parts(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of a program that did not record weights."""
    parts = {}
    for name, part in result.items():
        if isinstance(part, dict):
            parts[name] = {
                key: value for key, value in part.items() if key != "weights"
            }
        elif name != "weights":
            parts[name] = part
    return parts


@pytest.mark.parametrize(("path", "make"), OF_WEIGHTS)
def test_table_of_other_weights_says_so(path: Path, make: TableMaker) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    result = {name: part for name, part in kept.items() if _is_of_micro(part)}
    for text in make(mark_parts(result, "these"), "these").values():
        assert OTHER_WEIGHTS not in text
    for text in make(mark_parts(result, "these"), "those").values():
        assert OTHER_WEIGHTS in text
    for text in make(unmark_parts(result), "these").values():
        assert OTHER_WEIGHTS in text


def test_emulation_table_with_one_old_part_says_so() -> None:
    result = mark_parts(
        json.loads(emulation.RESULT.read_text(encoding="utf-8")), "these"
    )
    result["decoder"]["weights"] = "those"
    for text in emulation.make_tables(result, "these").values():
        assert OTHER_WEIGHTS in text
