"""The documentation as a site: tables and code fit a laptop and a phone. `make docs` builds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.browser import WAIT_MS
from tests.e2e.conftest import ROOT

SITE: Final = ROOT / "build" / "site"
if not SITE.is_dir():
    pytest.skip(
        "the site is not built: make docs, then repeat", allow_module_level=True
    )
PAGES: Final = sorted(
    path.relative_to(SITE) for path in SITE.rglob("*.html") if path.name != "404.html"
)
FIND_CUT: Final = """
() => {
  const cut = (element) => element.scrollWidth > element.clientWidth + 1;
  const tables = [...document.querySelectorAll(".md-content table")];
  const frame = (table) => table.closest(".md-typeset__scrollwrap") ?? table.parentElement;
  const scrolled = tables.filter((table) => cut(frame(table)));
  const code = [...document.querySelectorAll(".md-content pre code")].filter(cut);
  return [...scrolled, ...code].map((element) => element.innerText.slice(0, 80));
}
"""


@pytest.mark.parametrize("width", [1280, 390], ids=["laptop", "phone"])
@pytest.mark.parametrize("name", PAGES, ids=str)
def test_site_fits_screens(chromium: Any, name: Path, width: int) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 844})
    page.set_default_timeout(WAIT_MS)
    page.goto((SITE / name).as_uri())
    assert page.evaluate(FIND_CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
