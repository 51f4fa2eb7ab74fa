"""A page of captions follows the newest text: late pages, scrolled pages, restarted servers."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.browser import opened
from tests.e2e.serving import SENTENCES, give, said, saying, stage
from whisper_hailo.live.events import Lost, Marker
from whisper_hailo.serve.routes.captions.feeds import HISTORY
from whisper_hailo.serve.routes.captions.view import WebView

WIDE = {"width": 1920, "height": 1080}
SMOOTH = {"viewport": WIDE, "reduced_motion": "no-preference"}

IS_AT_END = """
() => {
  const log = document.getElementById("log");
  return log.scrollTop > 0 && log.scrollHeight - log.scrollTop - log.clientHeight < 1;
}
"""

IS_AT_A_LINE = """
() => {
  const log = document.getElementById("log");
  return log.scrollTop % parseFloat(getComputedStyle(log).lineHeight) < 1;
}
"""

NOTE_SCROLLS = """
const scrollTo = Element.prototype.scrollTo;
window.behaviours = new Set();
Element.prototype.scrollTo = function (options) {
  window.behaviours.add(options.behavior);
  return scrollTo.call(this, options);
};
"""

NOTE_REST = """
() => document.getElementById("log").addEventListener(
  "scrollend", () => document.documentElement.classList.add("rests"))
"""

NOTE_WAITS = """
window.waits = [];
const wait = window.setTimeout;
window.setTimeout = (then, ms, ...rest) => {
  if (then.name === "open") window.waits.push(ms);
  return wait(then, ms, ...rest);
};
"""


def wait_for_segment(page: Any, index: int) -> None:
    page.wait_for_selector(f".segment[data-segment='{index}']")


def read_paragraphs(page: Any) -> list[str]:
    """Return the text of each paragraph, without the time of day."""
    paragraphs = page.evaluate(
        "[...document.querySelectorAll('#text p')].map((paragraph) => [...paragraph.childNodes]"
        ".filter((node) => node.nodeName !== 'TIME').map((node) => node.textContent).join(''))"
    )
    return [" ".join(text.split()) for text in paragraphs]


def test_page_with_smooth_scrolling_follows(chromium: Any, view: WebView) -> None:
    """Smooth scrolling fires events as if a reader had scrolled."""
    first = opened(chromium, view.address, NOTE_SCROLLS, **SMOOTH)
    first.wait_for_selector("#state[data-kind=on]")
    begin = give(view, 3 * SENTENCES)
    late = opened(chromium, view.address, NOTE_SCROLLS, **SMOOTH)
    for index, text in enumerate(2 * SENTENCES, begin):
        view.put(saying(index, "", text))
        view.put(said(index, text))
        wait_for_segment(late, index)
    for page in (first, late):
        wait_for_segment(page, begin + len(2 * SENTENCES) - 1)
        page.wait_for_function(IS_AT_END)
        assert page.locator("#newest").is_hidden()
        assert "smooth" in page.evaluate("[...behaviours]")
        assert " ".join(read_paragraphs(page)) == " ".join(5 * SENTENCES)
        page.close()


def test_page_follows_after_a_scripted_scroll(chromium: Any, view: WebView) -> None:
    index = give(view, 3 * SENTENCES)
    page = opened(chromium, view.address, reduced_motion="reduce", viewport=WIDE)
    page.wait_for_function(IS_AT_END)
    page.evaluate(
        "document.getElementById('log').scrollTo({ top: 0, behavior: 'instant' })"
    )
    view.put(said(index, SENTENCES[0]))
    page.wait_for_function(IS_AT_END)
    assert page.locator("#newest").is_hidden()
    page.close()


@pytest.mark.parametrize("by", ["wheel", "key", "finger"])
def test_page_scrolled_back_stays_until_newest_is_pressed(
    chromium: Any, view: WebView, by: str
) -> None:
    index = give(view, 6 * SENTENCES)
    options = {
        "viewport": WIDE,
        "reduced_motion": "reduce",
        "has_touch": by == "finger",
    }
    page = opened(chromium, view.address, **options)
    page.wait_for_function(IS_AT_END)
    page.evaluate(NOTE_REST)
    scroll_back(page, by)
    page.wait_for_selector("#newest:visible")
    page.wait_for_selector("html.rests")  # a flick scrolls on by itself
    page.wait_for_function(IS_AT_A_LINE)
    view.put(said(index, SENTENCES[0]))
    wait_for_segment(page, index)
    assert page.locator("#newest").is_visible()
    assert not page.evaluate(IS_AT_END)
    page.get_by_role("button", name="Newest").click()
    page.wait_for_function(IS_AT_END)
    assert page.locator("#newest").is_hidden()
    assert page.evaluate("document.activeElement.id") == "log", "keys go on there"
    give(view, begin=index + 1)
    wait_for_segment(page, index + len(SENTENCES))
    page.wait_for_function(IS_AT_END)
    page.close()


def scroll_back(page: Any, by: str) -> None:
    if by == "wheel":
        page.mouse.move(900, 500)
        page.mouse.wheel(0, -400)
    elif by == "key":
        page.focus("#log")
        page.keyboard.press("PageUp")
    else:
        devtools = page.context.new_cdp_session(page)
        for y in (300, 340, 400, 500, 700):
            kind = "touchStart" if y == 300 else "touchMove"
            finger = {"type": kind, "touchPoints": [{"x": 900, "y": y}]}
            devtools.send("Input.dispatchTouchEvent", finger)
        devtools.send(
            "Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []}
        )


def test_page_scrolled_to_the_end_follows_again(chromium: Any, view: WebView) -> None:
    index = give(view, 6 * SENTENCES)
    page = opened(chromium, view.address, **SMOOTH)
    page.wait_for_function(IS_AT_END)
    scroll_back(page, "wheel")
    page.wait_for_selector("#newest:visible")
    page.mouse.wheel(0, 4000)
    page.wait_for_selector("#newest", state="hidden")
    give(view, begin=index)
    wait_for_segment(page, index + len(SENTENCES) - 1)
    page.wait_for_function(IS_AT_END)
    page.close()


def test_page_reconnects_after_a_restart_and_keeps_text(chromium: Any) -> None:
    with stage() as view:
        address = view.address
        port = int(view.address.rstrip("/").rpartition(":")[2])
        view.put(said(0, SENTENCES[0]))
        page = opened(chromium, address, NOTE_WAITS)
        wait_for_segment(page, 0)
        view.put(saying(1, "Tonight"))
        page.wait_for_selector("#running")
    page.wait_for_selector("#state[data-kind=ended]")
    assert page.locator("#running").count() == 0
    assert read_paragraphs(page) == [SENTENCES[0], "The captions have ended"]
    page.wait_for_function("() => waits.length >= 4")
    waits = page.evaluate("waits")
    assert all(after > 1.2 * before for before, after in pairwise(waits[:4]))
    assert page.get_by_role("status").inner_text().startswith("The captions have ended")
    with stage(port=port) as view:
        view.put(said(0, SENTENCES[2]))
        page.wait_for_selector("#state[data-kind=on]")
        page.wait_for_selector(".note + p .segment")
        assert read_paragraphs(page) == [
            SENTENCES[0],
            "The captions were restarted",
            SENTENCES[2],
        ]
    page.close()


def test_page_reconnected_gets_missed_captions_once(
    chromium: Any, view: WebView
) -> None:
    sockets: list[Any] = []

    def route_socket(route: Any) -> None:
        route.connect_to_server()
        sockets.append(route)

    page = chromium.new_page()
    page.route_web_socket(re.compile("/events"), route_socket)
    page.goto(view.address)
    index = give(view, SENTENCES[:3])
    view.put(Lost(start_s=12.0, end_s=14.5, heard_s=14.5, at_s=14.5))
    page.wait_for_selector(".note")
    page.evaluate(
        "new MutationObserver(() => document.documentElement.classList.add('away'))"
        ".observe(document.getElementById('state'), { attributeFilter: ['data-kind'] })"
    )
    sockets[-1].close()
    page.wait_for_selector("html.away")
    view.put(said(index, SENTENCES[3], 14.5))
    wait_for_segment(page, index)
    page.wait_for_selector("#state[data-kind=on]")
    assert read_paragraphs(page) == [
        " ".join(SENTENCES[:3]),
        "2.5 s of audio were lost",
        SENTENCES[3],
    ]
    assert len(sockets) == 2
    page.close()


def test_page_open_for_long_keeps_the_newest_segments(
    chromium: Any, view: WebView
) -> None:
    page = opened(chromium, view.address, viewport=WIDE, reduced_motion="reduce")
    page.wait_for_selector("#state[data-kind=on]")
    for begin in range(0, 1200, 60):  # no more than may wait for a page
        give(view, ["Some words."] * 60, begin)
        wait_for_segment(page, begin + 59)
    assert 900 < page.locator(".segment").count() <= 1000 + 60
    page.wait_for_function(IS_AT_END)
    last = page.locator(".segment").last.bounding_box()
    log = page.locator("#log").bounding_box()
    assert last["y"] + 2 * last["height"] > log["y"] + log["height"], (
        "no segment is below it"
    )
    page.close()


def test_page_marker_keeps_the_running_text(chromium: Any, view: WebView) -> None:
    page = opened(chromium, view.address, locale="en-GB")
    view.put(said(0, SENTENCES[0]))
    view.put(saying(1, "Tonight we"))
    page.wait_for_selector("#running")
    view.put(Marker(start_s=4.0, label="Question 3", heard_s=4.0, at_s=4.0))
    page.wait_for_selector(".note")
    assert read_paragraphs(page) == [SENTENCES[0], "Marked Question 3", "Tonight we"]
    view.put(said(1, SENTENCES[1]))
    wait_for_segment(page, 1)
    assert read_paragraphs(page) == [SENTENCES[0], "Marked Question 3", SENTENCES[1]]
    page.close()


def test_page_reports_captions_that_are_missing(chromium: Any, view: WebView) -> None:
    sockets: list[Any] = []

    def route_second_nowhere(route: Any) -> None:
        sockets.append(route)
        if len(sockets) != 2:
            route.connect_to_server()

    page = chromium.new_page()
    page.route_web_socket(re.compile("/events"), route_second_nowhere)
    page.goto(view.address)
    view.put(said(0, SENTENCES[0]))
    wait_for_segment(page, 0)
    sockets[0].close()
    while len(sockets) < 2:
        page.wait_for_timeout(20)
    give(view, ["Words."] * (HISTORY + 1), begin=1)
    sockets[1].close()
    wait_for_segment(page, HISTORY + 1)
    assert read_paragraphs(page)[:2] == [SENTENCES[0], "Captions are missing here"]
    page.close()


def test_page_replaces_a_dead_connection(chromium: Any, view: WebView) -> None:
    sockets: list[Any] = []

    def route_first_nowhere(route: Any) -> None:
        sockets.append(route)
        if len(sockets) > 1:
            route.connect_to_server()

    page = chromium.new_page()
    page.clock.install()
    page.route_web_socket(re.compile("/events"), route_first_nowhere)
    page.goto(view.address)
    while not sockets:
        page.wait_for_timeout(20)
    page.clock.run_for(29_000)
    assert len(sockets) == 1
    view.put(said(0, SENTENCES[0]))
    page.clock.run_for(3_000)
    wait_for_segment(page, 0)
    page.close()


def test_page_ignores_messages_of_unknown_kinds(chromium: Any, view: WebView) -> None:
    def send_unknown_first(route: Any) -> None:
        route.send(json.dumps({"event": "something new"}))
        route.connect_to_server()

    page = chromium.new_page()
    page.route_web_socket(re.compile("/events"), send_unknown_first)
    page.goto(view.address)
    view.put(said(0, SENTENCES[0]))
    wait_for_segment(page, 0)
    page.close()
