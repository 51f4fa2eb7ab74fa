"""Tables inside documents, the check that they are current, and links between documents."""

from __future__ import annotations

import re
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
from whisper_hailo_lab.repository import ROOT
from whisper_hailo_lab.runs.results import OTHER_WEIGHTS

DOCUMENT = "Before.\n\n<!-- table: {} -->\nold\n<!-- end of table -->\n\nAfter.\n"
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"(?<![\w/}])docs/[\w/-]+\.md\b")
SOURCES = ("src", "tests", "scripts", "packaging", "lab", "tools")


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


def heading_anchors(document: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE
    )
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {
        re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        for text in plain
    }


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)
def test_document_links_have_targets(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        assert path.exists(), target
        assert not anchor or path.suffix != ".md" or anchor in heading_anchors(path), (
            f"{target}#{anchor}"
        )


def test_index_lists_every_document() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / target).resolve() for target, _ in LINK.findall(index)}
    pages = {path for path in DOCUMENTS if path.parent != ROOT}
    assert pages - listed == {ROOT / "docs" / "index.md"}


def test_navigation_lists_every_document() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert f": {path.relative_to(ROOT / 'docs')}\n" in navigation, path


def test_documents_named_in_sources_exist() -> None:
    files = [path for name in SOURCES for path in (ROOT / name).rglob("*")]
    for path in [*files, ROOT / "Makefile"]:
        if path.is_file() and path.suffix in {"", ".py", ".sh", ".md", ".service"}:
            named = NAMED.findall(path.read_text(encoding="utf-8", errors="ignore"))
            assert all((ROOT / document).is_file() for document in named), path
