"""Debian's Chromium, and a page of captions in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.e2e.conftest import PATIENCE_S

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: requirements/e2e.txt"
)
CHROMIUM: Final = shutil.which("chromium") or ""
if not CHROMIUM:
    pytest.skip(
        "chromium is not installed: apt-get install chromium", allow_module_level=True
    )

SIZES: Final = ((320, 568), (390, 844), (1366, 768), (1920, 1080), (3840, 2160))
"""Two phones, a laptop, a screen and a wall."""

WAIT_MS: Final = 1000 * PATIENCE_S

_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_CONTRAST: Final = """
([selector, ground]) => {
  const parts = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((v) => {
      v /= 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const text = light(getComputedStyle(document.querySelector(selector)).color);
  const back = light(getComputedStyle(document.querySelector(ground)).backgroundColor);
  return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
}
"""


_drivers: list[Any] = []
"""Playwright's driver, while a browser is open: a thread can have one."""


@contextmanager
def _share_driver() -> Iterator[Any]:
    """Yield the driver of the browser that is open, such as a module's, or a new one."""
    if _drivers:
        yield _drivers[0]
        return
    with playwright.sync_playwright() as driver:
        _drivers.append(driver)
        try:
            yield driver
        finally:
            _drivers.clear()


@contextmanager
def browser(*flags: str) -> Iterator[Any]:
    """Chromium without a window."""
    with _share_driver() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=[*_FLAGS, *flags], timeout=WAIT_MS
        )
        try:
            yield opened
        finally:
            opened.close()


def opened(chromium: Any, address: str, *scripts: str, **options: Any) -> Any:
    """A new page at an address, which fails the test that it throws an error in.

    Args:
        chromium: a browser, or a context in one.
        address: of the page.
        scripts: that run before the page's own.
        options: of a browser's new context: size, colour scheme and so on.
    """
    page = chromium.new_page(**options)
    page.set_default_timeout(WAIT_MS)
    page.on("pageerror", _fail)
    for script in scripts:
        page.add_init_script(script)
    page.goto(address)
    return page


def contrast(page: Any, selector: str, ground: str = "body") -> float:
    """Of an element's text to a ground, as WCAG 2 defines it: 1 to 21."""
    found = page.evaluate(_CONTRAST, [selector, ground])
    assert isinstance(found, float | int)
    return found


def _fail(error: Any) -> None:
    raise AssertionError(f"the page threw {error}")
