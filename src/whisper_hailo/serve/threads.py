"""Work on threads for those who wait on an event loop, and may stop waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def on_thread(
    function: Callable[..., T],
    *arguments: Any,  # noqa: ANN401 - the function's own
    on_cancel: Callable[[], None] | None = None,
    undo: Callable[[T], None] | None = None,
) -> T:
    """The result of a function that runs on a thread, which has ended when this does.

    A thread cannot be interrupted. Who is cancelled waits for it, so that what it uses can be
    given back.

    Args:
        function: to run.
        arguments: of it.
        on_cancel: may have it end sooner.
        undo: takes back a result that nobody waits for any more.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait({work})
        if work.exception() is None and undo is not None:
            undo(work.result())
        raise
