"""Work on threads and in tasks, cancelled when the client that waits for it disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, TypeVar

from whisper_hailo.serve.errors import ClientDisconnectedError

T = TypeVar("T")

_END: Final = object()
"""In place of `StopIteration`, which a future cannot hold."""


async def run_until_disconnect(disconnect: Awaitable[None], work: Awaitable[T]) -> T:
    """Return the result of some work, which is cancelled when `disconnect` is done first.

    Raises:
        ClientDisconnectedError: the client disconnected.
    """
    working = asyncio.ensure_future(work)
    disconnecting = asyncio.ensure_future(disconnect)
    try:
        await asyncio.wait(
            {working, disconnecting}, return_when=asyncio.FIRST_COMPLETED
        )
        if not working.done():
            raise ClientDisconnectedError
        return working.result()
    finally:
        working.cancel()
        disconnecting.cancel()
        await asyncio.gather(working, disconnecting, return_exceptions=True)
        # The traceback of an error holds this frame: a task, which holds the error, would keep
        # what the client sent until the cyclic collector runs.
        del working, disconnecting


async def run_on_thread(
    function: Callable[..., T],
    *arguments: Any,  # noqa: ANN401 - the function's own
    on_cancel: Callable[[], None] | None = None,
    threads: Executor | None = None,
) -> T:
    """Return the result of a function that runs on a thread, which has ended when this does.

    A thread cannot be interrupted. A caller that is cancelled waits for it, so that what it uses
    can be released; `on_cancel` may make it end sooner.
    """
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(
        loop.run_in_executor(threads, partial(function, *arguments))
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait({work})
        work.exception()  # retrieved, or asyncio would log it as lost
        raise
    finally:
        del work  # it holds the error, whose traceback holds this frame


async def iterate_on_thread(
    items: Iterator[T], on_cancel: Callable[[], None], threads: Executor
) -> AsyncIterator[T]:
    """Yield what an iterator computes on a thread, as it comes; see `run_on_thread`."""
    while True:
        item: Any = await run_on_thread(
            next, items, _END, on_cancel=on_cancel, threads=threads
        )
        if item is _END:
            return
        yield item
