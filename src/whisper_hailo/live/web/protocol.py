"""What is said at the socket of events, beside the events: docs/captions.md has every message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.version import __version__
from whisper_hailo.live.captioning.controls import Controls, Wish
from whisper_hailo.live.web.access import Right
from whisper_hailo.live.web.broadcast import Message

PROTOCOL: Final = 1
"""Counts up when something is said otherwise; what is only added leaves it as it is."""

MOST_LETTERS: Final = 4096
"""Of what a page says."""

_LONGEST_LABEL: Final = 200


def hello(may: Sequence[Right]) -> Message:
    """What comes first, and again when a token was understood."""
    return {"event": "hello", "protocol": PROTOCOL, "version": __version__, "may": list(may)}


def answer(asked: Mapping[str, Any], error: str = "") -> Message:
    """What became of something that was asked for."""
    said = {"event": "answer", "id": asked.get("id"), "action": asked.get("action")}
    return {**said, "ok": False, "error": error} if error else {**said, "ok": True}


def understood(text: str) -> Mapping[str, Any]:
    """A message of a page.

    Raises:
        ValueError: it is none.
    """
    message = json.loads(text)
    if not isinstance(message, dict) or message.get("type") not in ("token", "control"):
        raise ValueError("neither a token nor a control")
    return message


async def obey(asked: Mapping[str, Any], controls: Controls) -> None:
    """Do what is asked for, and wait until it is done.

    Raises:
        OptionError: it cannot be done.
    """
    action = str(asked.get("action"))
    if action in ("pause", "resume"):
        controls.pause(action == "pause")
    elif action in _WISHES:
        await controls.asked(_WISHES[action](asked))
    else:
        known = ", ".join(("pause", "resume", *_WISHES))
        raise OptionError(f"action is {action!r}, expected one of: {known}")


def _language(asked: Mapping[str, Any]) -> Wish:
    language = _text(asked, "language")
    return lambda console: console.change({"language": language})


def _settings(asked: Mapping[str, Any]) -> Wish:
    settings = asked.get("settings")
    if not isinstance(settings, dict) or not settings:
        raise OptionError("settings is missing or empty, expected an object of names and values")
    if "language" in settings:
        _text(settings, "language")
    return lambda console: console.change(settings)


def _marker(asked: Mapping[str, Any]) -> Wish:
    label = _text(asked, "label") if "label" in asked else ""
    if len(label) > _LONGEST_LABEL:
        raise OptionError(f"label has {len(label)} letters, expected {_LONGEST_LABEL} at most")
    return lambda console: console.mark(label)


def _clear(_asked: Mapping[str, Any]) -> Wish:
    return lambda console: console.clear()


_WISHES: Final[dict[str, Callable[[Mapping[str, Any]], Wish]]] = {
    "language": _language,
    "settings": _settings,
    "marker": _marker,
    "clear": _clear,
}


def _text(asked: Mapping[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str):
        raise OptionError(f"{name} is {value!r}, expected a text")
    return value
