"""One page, or another program, at the socket of events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.captioning.controls import Controls
from whisper_hailo.live.web.access import Access, Right
from whisper_hailo.live.web.broadcast import STILL, Broadcast, Message
from whisper_hailo.live.web.protocol import MOST_LETTERS, answer, hello, obey, understood

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

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
        from starlette.websockets import WebSocketDisconnect

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
                asked = understood(text or "")
            except ValueError:
                return NOT_UNDERSTOOD
            if asked["type"] == "control":
                await self._obey(asked)
            elif not await self._admit(str(asked.get("token"))):
                return NOT_ALLOWED

    async def _obey(self, asked: Mapping[str, Any]) -> None:
        try:
            if "control" not in self._may:
                raise OptionError("controls need the token that was printed at the start")
            await obey(asked, self._controls)
        except OptionError as error:
            await self._send(answer(asked, str(error)))
        else:
            await self._send(answer(asked))

    async def _send(self, message: Message) -> None:
        await self._websocket.send_json(message)
