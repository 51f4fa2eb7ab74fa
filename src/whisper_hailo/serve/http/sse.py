"""Server-sent events: an answer that comes in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

_UNBUFFERED: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Events(StreamingResponse):
    """Events as they come; whoever stops reading leaves.

    Args:
        events: as texts; see `sse`.
        stack: holds the ticket.
    """

    def __init__(self, events: AsyncIterator[str], stack: AsyncExitStack) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_UNBUFFERED)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


def sse(content: Mapping[str, Any]) -> str:
    """An event as text; its name is its type."""
    return f"event: {content['type']}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"
