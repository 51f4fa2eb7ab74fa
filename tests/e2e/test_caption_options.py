"""What a reader can set, take away and press on a page of captions, and who may frame it."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.browser import WAIT_MS, opened
from tests.e2e.talk import SENTENCES, give, said, saying, stage
from whisper_hailo.live.events import Away, CaptionWord
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.serve.routes.captions.view import WebView

SIZE = "() => parseFloat(getComputedStyle(document.getElementById('log')).fontSize)"

NOTE_LOCKS = """
window.locks = [];
const ask = navigator.wakeLock.request.bind(navigator.wakeLock);
navigator.wakeLock.request = async (kind) => {
  const lock = await ask(kind);
  window.locks.push(lock);
  return lock;
};
"""

EVIL = '$& <img src="x" onerror="document.title=1"><script>document.title = 2</script>'


def test_first_screen_says_what_to_press_until_somebody_speaks(chromium: Any) -> None:
    for source, first in (
        (None, "Captions appear here as soon as somebody speaks."),
        (BrowserSource(), "Press Microphone and speak"),
    ):
        with stage(browser=source) as view:
            page = opened(chromium, view.address)
            page.wait_for_selector("#state:not([data-text=connecting])")
            assert page.locator("#first p:visible").first.inner_text().startswith(first)
            assert page.get_by_role("button", name="Microphone").count() == (
                source is not None
            )
            state = "Listening" if source is None else "No microphone is active"
            assert page.get_by_role("status").inner_text() == state
            view.put(saying(0, "Good"))
            page.wait_for_selector("#first", state="hidden")
            page.close()


def test_size_colours_and_language_are_remembered(chromium: Any, view: WebView) -> None:
    give(view)
    context = chromium.new_context(locale="en-GB", color_scheme="light")
    page = opened(context, view.address)
    page.wait_for_selector(".segment")
    usual = page.evaluate(SIZE)
    page.get_by_role("button", name="Larger").click()
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Colours").select_option("dark")
    page.get_by_label("Show the time at each paragraph").check()
    page.get_by_label("Page language").select_option("de")
    page.get_by_role("button", name="Schließen").click()
    _is_as_it_was_set(page, usual)
    page.reload()
    page.wait_for_selector(".segment")
    _is_as_it_was_set(page, usual)
    context.close()


def _is_as_it_was_set(page: Any, usual: float) -> None:
    assert page.evaluate(SIZE) > usual
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(0, 0, 0)"
    assert page.locator("time").first.inner_text() == "20:00"
    assert page.evaluate("() => document.documentElement.lang") == "de"
    assert page.title() == "Live-Untertitel"
    assert page.get_by_role("status").inner_text() == "Hört zu"
    assert page.get_by_role("log", name="Untertitel").is_visible()


def test_wrong_memory_of_a_browser_does_no_harm(chromium: Any, view: WebView) -> None:
    give(view)
    for script in (
        'localStorage.setItem(\'whisper-hailo captions\', \'{"scale": "x", "times": true}\')',
        "localStorage.setItem('whisper-hailo captions', '[')",
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })",
    ):
        page = opened(chromium, view.address, script)
        page.wait_for_selector(".segment")
        before = page.evaluate(SIZE)
        page.keyboard.press("+")
        assert page.evaluate(SIZE) > before
        page.close()


def test_page_says_everything_in_each_of_its_languages(
    chromium: Any, view: WebView
) -> None:
    page = opened(chromium, view.address)
    texts = page.evaluate("async () => (await import('/texts.js')).TEXTS")
    assert len(texts) == 10
    for translated in texts.values():
        assert translated.keys() == texts["en"].keys()
        for key, english in texts["en"].items():
            assert translated[key].count("{}") == english.count("{}"), key
    used = page.evaluate(
        "() => [...document.querySelectorAll('[data-text], [data-label]')]"
        ".map((element) => element.dataset.text ?? element.dataset.label)"
    )
    assert set(used) <= texts["en"].keys()
    page.close()


def test_text_is_in_the_language_that_was_spoken(chromium: Any, view: WebView) -> None:
    view.put(said(0, "Guten Abend und willkommen.", language="de"))
    view.put(saying(1, "Good evening"))
    page = opened(chromium, view.address, locale="de-AT")
    page.wait_for_selector("#running")
    assert page.locator(".segment").get_attribute("lang") == "de"
    assert page.locator("#running").get_attribute("lang") == "en"
    assert page.evaluate("() => document.documentElement.lang") == "de"
    page.close()


def test_captions_are_text_and_nothing_else(chromium: Any, view: WebView) -> None:
    page = opened(chromium, view.address)
    view.put(said(0, EVIL, language='en"><script>'))
    view.put(saying(1, EVIL, EVIL))
    view.put(Away(start_s=9.0, why=EVIL, heard_s=9.0, at_s=9.0))
    page.wait_for_selector("#state[data-kind=lost]")
    assert page.locator(".segment").inner_text() == EVIL
    assert page.locator("#running").inner_text() == f"{EVIL} {EVIL}"
    assert page.get_by_role("status").inner_text() == f"No sound: {EVIL}"
    assert page.locator("main img, main script, header img").count() == 0
    assert page.title() == "Live captions"
    page.close()


def test_what_was_said_is_saved_as_text_and_subtitles(
    chromium: Any, view: WebView, tmp_path: Path
) -> None:
    view.put(said(0, SENTENCES[0]))
    view.put(
        said(1, "Is 1 < 2 & 3?", words=[CaptionWord(f" {word}") for word in EQUATION])
    )
    page = opened(chromium, view.address, timezone_id="UTC")
    page.wait_for_selector(".segment >> nth=1")
    page.keyboard.press("o")
    saved = {kind: _saved(page, kind, tmp_path) for kind in ("txt", "srt", "vtt")}
    assert saved["txt"] == f"{SENTENCES[0]}\nIs 1 < 2 & 3?\n"
    cues = saved["srt"].strip().split("\n\n")
    assert [cue.split("\n")[0] for cue in cues] == ["1", "2", "3"]
    assert [cue.split("\n")[1] for cue in cues] == [
        "00:00:00,000 --> 00:00:03,000",
        "00:00:03,000 --> 00:00:05,000",
        "00:00:04,000 --> 00:00:08,000",
    ]
    lines = [line for cue in cues for line in cue.split("\n")[2:]]
    assert " ".join(lines) == f"{SENTENCES[0]} Is 1 < 2 & 3?"
    assert max(map(len, lines)) <= 42
    assert max(len(cue.split("\n")) for cue in cues) == 4
    assert cues[0].endswith("room,"), "a cue ends with its clause"
    assert saved["vtt"].startswith("WEBVTT\n\n00:00:00.000 --> 00:00:03.000\n")
    assert saved["vtt"].endswith("\nIs 1 &lt; 2 &amp; 3?\n\n")
    page.close()


EQUATION = ("Is", "1", "<", "2", "&", "3?")


def _saved(page: Any, kind: str, folder: Path) -> str:
    with page.expect_download() as told:
        page.get_by_role("button", name=kind).click()
    download = told.value
    assert re.fullmatch(
        rf"captions-\d{{4}}-\d\d-\d\d-\d{{4}}\.{kind}", download.suggested_filename
    )
    download.save_as(folder / kind)
    return (folder / kind).read_bytes().decode()


@pytest.mark.parametrize("clipboard", ["the browser's", "that of what is marked"])
def test_what_was_said_is_copied(chromium: Any, view: WebView, clipboard: str) -> None:
    give(view, SENTENCES[:2])
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    taken = "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
    page = opened(context, view.address, "" if clipboard == "the browser's" else taken)
    page.wait_for_selector(".segment >> nth=1")
    page.keyboard.press("t")
    page.keyboard.press("o")
    page.get_by_role("button", name="Copy").click()
    page.wait_for_selector("#state[data-text=copied]")
    reader = opened(context, view.address)
    copied = reader.evaluate("() => navigator.clipboard.readText()").splitlines()
    assert [
        line[-len(text) :] for line, text in zip(copied, SENTENCES, strict=False)
    ] == [*SENTENCES[:2]]
    assert all(re.match(r"\d+:00:0[04]", line) for line in copied)
    context.close()


def test_keyboard_shortcuts_can_be_turned_off(chromium: Any, view: WebView) -> None:
    page = opened(chromium, view.address)
    page.keyboard.press("o")
    page.keyboard.press("+")
    before = page.evaluate(SIZE)
    page.get_by_label("Keyboard shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    page.keyboard.press("+")
    assert page.evaluate(SIZE) == before
    page.close()


def test_on_the_whole_screen_controls_come_and_go(chromium: Any, view: WebView) -> None:
    give(view)
    page = chromium.new_page()
    page.clock.install()
    page.goto(view.address)
    page.wait_for_selector(".segment")
    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function(
        "() => document.fullscreenElement === document.documentElement"
    )
    page.evaluate("() => document.activeElement.blur()")
    page.clock.run_for(3_100)
    page.wait_for_selector("header", state="hidden")
    page.mouse.move(200, 200)
    page.wait_for_selector("header", state="visible")
    page.clock.run_for(3_100)
    page.wait_for_selector("header", state="hidden")
    view.put(
        Away(start_s=9.0, why="the microphone was unplugged", heard_s=9.0, at_s=9.0)
    )
    page.wait_for_selector("header", state="visible")
    page.close()


def test_screen_is_kept_on_and_asked_for_again(chromium: Any, view: WebView) -> None:
    page = opened(chromium, view.address, NOTE_LOCKS)
    page.wait_for_function("() => locks.length === 1")
    page.evaluate("() => locks[0].release()")
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function("() => locks.length === 2")
    page.keyboard.press("o")
    page.get_by_label("Keep the screen on").uncheck()
    page.wait_for_function("() => locks[1].released")
    page.close()


@contextmanager
def framing(page_of_captions: str, folder: Path) -> Iterator[str]:
    """Origin of another server, whose page shows that of captions in a frame."""
    text = f'<!doctype html><title>Dashboard</title><iframe src="{page_of_captions}"></iframe>'
    (folder / "index.html").write_text(text, encoding="utf-8")
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(folder)
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("may", [True, False])
def test_page_is_framed_by_those_who_may(
    chromium: Any, tmp_path: Path, may: bool
) -> None:
    with stage() as first:
        port = int(first.address.rstrip("/").rpartition(":")[2])
    with framing(f"http://127.0.0.1:{port}/", tmp_path) as origin:
        allowed = origin if may else "http://homeassistant.local:8123"
        with stage(port=port, framed_by=(allowed,)) as view:
            view.put(said(0, SENTENCES[0]))
            page = chromium.new_page()
            page.set_default_timeout(WAIT_MS)
            if may:
                page.goto(origin)
                page.frame_locator("iframe").locator(".segment").wait_for()
            else:
                refused = f"frame-ancestors {allowed}"
                with page.expect_console_message(lambda told: refused in told.text):
                    page.goto(origin)
                assert page.frame_locator("iframe").locator("#log").count() == 0
            page.close()
