"""The WebSocket that takes a browser's microphone."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.serve.routes.captions.page_state import PageState

QUIET_TIMEOUT_S: Final = 10.0
"""A page that sends no sound for so long makes room for another."""

_MAX_NAME_CHARACTERS: Final = 64

# Close codes of RFC 6455.
_NOT_UNDERSTOOD: Final = 1003
_NOT_ALLOWED: Final = 1008
_BUSY: Final = 1013


class MicrophoneSocket:
    """Takes a browser's microphone; one at a time."""

    def __init__(self, page: PageState) -> None:
        self._page = page
        self._is_recording = False
        self._last_name = ""  # the browser's name of the last recording

    async def serve(self, websocket: WebSocket) -> None:
        """Serve a connection to its end; close it if its page may not record, or another one is."""
        rights = self._page.address.access.rights_of(
            websocket.query_params.get("token")
        )
        if rights is None or "record" not in rights:
            await websocket.close(_NOT_ALLOWED)
            return
        if self._page.browser is None or self._is_recording:
            await websocket.close(_BUSY)
            return
        self._is_recording = True  # before anything is awaited, or two would come in
        try:
            code = await self._take_sound(websocket, self._page.browser)
        except WebSocketDisconnect:
            return
        finally:
            # Before the closing handshake, which the other side may never answer.
            self._is_recording = False
            self._page.broadcast.put_recording(False)
        await websocket.close(code)

    async def _take_sound(self, websocket: WebSocket, browser: BrowserSource) -> int:
        """Take sound for as long as it comes; return the code to close with.

        The page learns whether it continues the last recording: only then may it send what it kept
        while the connection was away.
        """
        await websocket.accept()
        name = websocket.query_params.get("recording", "")[:_MAX_NAME_CHARACTERS]
        is_continued = name != "" and name == self._last_name
        await websocket.send_text("again" if is_continued else "new")
        self._last_name = name
        self._page.broadcast.put_recording(True)
        while True:
            try:
                async with asyncio.timeout(QUIET_TIMEOUT_S):
                    raw = await websocket.receive_bytes()
            except TimeoutError:
                return _BUSY
            except KeyError:  # starlette's, of a text
                return _NOT_UNDERSTOOD
            lost_s = browser.push(raw)
            if lost_s:
                await asyncio.sleep(lost_s)  # take it no faster than it is spoken
