"""The WebSocket that sends events to a page, and takes its commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import parse_json_object
from whisper_hailo.core.version import __version__
from whisper_hailo.live.stream import Command
from whisper_hailo.serve.routes.captions.access import Right
from whisper_hailo.serve.routes.captions.feeds import STILL
from whisper_hailo.serve.routes.captions.page_state import PageState

PROTOCOL: Final = 1
"""Raised when a message changes its meaning; additions leave it as it is."""

STILL_S: Final = 10.0
"""After so long without an event, a page is told that the connection lives."""

_MAX_MESSAGE_CHARACTERS: Final = 4096
_MAX_LABEL_CHARACTERS: Final = 200

# Close codes of RFC 6455.
_ENDED: Final = 1000
_NOT_UNDERSTOOD: Final = 1003
_NOT_ALLOWED: Final = 1008
_TOO_LONG: Final = 1009


class EventSocket:
    """Sends events to a page as long as it is open, and processes its commands.

    docs/reference/caption-events.md has every message.
    """

    def __init__(self, page: PageState, websocket: WebSocket) -> None:
        self._page = page
        self._websocket = websocket
        self._rights: tuple[Right, ...] = ()
        self._may_look = asyncio.Event()

    async def run(self) -> None:
        """Serve the connection to its end."""
        await self._websocket.accept()
        self._websocket.state.connection.set_idle()  # until it may look
        tasks: set[asyncio.Task[int | None]] = set()
        try:
            if not await self._admit_page(self._websocket.query_params.get("token")):
                await self._websocket.close(_NOT_ALLOWED, "the token is wrong")
                return
            tasks = {
                asyncio.ensure_future(self._send_events()),
                asyncio.ensure_future(self._read_messages()),
            }
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code = done.pop().result()
            if code is not None:
                await self._websocket.close(code)
        except (WebSocketDisconnect, RuntimeError):
            pass  # it left while something was sent
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _admit_page(self, token: str | None) -> bool:
        """Send the rights that a token gives; return false if it is wrong."""
        rights = self._page.address.access.rights_of(token)
        if rights is None:
            return False
        if self._page.browser is None:
            rights = tuple(right for right in rights if right != "record")
        self._rights = rights
        await self._websocket.send_json(
            {
                "event": "hello",
                "protocol": PROTOCOL,
                "version": __version__,
                "may": list(rights),
            }
        )
        if "look" in rights and not self._may_look.is_set():
            self._websocket.state.connection.set_busy()
            self._may_look.set()
        return True

    async def _send_events(self) -> int:
        """Send events until the last; return the code to close with."""
        await self._may_look.wait()
        wake = asyncio.Event()
        client = self._page.broadcast.add_client(wake.set)
        try:
            while True:
                while (message := client.take()) is not None:
                    await self._websocket.send_json(message)
                    if message["event"] == "end":
                        return _ENDED
                wake.clear()
                try:
                    async with asyncio.timeout(STILL_S):
                        await wake.wait()
                except TimeoutError:
                    await self._websocket.send_json(STILL)
        finally:
            self._page.broadcast.remove_client(client)

    async def _read_messages(self) -> int | None:
        """Process messages; return the code to close with, `None` if the page has left."""
        while True:
            received = await self._websocket.receive()
            if received["type"] == "websocket.disconnect":
                return None
            text = received.get("text") or ""
            if len(text) > _MAX_MESSAGE_CHARACTERS:
                return _TOO_LONG
            try:
                message = parse_json_object(text.encode(errors="surrogatepass"))
            except ValueError:
                return _NOT_UNDERSTOOD
            kind = message.get("type")
            if kind == "control":
                await self._process_command(message)
            elif kind == "token":
                if not await self._admit_page(str(message.get("token"))):
                    return _NOT_ALLOWED
            else:
                return _NOT_UNDERSTOOD

    async def _process_command(self, message: Mapping[str, Any]) -> None:
        """Do what a user asks for, and answer whether it was done."""
        answer = {
            "event": "answer",
            "id": message.get("id"),
            "action": message.get("action"),
        }
        try:
            await self._do_command(message)
        except OptionError as error:
            await self._websocket.send_json(
                {**answer, "ok": False, "error": str(error)}
            )
        else:
            await self._websocket.send_json({**answer, "ok": True})

    async def _do_command(self, message: Mapping[str, Any]) -> None:
        if "control" not in self._rights:
            raise OptionError("controls need the token printed at startup")
        action = str(message.get("action"))
        controls = self._page.controls
        # A pause does not wait for the captioner's thread, which may be waiting for sound.
        if action in ("pause", "resume"):
            controls.set_paused(action == "pause")
        else:
            await asyncio.wrap_future(controls.submit(_parse_command(action, message)))


def _parse_command(action: str, message: Mapping[str, Any]) -> Command:
    """Return what the captioner's thread is to do.

    Raises:
        OptionError: there is no such command, or its value cannot be.
    """
    match action:
        case "clear":
            return lambda captioner: captioner.clear()
        case "marker":
            label = message.get("label", "")
            if not isinstance(label, str) or len(label) > _MAX_LABEL_CHARACTERS:
                raise OptionError(
                    f"label is {str(label)[:40]!r}, expected a text of {_MAX_LABEL_CHARACTERS} "
                    "characters at most"
                )
            return lambda captioner: captioner.mark(label)
        case "language":
            language = message.get("language")
            if not isinstance(language, str):
                raise OptionError(f"language is {language!r}, expected a text")
            return lambda captioner: captioner.set_language(language)
        case _:
            actions = "pause, resume, language, marker, clear"
            raise OptionError(f"action is {action!r}, expected one of: {actions}")
