"""The socket of events: what is said there beside captions; docs/captions.md has every message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import parse_json_object
from whisper_hailo.core.version import __version__
from whisper_hailo.live.controls import Command, Controls
from whisper_hailo.serve.routes.captions.access import Access, Right
from whisper_hailo.serve.routes.captions.broadcast import STILL, Broadcast, Message

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


def parse_message(text: str) -> Mapping[str, Any]:
    """A message of a page.

    Raises:
        ValueError: it is none.
    """
    message = parse_json_object(text.encode(errors="surrogatepass"))
    if message.get("type") not in ("token", "control"):
        raise ValueError("neither a token nor a control")
    return message


async def process_command(asked: Mapping[str, Any], controls: Controls) -> None:
    """Do what is asked for, and wait until it is done.

    Raises:
        OptionError: it cannot be done.
    """
    action = str(asked.get("action"))
    if action in ("pause", "resume"):
        controls.pause(action == "pause")
    elif action in _COMMANDS:
        await controls.asked(_COMMANDS[action](asked))
    else:
        known = ", ".join(("pause", "resume", *_COMMANDS))
        raise OptionError(f"action is {action!r}, expected one of: {known}")


def _language(asked: Mapping[str, Any]) -> Command:
    language = _text(asked, "language")
    return lambda live: live.change({"language": language})


def _settings(asked: Mapping[str, Any]) -> Command:
    settings = asked.get("settings")
    if not isinstance(settings, dict) or not settings:
        raise OptionError("settings is missing or empty, expected an object of names and values")
    if "language" in settings:
        _text(settings, "language")
    return lambda live: live.change(settings)


def _marker(asked: Mapping[str, Any]) -> Command:
    label = _text(asked, "label") if "label" in asked else ""
    if len(label) > _LONGEST_LABEL:
        raise OptionError(f"label has {len(label)} letters, expected {_LONGEST_LABEL} at most")
    return lambda live: live.mark(label)


def _clear(_asked: Mapping[str, Any]) -> Command:
    return lambda live: live.clear()


_COMMANDS: Final[dict[str, Callable[[Mapping[str, Any]], Command]]] = {
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


NOT_UNDERSTOOD, NOT_ALLOWED, TOO_LONG = 1003, 1008, 1009
"""Why a socket is closed."""

_STILL_S: Final = 10.0
"""Where nothing is to be told for so long, it is told that the connection lives."""


class Watcher:
    """Tells events for as long as somebody looks, and hears what they ask for.

    Args:
        websocket: not accepted yet.
        broadcast: of the events.
        access: who may do what.
        controls: of the captions.
        has_microphone: a browser's microphone may be captioned.
    """

    def __init__(
        self,
        websocket: WebSocket,
        broadcast: Broadcast,
        access: Access,
        controls: Controls,
        *,
        has_microphone: bool,
    ) -> None:
        self._websocket = websocket
        self._broadcast = broadcast
        self._access = access
        self._controls = controls
        self._has_microphone = has_microphone
        self._may: tuple[Right, ...] = ()
        self._looks = asyncio.Event()

    async def run(self) -> None:
        """Until one of both leaves."""
        await self._websocket.accept()
        self._websocket.state.connection.set_idle()  # until it may look
        sides: set[asyncio.Task[int | None]] = set()
        try:
            if not await self._admit(self._websocket.query_params.get("token")):
                await self._websocket.close(NOT_ALLOWED, "the token is wrong")
                return
            sides = {asyncio.ensure_future(side()) for side in (self._tell, self._hear)}
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            for code in (side.result() for side in done):
                if code is not None:
                    await self._websocket.close(code)
                    return
        except (WebSocketDisconnect, RuntimeError):
            pass  # it went away while something was sent
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)  # told above, or of no interest

    async def _admit(self, token: str | None) -> bool:
        """Say what somebody with such a token may do; whether it is right, or none."""
        may = self._access.rights(token)
        if may is None:
            return False
        self._may = tuple(right for right in may if right != "record" or self._has_microphone)
        await self._send(hello(self._may))
        if "look" in self._may and not self._looks.is_set():
            self._websocket.state.connection.set_busy()
            self._looks.set()
        return True

    async def _tell(self) -> int:
        """Send events until the last; why there is no more."""
        await self._looks.wait()
        wake = asyncio.Event()
        client = self._broadcast.join(wake.set)
        try:
            while True:
                while (message := client.take()) is not None:
                    await self._send(message)
                    if message["event"] == "end":
                        return 1000
                wake.clear()
                try:
                    async with asyncio.timeout(_STILL_S):
                        await wake.wait()
                except TimeoutError:
                    await self._send(STILL)
        finally:
            self._broadcast.leave(client)

    async def _hear(self) -> int | None:
        """Take what is asked for; why nothing is heard any more, `None`: they left."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            text = message.get("text")
            if text is not None and len(text) > MOST_LETTERS:
                return TOO_LONG
            try:
                asked = parse_message(text or "")
            except ValueError:
                return NOT_UNDERSTOOD
            if asked["type"] == "control":
                await self._process(asked)
            elif not await self._admit(str(asked.get("token"))):
                return NOT_ALLOWED

    async def _process(self, asked: Mapping[str, Any]) -> None:
        try:
            if "control" not in self._may:
                raise OptionError("controls need the token that was printed at the start")
            await process_command(asked, self._controls)
        except OptionError as error:
            await self._send(answer(asked, str(error)))
        else:
            await self._send(answer(asked))

    async def _send(self, message: Message) -> None:
        await self._websocket.send_json(message)
