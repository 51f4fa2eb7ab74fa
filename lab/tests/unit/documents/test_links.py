"""Links and names of documents exist, and indexes are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whisper_hailo_lab.repository import ROOT

DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"(?<![\w/}])docs/[\w/-]+\.md\b")
SOURCES = ("src", "tests", "scripts", "packaging", "lab", "tools")


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
    pages = {
        path
        for path in DOCUMENTS
        if path.parent not in (ROOT, ROOT / "docs" / "decisions")
    }
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
