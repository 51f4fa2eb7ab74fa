"""What a page may not do or does not say rightly, and what it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.live.scripted import Loudness, quick
from tests.unit.serve.captions.room import TOKEN, InAnyLanguage, heard, room, until
from tests.unit.serve.captions.serving import PATIENCE_S, connect
from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.controls import Controls
from whisper_hailo.serve.routes.captions.view import Access


def letters(n: int, **message: Any) -> dict[str, Any]:
    """A message whose action makes it so long as JSON."""
    message |= {"type": "control", "action": ""}
    return {**message, "action": "x" * (n - len(json.dumps(message)))}


@pytest.mark.parametrize("token", ["", "short", "with blanks in it", "x" * 129, "größer-als"])
def test_a_token_that_could_be_guessed_or_does_not_fit_an_address_is_refused(token: str) -> None:
    with pytest.raises(OptionError, match="8 to 128") as refused:
        Access.of(token, "127.0.0.1")
    assert not token or f" {token} " not in f" {refused.value} ".replace("too short", "")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"action": "explode"}, "expected one of: pause, resume, language"),
        ({}, "action is 'None'"),
        (letters(4096, id=[1]), "action is 'xxx"),
        ({"action": "language"}, "language is None, expected a text"),
        ({"action": "marker", "label": "x" * 201}, "200 at most"),
        ({"action": "marker", "label": 7}, "expected a text"),
        ({"action": "settings"}, "settings is missing"),
        ({"action": "settings", "settings": {}}, "settings is missing or empty"),
        ({"action": "settings", "settings": [["settle_s", 1]]}, "expected an object of names"),
        ({"action": "settings", "settings": {"drafts": False}}, "cannot be changed"),
        ({"action": "settings", "settings": {"settle_s": "1"}}, "expected a number"),
        ({"action": "settings", "settings": {"language": 5}}, "expected a text"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(asked: dict[str, Any], told: str) -> None:
    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        page.send(json.dumps({"type": "control", "id": [1], **asked}))
        answer = until(page, "answer")
        assert (answer["ok"], answer["id"]) == (False, [1])
        assert told in answer["error"]
    assert here.events == []


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("hello", "1003"),
        ('{"type": "control", "action": "settings", "settings": {"settle_s": NaN}}', "1003"),
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
def test_what_is_not_understood_closes_the_socket(message: str | bytes, code: str) -> None:
    from websockets.exceptions import ConnectionClosed

    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        heard(page), heard(page)
        page.send(message)
        with pytest.raises(ConnectionClosed, match=code):
            page.recv(PATIENCE_S)


def test_when_the_stream_has_ended_that_is_the_answer() -> None:
    controls = Controls()
    waiting = controls.ask(lambda live: live.clear())
    controls.end()
    for answer in (waiting, controls.ask(lambda live: live.clear())):
        with pytest.raises(OptionError, match="the stream has ended"):
            answer.result(PATIENCE_S)


def test_who_asks_for_much_at_once_is_told_to_wait_and_who_left_is_forgotten() -> None:
    controls, captioner = Controls(), Captioner(InAnyLanguage(), Loudness(), quick())
    asked = [controls.ask(lambda live: live.mark("")) for _ in range(33)]
    asked[3].cancel()
    with pytest.raises(OptionError, match="32 others wait already"):
        asked[-1].result(PATIENCE_S)
    assert len(list(controls.process_commands(captioner.live_settings))) == 31
