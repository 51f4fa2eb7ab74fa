"""The page over a picture, as a browser source of OBS: the last two lines only."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.browser import SIZES, opened
from tests.e2e.talk import SENTENCES, give, said, saying, stage
from whisper_hailo.serve.routes.captions.view import WebView

STILL = {"reduced_motion": "reduce"}

BARS = """
() => [...document.querySelectorAll("#text p")].map((element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const bar = element.getBoundingClientRect(), words = range.getBoundingClientRect();
  return { left: words.left - bar.left, top: bar.top, bottom: bar.bottom, height: bar.height };
})
"""
"""Of each paragraph: its bar, and the distance of its words from the side."""

OBS = {
    "a node of text": "(css) => { const style = document.createElement('style');"
    " style.appendChild(document.createTextNode(css)); document.head.appendChild(style); }",
    "innerHTML, before 31": "(css) => { const style = document.createElement('style');"
    " style.innerHTML = css; document.head.appendChild(style); }",
}
"""How OBS puts a user's CSS into the page that was loaded (`BrowserClient::OnLoadEnd`)."""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_overlay_shows_two_lines_only(
    chromium: Any, view: WebView, size: tuple[int, int]
) -> None:
    view.put(saying(give(view), "And now the joke", "that nobody"))
    viewport = {"width": size[0], "height": size[1]}
    page = opened(chromium, view.address + "?overlay=1", viewport=viewport, **STILL)
    page.wait_for_selector("#running .tentative")
    line = page.evaluate(
        "parseFloat(getComputedStyle(document.getElementById('log')).lineHeight)"
    )
    lines = page.locator("#log").bounding_box()
    assert lines["height"] == pytest.approx(2 * line, abs=0.5)
    assert line >= min(size) / 16
    shown_pixels = read_pixels(page)
    assert not shown_pixels[: int(lines["y"])].any(), "the picture shows through"
    assert shown_pixels[int(lines["y"]) :, :, 3].max() == 255
    for name in ("#heard", "#controls", "#newest", "#first", "footer"):
        assert not page.locator(name).is_visible()
    page.close()


def read_pixels(page: Any) -> Any:
    """Return the `(height, width, 4)` pixels of the page; transparent ones are zeros."""
    pictures = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    raw = page.screenshot(omit_background=True)
    return np.asarray(pictures.open(io.BytesIO(raw)).convert("RGBA"))


def test_overlay_text_fades_in_silence(chromium: Any, view: WebView) -> None:
    page = chromium.new_page(**STILL)
    page.clock.install()
    page.goto(view.address + "?overlay=1")
    view.put(said(0, SENTENCES[0]))
    page.wait_for_selector(".segment")
    page.clock.run_for(11_000)
    page.wait_for_selector("html.faded")
    view.put(said(1, SENTENCES[1]))
    page.wait_for_selector("html:not(.faded)")
    page.close()


def test_overlay_paragraphs_are_aligned_and_adjacent(
    chromium: Any, view: WebView
) -> None:
    view.put(said(0, "Good evening.", 0.0))
    view.put(said(1, "Welcome to all.", 10.0))
    page = opened(chromium, view.address + "?overlay=1", **STILL)
    page.wait_for_selector(".segment >> nth=1")
    first, second = page.evaluate(BARS)
    assert first["left"] == pytest.approx(second["left"], abs=0.5)
    assert first["bottom"] == pytest.approx(second["top"], abs=0.01)
    page.close()


def test_overlay_bar_appears_with_the_first_word(chromium: Any, view: WebView) -> None:
    view.put(said(0, "Good evening.", 0.0))
    view.put(saying(1, "", start_s=10.0))
    page = opened(chromium, view.address + "?overlay=1", **STILL)
    page.wait_for_selector("#running", state="attached")
    assert [bar["height"] > 0 for bar in page.evaluate(BARS)] == [True, False]
    view.put(saying(1, "", "Welcome", start_s=10.0))
    page.wait_for_selector("#running .tentative")
    assert [bar["height"] > 0 for bar in page.evaluate(BARS)] == [True, True]
    page.close()


@pytest.mark.parametrize("method", OBS)
def test_overlay_style_can_be_set_in_obs(
    chromium: Any, view: WebView, method: str
) -> None:
    give(view)
    page = opened(chromium, view.address + "?overlay=1", **STILL)
    page.wait_for_selector(".segment")
    page.evaluate(OBS[method], ":root { --lines: 3; --size: 40px; }")
    style = page.evaluate(
        "(() => { const style = getComputedStyle(document.getElementById('log'));"
        " return [style.fontSize, style.height]; })()"
    )
    assert style == ["40px", "156px"], "three lines of 1.3 times 40"
    page.close()


def test_overlay_without_token_asks_for_it(chromium: Any) -> None:
    with stage(token="a-token-for-this-test") as view:  # noqa: S106 - of no server but this
        page = opened(chromium, view.address + "?overlay=1", locale="en-GB", **STILL)
        page.wait_for_selector("#state[data-text=token]")
        assert "token=…" in page.get_by_role("status").inner_text()
        box = page.locator("#heard").bounding_box()
        assert box["height"] > 10
        assert box["width"] > 100
        page.goto(f"{view.address_to_control}&overlay=1")
        page.wait_for_selector(
            "#state:not([data-text=token], [data-text=connecting])", state="attached"
        )
        assert not page.locator("#heard").is_visible()
        page.close()
