"""All doors in one process and one event loop, from the first request to the last."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from whisper_hailo.live.http import PageProtocol
from whisper_hailo.live.listening import listen
from whisper_hailo.serve.announce import announce
from whisper_hailo.serve.doors.wyoming import WyomingDoor
from whisper_hailo.serve.doors.wyoming_wire import LINE_BYTES
from whisper_hailo.serve.engine import Engine
from whisper_hailo.serve.http.app import make_app
from whisper_hailo.serve.options import Address, DoorOptions, LimitOptions, SafetyOptions
from whisper_hailo.serve.worker import Worker

logger = logging.getLogger(__name__)

_ADVICE: Final = "give another port, or an address that this machine has"
_KEEP_ALIVE_S: Final = 5
_CLOSED_S: Final = 5.0
"""For answers under way when the time to drain is over."""


class Server:
    """The doors of one engine.

    Args:
        worker: open; closed by `run`.
        engine: of the worker.
        doors: which, and where.
        limits: of what one client may ask.
        safety: who may ask.
        serving: told once of each door's address, when it is open.
    """

    def __init__(
        self,
        worker: Worker,
        engine: Engine,
        doors: DoorOptions,
        limits: LimitOptions,
        safety: SafetyOptions,
        *,
        serving: Callable[[str], None],
    ) -> None:
        self._worker = worker
        self._engine = engine
        self._doors = doors
        self._limits = limits
        self._safety = safety
        self._serving = serving
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Serve until the program is told to end; then finish what is under way, in time.

        Raises:
            OptionError: an address that cannot be listened at.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        try:
            async with AsyncExitStack() as stack:
                if self._doors.http is not None:
                    await self._open_http(self._doors.http, stack)
                if self._doors.wyoming is not None:
                    await self._open_wyoming(self._doors.wyoming, stack)
                await self._ending.wait()
                await self._drain()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            await asyncio.to_thread(self._worker.close)

    def _end(self) -> None:
        """End; asked a second time, without waiting for anything."""
        if self._ending.is_set():
            raise KeyboardInterrupt
        logger.info("ending: requests under way have %g s", self._doors.drain_s)
        self._ending.set()

    async def _drain(self) -> None:
        """Take no new request, and wait for those under way."""
        queue = self._worker.queue
        queue.close()
        if not await asyncio.to_thread(queue.wait_until_empty, self._doors.drain_s):
            logger.warning("%d requests were given up", queue.n_unfinished)

    async def _open_http(self, address: Address, stack: AsyncExitStack) -> None:
        app = make_app(self._engine, address, self._limits, self._safety)
        server = _HttpServer(self._config(app))
        scheme = self._safety.tls.scheme
        listener = listen(address.host, address.port, f"{scheme}://{address}", _ADVICE)
        task = asyncio.create_task(server.serve(sockets=[listener]))

        async def close() -> None:
            server.should_exit = True
            await task

        stack.push_async_callback(close)
        port = listener.getsockname()[1]
        self._serving(f"{scheme}://{Address(address.host, port)}")

    async def _open_wyoming(self, address: Address, stack: AsyncExitStack) -> None:
        door = WyomingDoor(self._engine, self._limits.connections)
        listener = listen(address.host, address.port, f"tcp://{address}", _ADVICE)
        server = await asyncio.start_server(door.connected, sock=listener, limit=LINE_BYTES)
        stack.push_async_callback(door.close)
        stack.callback(server.close)
        port = listener.getsockname()[1]
        self._serving(f"tcp://{Address(address.host, port)}")
        if self._doors.zeroconf is not None:
            announced = announce(self._doors.zeroconf, address.host, port)
            await stack.enter_async_context(announced)

    def _config(self, app: ASGIApp) -> uvicorn.Config:
        config = uvicorn.Config(
            app,
            http=PageProtocol,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=self._limits.connections,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=round(_CLOSED_S),
        )
        config.load()
        config.ssl = self._safety.tls.context()
        return config


class _HttpServer(uvicorn.Server):
    """Signals are the whole server's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them."""
        yield
