"""The page of `serve` in a real browser: recordings dropped, segments seen, files kept."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.e2e.browser import WAIT_MS, browser, contrast, opened
from tests.e2e.conftest import DEMO, DEMO_TEXT, Command
from tests.e2e.serving import serve
from tests.e2e.two_speakers import MODELS, needs_models, write_talk
from whisper_hailo_lab.clip_archives import unpack_clips

pytest.importorskip("fastapi", reason="the server extra is not installed")

LONG = sorted((unpack_clips() / "long").glob("*.ogg"))[0]
KEY = "a key of this test"
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1366, "height": 768}
DONE = "article .files:not([hidden])"
FORMATS = {"Text": "txt", "SubRip": "srt", "WebVTT": "vtt", "JSON": "json"}


COUNT_BEFORE_THE_END = """
() => {
  window.seen = 0;
  new MutationObserver(() => {
    if (document.querySelector("article .files[hidden]"))
      window.seen = document.querySelectorAll("article li").length;
  }).observe(document.getElementById("results"), { childList: true, subtree: true });
}
"""
"""Counts the segments shown before the files are offered."""

TELL_WHEN_ASKED = """
() => {
  const files = document.getElementById("files");
  files.addEventListener("click", (event) => {
    event.preventDefault();
    document.documentElement.dataset.asked = event.isTrusted;
  }, { once: true });
}
"""
"""Replaces the system's dialog, which a driver may miss, by a mark of the keyboard's click."""

NINE_SECONDS = """
() => {
  const [minutes, seconds] = document.getElementById("recording").textContent.split(":");
  return 60 * minutes + Number(seconds) >= 9;
}
"""
"""Nine seconds or more were recorded: a page that is polled rarely skips seconds."""


FOCUSED_TIME_IS = """
(index) => document.activeElement === [...document.querySelectorAll("li button")].at(index)
"""


@pytest.fixture(scope="module")
def address(environment: dict[str, str]) -> Iterator[str]:
    """Address of the page."""
    with serve(environment, "--http", "127.0.0.1:0") as served:
        yield served.wait_for(r"serving at (http\S+)")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser with a microphone that plays the demo and needs no permission."""
    recording = tmp_path_factory.mktemp("microphone") / "said.wav"
    samples, rate_hz = soundfile.read(DEMO)
    soundfile.write(recording, samples, rate_hz)
    flags = (
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={recording}",
    )
    with browser(*flags) as opened_browser:
        yield opened_browser


def open_page(chromium: Any, address: str, **options: Any) -> Any:
    """Open the page and wait until it has the server's settings."""
    page = opened(chromium, address, **options)
    page.wait_for_selector("html[data-ready]")
    return page


def assert_accessible(page: Any) -> None:
    """Fail if axe-core finds a violation on the page as it is now."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="requirements/e2e.txt"
    )
    measures = axe.Axe().run(page)
    assert measures.response["passes"], "axe has found something to check"
    assert measures.violations_count == 0, measures.generate_report()


def save_picture(page: Any, name: str) -> None:
    """Save a screenshot if `PAGE_PICTURES` names a folder."""
    if folder := os.environ.get("PAGE_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_serve_page_shows_segments_and_saves_files(
    address: str, chromium: Any, whisper_hailo: Command, tmp_path: Path
) -> None:
    page = open_page(chromium, address, viewport=DESKTOP)
    foreign: list[str] = []
    page.on("request", lambda sent: foreign.append(sent.url))
    save_picture(page, "empty")
    page.evaluate(COUNT_BEFORE_THE_END)
    page.get_by_label("Choose recordings").set_input_files(LONG)
    page.wait_for_selector(DONE)
    assert page.evaluate("window.seen") > 1, "segments come before the end"
    save_picture(page, "done")
    whisper_hailo(
        "transcribe", "--model", "micro", "--threads", "1", "-l", "auto", "--timestamps",
        "-f", "all", "-o", tmp_path, LONG,
    )  # fmt: skip
    for label, ending in FORMATS.items():
        with page.expect_download() as download:
            page.get_by_role("button", name=label, exact=True).click()
        kept = Path(download.value.path())
        written = tmp_path / f"{LONG.stem}.{ending}"
        assert download.value.suggested_filename == written.name
        if ending == "json":
            texts = [
                [
                    segment["text"]
                    for segment in json.loads(path.read_text())["segments"]
                ]
                for path in (kept, written)
            ]
            assert texts[0] == texts[1]
        else:
            assert kept.read_text() == written.read_text()
    assert all(url.startswith((address, "blob:", "data:")) for url in foreign)
    page.close()


def test_serve_page_marks_the_played_line_and_word(address: str, chromium: Any) -> None:
    page = open_page(chromium, address, viewport=DESKTOP)
    page.get_by_label("Choose recordings").set_input_files(DEMO)
    page.wait_for_selector(DONE)
    page.wait_for_selector("audio:not([hidden])")
    page.evaluate("document.querySelector('audio').muted = true")
    last = page.locator("li").last
    last.click()
    page.wait_for_selector("li:last-child[aria-current]")
    page.wait_for_function(
        """() => {
          const [range] = CSS.highlights.get("word");
          const text = document.querySelector("li:last-child span").textContent;
          return range && text.split(/\\s+/).includes(range.toString());
        }"""
    )
    assert page.locator("li[aria-current]").count() == 1
    page.locator("[data-action=remove]").click()
    assert page.evaluate("CSS.highlights.get('word').size") == 0
    page.close()


def test_serve_page_dropped_files_can_be_stopped(address: str, chromium: Any) -> None:
    page = open_page(chromium, address, viewport=DESKTOP)
    page.evaluate(
        """async ([demo]) => {
          const data = new DataTransfer();
          const bytes = Uint8Array.from(atob(demo), (c) => c.charCodeAt(0));
          for (const name of ["first.flac", "second.flac", "third.flac"])
            data.items.add(new File([name === "second.flac" ? "no sound" : bytes], name));
          document.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
          document.querySelector("[aria-label='third.flac'] [data-action=stop]").click();
        }""",
        [base64.b64encode(DEMO.read_bytes()).decode()],
    )
    page.wait_for_selector("[aria-label='first.flac'] .files:not([hidden])")
    page.wait_for_selector("[aria-label='third.flac'] [data-action=remove]")
    states = {
        name: page.locator(f"[aria-label='{name}.flac'] .state").inner_text()
        for name in ("first", "second", "third")
    }
    assert re.fullmatch(r"0:1\d, English( \(\d+ % sure\))?", states["first"])
    assert "second.flac" in states["second"]
    assert states["third"] == "Stopped"
    text = " ".join(page.locator("[aria-label='first.flac'] li span").all_inner_texts())
    assert text == DEMO_TEXT
    assert contrast(page, ".state.wrong") >= 7.0
    page.locator("[aria-label='third.flac']").get_by_role(
        "button", name="Remove"
    ).click()
    assert page.locator("article").count() == 2
    page.close()


def test_serve_page_transcribes_the_microphone(address: str, chromium: Any) -> None:
    page = open_page(chromium, address, viewport=PHONE)
    button = page.get_by_role("button", name=re.compile("Record$"))
    button.click()
    page.wait_for_selector("#record[aria-pressed=true]")
    page.wait_for_function(NINE_SECONDS)
    save_picture(page, "recording")
    assert contrast(page, "#record", "#record") >= 7.0, (
        "pressed, and the pointer still on it"
    )
    button.click()
    page.wait_for_selector(DONE)
    save_picture(page, "recorded")
    recognized_words = set(
        re.findall(r"\w+", page.locator("article ol").inner_text().lower())
    )
    spoken_words = set(re.findall(r"\w+", DEMO_TEXT.lower()))
    assert len(recognized_words & spoken_words) >= len(spoken_words) // 3
    assert button.get_attribute("aria-pressed") == "false"
    page.close()


def test_serve_page_asks_for_the_api_key(
    environment: dict[str, str], chromium: Any
) -> None:
    with serve(environment, "--http", "127.0.0.1:0", "--api-key", KEY) as served:
        page = open_page(chromium, served.wait_for(r"serving at (http\S+)"))
        page.get_by_label("Choose recordings").set_input_files(DEMO)
        page.wait_for_selector(".state.wrong")
        assert "API key" in page.locator(".state").inner_text()
        assert page.evaluate("document.activeElement.id") == "key"
        page.keyboard.type(KEY)
        page.get_by_label("Choose recordings").set_input_files(DEMO)
        page.wait_for_selector(DONE)
        page.close()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_serve_page_fits_screens_and_is_readable(
    address: str, chromium: Any, size: dict[str, int], scheme: str
) -> None:
    page = open_page(chromium, address, viewport=size, color_scheme=scheme)
    page.get_by_label("Choose recordings").set_input_files(DEMO)
    page.wait_for_selector(DONE)
    save_picture(page, f"{size['width']}-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    for selector in (
        "h1",
        "#model",
        "#drop span",
        "li span",
        "time",
        ".state",
        "a[href=docs]",
    ):
        assert contrast(page, selector) >= 7.0, selector
    small = page.evaluate(
        """[...document.querySelectorAll("button, select, body > header a")]
          .filter((one) => !one.closest("li"))
          .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44)
          .map((one) => one.outerHTML)"""
    )
    assert small == []
    page.close()


def test_serve_page_can_be_used_by_keyboard(address: str, chromium: Any) -> None:
    page = open_page(chromium, address, viewport=DESKTOP)
    focused = []
    for _ in range(6):
        page.keyboard.press("Tab")
        focused.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.textContent"
            )
        )
    assert focused == [
        "Skip to the transcripts",
        "API",
        "files",
        "record",
        "language",
        "task",
    ]
    page.evaluate(TELL_WHEN_ASKED)
    page.locator("#files").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-asked=true]")
    page.locator("#files").set_input_files(DEMO)
    page.wait_for_selector(DONE)
    page.wait_for_selector("audio:not([hidden])")
    first_time = page.locator("li time").first.text_content()
    page.locator("#task").focus()
    for name in ("Remove", first_time, "Copy text", *FORMATS):
        page.keyboard.press("Tab")
        # A player has several stops.
        while page.evaluate("document.activeElement.tagName") == "AUDIO":
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == name
    page.locator("[data-action=remove]").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"
    page.close()


def test_serve_page_plays_a_line_by_keyboard(address: str, chromium: Any) -> None:
    page = open_page(chromium, address, viewport=DESKTOP)
    page.get_by_label("Choose recordings").set_input_files(DEMO)
    page.wait_for_selector(DONE)
    page.wait_for_selector("audio:not([hidden])")
    page.evaluate("document.querySelector('audio').muted = true")
    page.locator("li button").first.focus()
    for key, index in (("End", -1), ("Home", 0), ("ArrowDown", 1)):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED_TIME_IS, index), key
    page.keyboard.press("Enter")
    page.wait_for_selector("li:nth-child(2)[aria-current]")
    page.close()


@needs_models
def test_serve_page_shows_and_saves_speakers(
    environment: dict[str, str], chromium: Any, tmp_path: Path
) -> None:
    with serve(
        environment, "--http", "127.0.0.1:0", "--speaker-models", MODELS
    ) as served:
        page = open_page(chromium, served.wait_for(r"serving at (http\S+)"))
        page.get_by_label("Speakers").select_option("2")
        page.get_by_label("Names, in order").fill("President,Oliver")
        page.get_by_label("Choose recordings").set_input_files(
            write_talk(tmp_path / "talk.wav")
        )
        page.wait_for_selector(DONE)
        save_picture(page, "speakers")
        names = page.locator("li strong").all_inner_texts()
        assert names[:2] == ["President", "Oliver"]
        assert set(names) == {"President", "Oliver"}
        with page.expect_download() as download:
            page.get_by_role("button", name="WebVTT").click()
        assert "<v Oliver>" in Path(download.value.path()).read_text()
        assert_accessible(page)
        page.close()


def test_serve_page_offers_speakers_only_with_models(
    address: str, chromium: Any
) -> None:
    page = open_page(chromium, address)
    assert not page.get_by_label("Speakers").is_visible()
    page.close()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_serve_page_has_no_axe_violations(
    address: str, chromium: Any, size: dict[str, int], scheme: str, tmp_path: Path
) -> None:
    page = open_page(chromium, address, viewport=size, color_scheme=scheme)
    assert_accessible(page)
    unreadable = tmp_path / "notes.txt"
    unreadable.write_text("no sound", encoding="utf-8")
    page.get_by_label("Choose recordings").set_input_files([DEMO, unreadable])
    page.wait_for_selector("article .progress:not([hidden])")
    assert_accessible(page)
    page.wait_for_selector(DONE)
    page.wait_for_selector(".state.wrong")
    page.wait_for_selector("audio:not([hidden])")
    page.evaluate("document.querySelector('article audio').muted = true")
    page.locator("article li:last-child").last.click()
    page.wait_for_selector("li:last-child[aria-current]")
    assert_accessible(page)
    page.close()


def test_serve_page_policy_blocks_foreign_scripts(address: str, chromium: Any) -> None:
    page = chromium.new_page()
    page.set_default_timeout(WAIT_MS)
    policy = page.goto(address).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "document.title = 'foreign'";
          document.body.append(script);
        }"""
    )
    assert page.title() == "Transcribe"
    page.close()
