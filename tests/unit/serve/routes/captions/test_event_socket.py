"""Commands of caption pages, and what is refused."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tests.fakes.page_server import (
    PATIENCE_S,
    TOKEN,
    ask,
    connect,
    heard,
    run_captions,
    until,
)
from tests.fakes.scripted_speech import silence, speech
from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.events import Away, Cleared, Completed, Marker, SettingsChanged
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.serve.routes.captions.access import Access


def test_event_socket_hello_has_version_and_rights() -> None:
    with (
        run_captions() as captions,
        connect(captions.view, f"events?token={TOKEN}") as page,
    ):
        hello = heard(page)
        snapshot = heard(page)
    assert hello["event"] == "hello"
    assert hello["protocol"] == 1
    assert hello["may"] == ["look", "control"]  # there is no microphone of a browser
    assert snapshot["settings"]["language"] == "en"
    assert snapshot["cleared"] == 0


def test_access_chosen_token_is_needed_for_everything() -> None:
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    with run_captions(browser=BrowserSource()) as captions:
        with connect(captions.view, "events") as stranger:
            assert heard(stranger)["may"] == []
            assert not ask(stranger, "clear")["ok"]
            stranger.send(json.dumps({"type": "token", "token": TOKEN}))
            assert heard(stranger)["may"] == ["look", "record", "control"]
            assert heard(stranger)["event"] == "snapshot"
        for wrong in (TOKEN[:-1], TOKEN + "x", "é"):
            with (
                connect(captions.view, f"events?token={wrong}") as page,
                pytest.raises(ConnectionClosed, match="1008"),
            ):
                page.recv()
            with (
                pytest.raises(InvalidStatus, match="403"),
                connect(captions.view, f"audio?token={wrong}"),
            ):
                pass
        with pytest.raises(InvalidStatus, match="403"), connect(captions.view, "audio"):
            pass
        with connect(captions.view, f"audio?token={TOKEN}") as microphone:
            assert microphone.recv() == "new"


def test_access_generated_token_gives_control() -> None:
    with run_captions(token=None, browser=BrowserSource()) as captions:
        with connect(captions.view, "events") as page:
            assert heard(page)["may"] == ["look", "record"]
            refused = ask(page, "pause")
            assert not refused["ok"]
            assert "token" in refused["error"]
            _, _, query = captions.view.address_to_control.partition("?")
            token = query.removeprefix("token=")
            page.send(json.dumps({"type": "token", "token": token}))
            assert until(page, "hello")["may"] == ["look", "record", "control"]
        with connect(captions.view, f"events?{query}") as page:
            assert heard(page)["may"] == ["look", "record", "control"]


@pytest.mark.parametrize(
    ("host", "free"),
    [
        ("localhost", True),
        ("::1", True),
        ("127.0.0.9", True),
        ("0.0.0.0", False),  # noqa: S104 - who may ask is what is tested
        ("192.168.1.7", False),
        ("::", False),
        ("captions.local", False),
    ],
)
def test_access_by_host_gives_public_rights(host: str, *, free: bool) -> None:
    access = Access(None, host)
    assert access.rights_of(None) == (("look", "record") if free else ("look",))
    assert access.rights_of(access.token) == ("look", "record", "control")
    assert access.rights_of("guessed") is None
    assert Access(None, host).token != access.token
    assert access.is_generated
    given = Access(TOKEN, host)
    assert given.token == TOKEN
    assert given.rights_of(None) == ()
    assert not given.is_generated


def test_pause_command_drops_audio_until_resume() -> None:
    with (
        run_captions() as captions,
        connect(captions.view, f"events?token={TOKEN}") as page,
    ):
        captions.source.say(np.concatenate([speech([0, 1]), silence(0.3)]))
        assert ask(page, "pause")["ok"]
        assert ask(page, "pause")["ok"], "once more changes nothing"
        until(page, "away")
        captions.source.say(np.concatenate([speech([20, 21]), silence(0.3)]))
        with connect(captions.view, f"events?token={TOKEN}") as late:
            heard(late)
            assert heard(late)["away"]["paused"] is True
        assert ask(page, "resume")["ok"]
        back = until(page, "back")
        captions.source.say(np.concatenate([speech([2, 3]), silence(0.3)]))
    texts = [event.text for event in captions.events if isinstance(event, Completed)]
    assert texts == ["w0 w1", "w2 w3"]
    (away,) = [event for event in captions.events if isinstance(event, Away)]
    assert away.paused
    assert away.why == "paused"
    assert back["paused"] is True
    said_s = speech([20, 21]).size / 16_000 + 0.3
    assert back["end_s"] - back["start_s"] == pytest.approx(said_s, abs=0.04)


def test_commands_reach_all_pages() -> None:
    with ExitStack() as stack:
        captions = stack.enter_context(run_captions())
        pages = [
            stack.enter_context(connect(captions.view, f"events?token={TOKEN}"))
            for _ in range(2)
        ]
        captions.source.say(np.concatenate([speech([0]), silence(0.3)]))
        assert ask(pages[0], "marker", label="Question 1")["ok"]
        assert ask(pages[0], "language", language="de")["ok"]
        marker = until(pages[1], "marker")
        settings = until(pages[1], "settings")
        assert marker["label"] == "Question 1"
        assert settings["settings"] == {"language": "de"}
        with connect(captions.view, f"events?token={TOKEN}") as late:
            heard(late)
            snapshot = heard(late)
            assert [event["event"] for event in snapshot["completed"]] == [
                "completed",
                "marker",
            ]
            assert snapshot["settings"] == settings["settings"]
        assert ask(pages[0], "clear")["ok"]
        until(pages[1], "cleared")
        with connect(captions.view, f"events?token={TOKEN}") as late:
            heard(late)
            snapshot = heard(late)
        assert snapshot["completed"] == []
        assert snapshot["cleared"] == 1
        for asked, label in (({}, ""), ({"label": "x" * 200}, "x" * 200)):
            assert ask(pages[0], "marker", **asked)["ok"]
            assert until(pages[1], "marker")["label"] == label
    kinds = [
        type(event)
        for event in captions.events
        if isinstance(event, Marker | Cleared | SettingsChanged)
    ]
    assert kinds == [Marker, SettingsChanged, Cleared, Marker, Marker]


def test_language_command_applies_to_next_segment() -> None:
    with (
        run_captions() as captions,
        connect(captions.view, f"events?token={TOKEN}") as page,
    ):
        captions.source.say(speech([0]))
        with connect(captions.view, f"events?token={TOKEN}") as other:
            heard(other)
            assert ask(page, "language", language="de")["ok"]
            assert until(other, "settings")["settings"]["language"] == "de"
        captions.source.say(np.concatenate([silence(0.3), speech([1]), silence(0.3)]))
        refused = ask(page, "language", language="tlh")
    assert not refused["ok"]
    assert refused["error"] == "there is no such language"
    languages = [
        event.language for event in captions.events if isinstance(event, Completed)
    ]
    assert languages == ["en", "de"]


def letters(n: int, **message: Any) -> dict[str, Any]:
    """Return a message of `n` characters of JSON."""
    message |= {"type": "control", "action": ""}
    n_letters = n - len(json.dumps(message))
    return {**message, "action": "".ljust(n_letters, "x")}


@pytest.mark.parametrize(
    "token", ["", "short", "with blanks in it", "x" * 129, "größer-als"]
)
def test_access_unfit_token_raises(token: str) -> None:
    with pytest.raises(OptionError, match="8 to 128") as refused:
        Access(token, "127.0.0.1")
    assert not token or f" {token} " not in f" {refused.value} ".replace(
        "too short", ""
    )


@pytest.mark.parametrize(
    ("command", "datum"),
    [
        ({"action": "explode"}, "pause, resume, language"),
        ({}, "action is 'None'"),
        (letters(4096, id=[1]), "action is 'xxx"),
        ({"action": "language"}, "language is None"),
        ({"action": "marker", "label": "x" * 201}, "200 characters"),
        ({"action": "marker", "label": 7}, "label"),
        ({"action": "settings", "settings": {"settle_s": 1}}, "action is 'settings'"),
    ],
)
def test_command_invalid_is_answered_with_an_error(
    command: dict[str, Any], datum: str
) -> None:
    with (
        run_captions() as captions,
        connect(captions.view, f"events?token={TOKEN}") as page,
    ):
        page.send(json.dumps({"type": "control", "id": [1], **command}))
        answer = until(page, "answer")
        assert answer["ok"] is False
        assert answer["id"] == [1]
        assert datum in answer["error"]
    assert captions.events == []


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("hello", "1003"),
        (
            '{"type": "control", "action": "settings", "settings": {"settle_s": NaN}}',
            "1003",
        ),
        ('{"type": "control"', "1003"),
        ('["control"]', "1003"),
        ('{"type": "caption"}', "1003"),
        ('{"token": "sesame-open-now"}', "1003"),
        (b"{}", "1003"),
        ('{"type": "token", "token": "guessed-wrong"}', "1008"),
        ('{"type": "token"}', "1008"),
        (json.dumps(letters(4097)), "1009"),
    ],
)
def test_event_socket_invalid_message_closes_it(
    message: str | bytes, code: str
) -> None:
    from websockets.exceptions import ConnectionClosed

    with (
        run_captions() as captions,
        connect(captions.view, f"events?token={TOKEN}") as page,
    ):
        heard(page), heard(page)
        page.send(message)
        with pytest.raises(ConnectionClosed, match=code):
            page.recv(PATIENCE_S)
