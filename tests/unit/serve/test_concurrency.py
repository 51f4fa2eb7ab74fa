"""Work on threads and in tasks that ends when its client disconnects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from whisper_hailo.serve.concurrency import (
    iterate_on_thread,
    run_on_thread,
    run_until_disconnect,
)
from whisper_hailo.serve.errors import ClientDisconnectedError

PATIENCE_S = 10.0


def test_run_until_disconnect_returns_the_result() -> None:
    async def work() -> int:
        return 7

    async def run() -> int:
        return await run_until_disconnect(asyncio.sleep(PATIENCE_S), work())

    assert asyncio.run(run()) == 7


def test_run_until_disconnect_cancels_the_work() -> None:
    cancelled: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(PATIENCE_S)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def run() -> None:
        await run_until_disconnect(asyncio.sleep(0.01), work())

    with pytest.raises(ClientDisconnectedError):
        asyncio.run(run())
    assert cancelled == [True]


def test_run_on_thread_cancelled_waits_for_the_function() -> None:
    stop = threading.Event()
    stopped: list[bool] = []
    started = threading.Event()

    def work() -> None:
        started.set()
        stopped.append(stop.wait(PATIENCE_S))

    async def run() -> None:
        task = asyncio.ensure_future(run_on_thread(work, on_cancel=stop.set))
        while not started.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped == [True]

    asyncio.run(run())


def test_run_on_thread_raises_the_error_of_the_function() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_on_thread(divmod, 1, 0))


def test_iterate_on_thread_yields_items_in_order() -> None:
    thread_ids: set[int] = set()

    def count() -> Iterator[int]:
        for n in range(5):
            thread_ids.add(threading.get_ident())
            yield n

    async def run() -> list[int]:
        with ThreadPoolExecutor(1) as threads:
            items = iterate_on_thread(count(), lambda: None, threads)
            return [item async for item in items]

    assert asyncio.run(run()) == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in thread_ids
