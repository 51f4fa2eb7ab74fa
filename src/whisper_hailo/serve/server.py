"""HTTP and Wyoming in one process and one event loop, from the first request to the last.

Libraries of a protocol are imported when it is served: HTTP's take 20 MiB.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Final, NamedTuple

from whisper_hailo.core.process import Supervisor
from whisper_hailo.http.addresses import Listener, is_loopback
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.serve.announcement import announce_wyoming
from whisper_hailo.serve.credentials import Credentials
from whisper_hailo.serve.logs import rate_limited_network_log
from whisper_hailo.serve.options import (
    Address,
    HomeAssistantOptions,
    ListenOptions,
    SafetyOptions,
)
from whisper_hailo.serve.service import TranscriptionService

logger = logging.getLogger(__name__)

_ALIVE_INTERVAL_S: Final = 0.1  # between notifications of the watchdog

PONG_TIMEOUT_S: Final = 300.0
"""A client that sends faster than it is heard is not read for a while, nor are its pongs."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Listeners(NamedTuple):
    """Sockets of the protocols that are served."""

    http: Listener | None
    wyoming: Listener | None


@contextmanager
def bind_addresses(listen: ListenOptions, *, tls: bool) -> Iterator[Listeners]:
    """Hold the addresses as long as the block lasts.

    Raises:
        OptionError: an address is taken, or none of this machine.
    """
    advice = "give another port, or an address that this machine has"
    with ExitStack() as stack:

        def bind(address: Address | None, scheme: str) -> Listener | None:
            if address is None:
                return None
            return stack.enter_context(
                Listener(address.host, address.port, scheme, advice)
            )

        http = bind(listen.http, "https" if tls else "http")
        wyoming = bind(listen.wyoming, "tcp")
        yield Listeners(http, wyoming)


async def run_server(
    service: TranscriptionService,
    listeners: Listeners,
    *,
    listen: ListenOptions,
    safety: SafetyOptions,
    home: HomeAssistantOptions,
    serving: Callable[[str], None],
) -> None:
    """Serve until a signal, drain within the time-out, and close the service, which is open.

    `serving` is called once with each address that is served.
    """
    limiter = ConnectionLimiter(service.limits.connections, safety.proxies)
    try:
        async with AsyncExitStack() as stack:
            credentials = Credentials(safety)
            stack.enter_context(_end_by_signals(service, listen.drain_s, credentials))
            stack.enter_context(rate_limited_network_log())
            if listeners.http is not None:
                _open_http(service, listeners.http, credentials, limiter, stack)
                serving(listeners.http.url)
            else:
                logger.info(
                    "only Wyoming is served; --http HOST:PORT adds OpenAI's API"
                )
            if listeners.wyoming is not None:
                await _open_wyoming(
                    service, listeners.wyoming, listen, safety, home=home, stack=stack
                )
                serving(listeners.wyoming.url)
                # After it is served: Home Assistant connects as soon as it is announced.
                if listen.zeroconf is not None:
                    address = listeners.wyoming
                    await stack.enter_async_context(
                        announce_wyoming(listen.zeroconf, address.host, address.port)
                    )
            supervisor = Supervisor()
            watchdog = asyncio.create_task(_notify_watchdog(service, supervisor))
            stack.callback(watchdog.cancel)
            await service.ending.wait()
            supervisor.stopping()
            await _drain_requests(service, listen.drain_s)
    finally:
        await asyncio.to_thread(service.close)


@contextmanager
def _end_by_signals(
    service: TranscriptionService, drain_s: float, credentials: Credentials
) -> Iterator[None]:
    """End the service by a signal; by a second one without waiting for anything.

    SIGHUP renews what the server has in files, as service managers send it for that.
    """

    def end() -> None:
        if service.ending.is_set():
            raise KeyboardInterrupt
        logger.info("shutting down: requests in progress have %g s to finish", drain_s)
        service.ending.set()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end)
    if credentials.can_renew:
        loop.add_signal_handler(signal.SIGHUP, credentials.renew)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _notify_watchdog(
    service: TranscriptionService, supervisor: Supervisor
) -> None:
    """Tell the service manager that the server is ready, then that it is alive.

    A model whose thread has died is not alive: the service manager starts the server again.
    """
    supervisor.ready("serving")
    while all(model.is_alive for model in service.models):
        supervisor.alive()
        await asyncio.sleep(_ALIVE_INTERVAL_S)


async def _drain_requests(service: TranscriptionService, drain_s: float) -> None:
    """Refuse new requests, and let those in progress finish in time."""
    service.stop()
    if not await asyncio.to_thread(service.wait_until_empty, drain_s):
        n_unfinished = sum(model.queue.n_unfinished for model in service.models)
        logger.warning("%d requests were aborted", n_unfinished)


def _open_http(
    service: TranscriptionService,
    listener: Listener,
    credentials: Credentials,
    limiter: ConnectionLimiter,
    stack: AsyncExitStack,
) -> None:
    """Serve HTTP until the stack is closed."""
    from whisper_hailo.http.server import HttpServer
    from whisper_hailo.serve.app import make_app
    from whisper_hailo.serve.routes.realtime.protocol import MAX_MESSAGE_BYTES

    if not (credentials.keys or is_loopback(listener.host)):
        logger.warning(
            "%s is open to the network without an API key: anyone who can reach it may use it; "
            "give --api-key-file, or listen on 127.0.0.1",
            listener.url,
        )
    server = HttpServer(
        make_app(service, listener.host, credentials.safety, credentials.keys),
        limiter,
        credentials.tls,
        message_bytes=MAX_MESSAGE_BYTES,
        pong_s=PONG_TIMEOUT_S,
    )
    listener.listen()
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    if credentials.can_renew:
        renewing = asyncio.create_task(credentials.renew_on_change())
        stack.callback(renewing.cancel)

    async def close() -> None:
        server.should_exit = True
        await serving

    stack.push_async_callback(close)


async def _open_wyoming(
    service: TranscriptionService,
    listener: Listener,
    listen: ListenOptions,
    safety: SafetyOptions,
    *,
    home: HomeAssistantOptions,
    stack: AsyncExitStack,
) -> None:
    """Serve Wyoming until the stack is closed."""
    from whisper_hailo.serve.routes.wyoming.server import WyomingServer

    n_connections = service.limits.for_wyoming().connections
    limiter = ConnectionLimiter(n_connections, allowed=safety.wyoming_clients)
    wyoming = WyomingServer(service, limiter, home, finds_end=listen.endpointing)
    server = await wyoming.serve(listener)
    stack.push_async_callback(wyoming.close)
    # Closed first, so that no connection comes after the others have ended.
    stack.callback(server.close)
