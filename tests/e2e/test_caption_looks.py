"""Layout of captions in a real browser, from the size of a phone to that of a wall."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.browser import SIZES, contrast, opened
from tests.e2e.serving import SENTENCES, give, said, saying, stage
from whisper_hailo.live.events import Away, CaptionWord, Untranscribed
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.serve.routes.captions.view import WebView

LINES = """
() => {
  const log = document.getElementById("log").getBoundingClientRect();
  const top = document.getElementById("text").getBoundingClientRect().top;
  const line = parseFloat(getComputedStyle(document.getElementById("log")).lineHeight);
  const middles = [...document.querySelectorAll(".segment > span, #running > span, time")]
    .flatMap((element) => [...element.getClientRects()])
    .map((box) => box.top + box.height / 2)
    .filter((middle) => middle > log.top && middle < log.bottom);
  return {
    line,
    room: document.getElementById("log").clientHeight,
    scrolled: log.top - top,
    middles: middles.map((middle) => (middle - log.top) / line),
    header: document.querySelector("header").getBoundingClientRect().bottom,
    top: log.top,
    page: [document.documentElement.scrollWidth, document.documentElement.scrollHeight],
  };
}
"""
"""Positions of lines of text, as multiples of their height from the first visible one."""

BOXES = """
(selector) => [...document.querySelectorAll(selector)].flatMap((element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return [...range.getClientRects()].filter((box) => box.width > 1)
    .map((box) => [box.left, box.top, box.right, box.bottom].map(Math.round));
})
"""
"""Boxes of the pieces of text in an element."""

STYLE = "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]"

STILL = {"reduced_motion": "reduce"}


def name_of(size: tuple[int, int]) -> str:
    return "x".join(map(str, size))


@pytest.mark.parametrize("size", SIZES, ids=name_of)
def test_page_shows_whole_lines_with_the_newest_last(
    chromium: Any, size: tuple[int, int]
) -> None:
    with stage(browser=BrowserSource()) as view:
        view.put(saying(give(view, 3 * SENTENCES), "And now the joke", "that nobody"))
        check_whole_lines(chromium, view.address_to_control, size)


def check_whole_lines(chromium: Any, address: str, size: tuple[int, int]) -> None:
    """Check the lines of a page with all of its controls."""
    width, height = size
    page = opened(
        chromium, address, viewport={"width": width, "height": height}, **STILL
    )
    page.wait_for_selector("#running .tentative")
    controls = page.locator("#controls").bounding_box()
    assert page.locator("#controls button:visible").count() == 6
    assert controls["x"] + controls["width"] <= width - 16
    for key in ("", "+", "t", "s"):
        if key:
            page.keyboard.press(key)
        measures = page.evaluate(LINES)
        n_lines = measures["room"] / measures["line"]
        assert measures["page"] == [width, height], "the page itself does not scroll"
        assert measures["top"] >= measures["header"]
        assert n_lines == pytest.approx(round(n_lines), abs=0.01)
        assert n_lines >= 4
        above = measures["scrolled"] / measures["line"]
        assert above == pytest.approx(round(above), abs=0.01), (
            "the line at the top is whole"
        )
        assert max(measures["middles"]) > n_lines - 1
        if not key:
            assert len({round(middle % 1, 2) for middle in measures["middles"]}) == 1
    page.close()


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_page_tentative_text_is_underlined(
    chromium: Any, view: WebView, scheme: str
) -> None:
    view.put(saying(give(view), "And now the joke", "that nobody"))
    viewport = {"width": 1280, "height": 720}
    page = opened(
        chromium, view.address, viewport=viewport, color_scheme=scheme, **STILL
    )
    page.wait_for_selector("#running .tentative")
    assert page.evaluate(STYLE, ["#log", "fontSize"]) == "60px", (
        "a twelfth of the screen"
    )
    for selector in (".segment", "#running .tentative", "#state"):
        assert contrast(page, selector) >= 7.0
    lines = [
        page.evaluate(STYLE, [selector, "textDecorationLine"])
        for selector in (".segment span", "#running .tentative")
    ]
    assert lines == ["none", "underline"], "the newest text is not faint"
    assert page.evaluate(STYLE, ["#running .tentative", "fontStyle"]) == "normal"
    page.close()


def test_page_marks_at_most_the_last_tentative_words(
    chromium: Any, view: WebView
) -> None:
    view.put(saying(0, "And now", "the joke that everybody has been waiting for"))
    page = opened(chromium, view.address, **STILL)
    page.wait_for_selector("#running .tentative")
    marked = page.locator("#running .tentative").inner_text()
    assert marked == "everybody has been waiting for"
    page.close()


def test_page_text_grows_from_the_bottom(chromium: Any, view: WebView) -> None:
    page = opened(chromium, view.address, **STILL)
    bottoms = []
    for index, words in enumerate(("Good", "Good evening.")):
        view.put(saying(0, "", words))
        page.wait_for_function(
            "(words) => document.getElementById('running')?.textContent === words",
            arg=words,
        )
        bottoms.append(page.locator("#running").bounding_box())
        assert page.locator("#text").count() == 1, index
    box = page.locator("#log").bounding_box()
    for bottom in bottoms:
        assert bottom["y"] + bottom["height"] > box["y"] + box["height"] - 100
    page.close()


def test_page_joins_a_sentence_of_several_segments(
    chromium: Any, view: WebView
) -> None:
    """A full stop before a lower-case word is dropped."""
    for index, words in enumerate(("We are...", "gathered here.", "today.")):
        view.put(said(index, words))
    page = opened(chromium, view.address, **STILL)
    page.wait_for_selector(".segment >> nth=2")
    assert page.locator("#text").inner_text() == "We are gathered here today."
    page.close()


@pytest.mark.parametrize(
    ("probabilities", "is_shown"),
    [((0.4, 0.6, 0.4, 0.6, 0.7), False), ((0.7, 0.9, 0.45, 0.6, 0.7), True)],
)
def test_page_shows_segment_of_several_voices_as_unclear(
    chromium: Any,
    view: WebView,
    probabilities: tuple[float, ...],
    is_shown: bool,
) -> None:
    spoken = zip(("now", "the", "face", "of", "you"), probabilities, strict=True)
    words = [CaptionWord(f" {text}", probability) for text, probability in spoken]
    view.put(said(0, "", words=words))
    page = opened(chromium, view.address, **STILL, locale="en-GB")
    page.wait_for_selector(".segment")
    text = page.locator("#text").inner_text()
    assert text == ("now the face of you" if is_shown else "[unclear]")
    page.close()


def test_page_hides_dots_without_a_pause(chromium: Any, view: WebView) -> None:
    view.put(said(0, "We are gathered to...", start_s=0.0))
    view.put(said(1, "Review it...", start_s=4.0))
    view.put(said(2, "Later.", start_s=60.0))
    page = opened(chromium, view.address, **STILL)
    page.wait_for_selector(".segment >> nth=2")
    assert page.locator("#text").inner_text().split("\n")[0] == (
        "We are gathered to Review it..."
    )
    page.close()


def test_page_tentative_words_share_one_underline(chromium: Any, view: WebView) -> None:
    partial = saying(0, "And now")
    words = (CaptionWord(" the", 0.9), CaptionWord(" joke", 0.3))
    view.put(replace(partial, tentative=words))
    page = opened(chromium, view.address, **STILL)
    page.wait_for_selector("#running .tentative")
    assert page.locator("#running .tentative").all_inner_texts() == ["the joke"]
    page.close()


def test_page_marks_missing_and_unclear_speech(chromium: Any, view: WebView) -> None:
    view.put(said(0, "Good evening."))
    view.put(
        Untranscribed(
            segment_id=0,
            start_s=1.0,
            end_s=4.1,
            reason="left_out",
            heard_s=9.0,
            at_s=9.0,
        )
    )
    guesses = [CaptionWord(f" {text}", 0.2) for text in ("two", "at", "once.")]
    sure = [
        CaptionWord(f" {text}", 0.9)
        for text in ("Now", "we", "hear", "all", "of", "them")
    ]
    view.put(said(1, "", words=[*sure, *guesses]))
    page = opened(chromium, view.address, **STILL, locale="en-GB")
    page.wait_for_selector(".segment >> nth=1")
    text = page.locator("#text").inner_text()
    assert text == (
        "Good evening. 3 s of speech without text Now we hear all of them [unclear]"
    )
    page.evaluate("document.querySelector('[name=unclear]').click()")
    assert page.locator("#text").inner_text().endswith("them two at once.")
    page.close()


def test_page_text_ends_with_a_note(chromium: Any, view: WebView) -> None:
    view.put(said(0, "Good evening."))
    page = opened(chromium, view.address, **STILL)
    page.wait_for_selector(".segment")
    view.close()
    page.wait_for_selector("#text [data-text=ended_here]")
    page.close()


def test_page_header_is_one_row_on_a_phone(chromium: Any) -> None:
    with stage(browser=BrowserSource()) as view:
        page = opened(
            chromium, view.address_to_control, viewport={"width": 390, "height": 844}
        )
        page.wait_for_selector("#microphone:visible")
        header = page.locator("header").bounding_box()
        button = page.locator("#open").bounding_box()
        assert header["height"] < 1.5 * button["height"]
        page.close()


def test_page_text_stays_in_place_when_settled(chromium: Any, view: WebView) -> None:
    index = give(view)
    view.put(
        saying(
            index,
            "And now the joke that everybody",
            "has been waiting for all the time",
        )
    )
    page = opened(chromium, view.address, **STILL)
    page.wait_for_selector("#running .tentative")
    before = page.evaluate(BOXES, ".segment, #running")
    words = "And now the joke that everybody has been waiting for all the time"
    view.put(said(index, words))
    page.wait_for_selector("#running", state="detached")
    after = page.evaluate(BOXES, ".segment")
    assert after[0] == before[0]
    assert after[-1] == before[-1]
    page.close()


def test_page_keeps_room_for_withdrawn_words(chromium: Any, view: WebView) -> None:
    index = give(view)
    page = opened(chromium, view.address, **STILL)
    tops = []
    for n_words in (1, 40, 2):
        view.put(saying(index, "", " ".join(["guess"] * n_words) + f" {n_words}"))
        page.wait_for_function(
            "(n) => document.getElementById('running')?.textContent.endsWith(' ' + n)",
            arg=n_words,
        )
        tops.append(page.evaluate("document.getElementById('log').scrollTop"))
    assert tops[0] < tops[1] == tops[2]
    page.close()


def test_page_marks_doubtful_words_on_request(chromium: Any, view: WebView) -> None:
    chances = (0.95, 0.7, 0.3)
    view.put(
        said(0, "", words=[CaptionWord(f" {chance}", chance) for chance in chances])
    )
    page = opened(chromium, view.address)
    page.wait_for_selector(".segment")
    assert page.evaluate(STYLE, [".doubtful", "textDecorationLine"]) == "none"
    page.keyboard.press("c")
    styles = [
        page.evaluate(STYLE, [f".segment .{name}", "textDecorationStyle"])
        for name in MARKED
    ]
    assert styles == ["dotted", "dashed"], (
        "not by colour alone, and not like a spelling checker"
    )
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert min(contrast(page, f".segment .{name}") for name in MARKED) >= 7.0
    page.close()


MARKED = ("unsure", "doubtful")


def test_page_translations_have_their_own_lines(chromium: Any, view: WebView) -> None:
    view.put(said(0, "Guten Abend.", language="de", translation="Good evening."))
    view.put(said(1, "Willkommen.", language="de", translation="Welcome."))
    view.put(said(2, "Danke!", language="de", translation="Thanks!"))
    page = opened(chromium, view.address, locale="en-GB")
    page.wait_for_selector(".segment >> nth=2")
    assert page.locator("#text").inner_text().split("\n") == [
        "Guten Abend.",
        "Good evening.",
        "Willkommen.",
        "Welcome.",
        "Danke!",
        "Thanks!",
    ]
    assert page.locator(".translation").first.get_attribute("lang") == "en"
    assert contrast(page, ".translation") >= 7.0
    page.close()


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize(
    "state",
    ["first", "microphone", "talk", "options", "control", "away", "overlay", "ended"],
)
def test_page_has_no_axe_violations(chromium: Any, state: str, scheme: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="requirements/e2e.txt"
    )
    with stage(browser=BrowserSource() if state == "microphone" else None) as view:
        if state not in ("first", "microphone"):
            view.put(
                saying(give(view, 4 * SENTENCES), "And now the joke", "that nobody")
            )
        if state == "away":
            view.put(
                Away(
                    start_s=9.0,
                    why="the microphone was unplugged",
                    heard_s=9.0,
                    at_s=9.0,
                )
            )
        place = view.address_to_control if state == "control" else view.address
        place += "?overlay=1" if state == "overlay" else ""
        page = opened(chromium, place, color_scheme=scheme, **STILL)
        page.wait_for_selector("#state:not([data-text=connecting])", state="attached")
        if state in ("options", "control"):
            page.keyboard.press("o")
        if state == "ended":
            view.close()
            page.wait_for_selector("#text [data-text=ended_here]")
        if state == "talk":
            for key in "cst":
                page.keyboard.press(key)
            page.mouse.move(300, 300)
            page.mouse.wheel(0, -500)
            page.wait_for_selector("#newest:visible")
        measures = axe.Axe().run(page)
        assert measures.violations_count == 0, measures.generate_report()
        assert len(measures.response["violations"]) == 0
        page.close()


def test_page_in_forced_colours_keeps_its_marks(chromium: Any, view: WebView) -> None:
    view.put(saying(give(view), "And now the joke", "that nobody"))
    page = opened(chromium, view.address, forced_colors="active")
    page.wait_for_selector("#running .tentative")
    assert (
        page.evaluate(STYLE, ["#running .tentative", "textDecorationLine"])
        == "underline"
    )
    view.put_audio(np.full(2000, 0.5, np.float32))
    page.wait_for_function(
        "() => document.querySelector('#level span').style.transform !== 'scaleX(0)'"
    )
    bar, ground = (
        page.evaluate(STYLE, [name, "backgroundColor"])
        for name in ("#level span", "body")
    )
    assert bar != ground
    page.close()
