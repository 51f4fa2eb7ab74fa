"""Work on threads for those who wait on an event loop, and may stop waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, TypeVar

from whisper_hailo.serve.errors import ClientDisconnectedError

T = TypeVar("T")

_END: Final = object()


async def run_until(left: Awaitable[None], work: Awaitable[T]) -> T:
    """Return the result of some work, which is cancelled when its client has left."""
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left)
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnectedError("the client left")
        return task.result()
    finally:
        for waiting in (task, leaving):
            waiting.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def on_thread(
    function: Callable[..., T],
    *arguments: Any,  # noqa: ANN401 - the function's own
    on_cancel: Callable[[], None] | None = None,
    threads: Executor | None = None,
) -> T:
    """Return the result of a function that runs on a thread, which has ended when this does.

    A thread cannot be interrupted. A caller that is cancelled waits for it, so that what it uses
    can be released; `on_cancel` may have it end sooner.
    """
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(loop.run_in_executor(threads, partial(function, *arguments)))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait({work})
        raise


async def each_on_thread(
    items: Iterator[T], on_cancel: Callable[[], None], threads: Executor
) -> AsyncIterator[T]:
    """Yield what an iterator computes on a thread, as it comes; see `on_thread`."""
    while True:
        item: Any = await on_thread(next, items, _END, on_cancel=on_cancel, threads=threads)
        if item is _END:
            return
        yield item
