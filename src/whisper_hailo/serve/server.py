"""HTTP and Wyoming in one process and one event loop, from the first request to the last.

Libraries of a protocol are imported when it is served: HTTP's take 20 MiB, those that announce
Wyoming 9.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.process import Supervisor
from whisper_hailo.http.addresses import Listener, is_loopback
from whisper_hailo.http.connections import ConnectionLimiter
from whisper_hailo.serve.logs import rate_limited_network_log
from whisper_hailo.serve.options import Address, ListenOptions, SafetyOptions
from whisper_hailo.serve.service import TranscriptionService

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncZeroconf

logger = logging.getLogger(__name__)

_ALIVE_S: Final = 0.1  # interval of watchdog notifications

PONG_S: Final = 300.0
"""A client that sends faster than it is heard is not read for a while, nor are its pongs."""

WYOMING_SERVICE: Final = "_wyoming._tcp.local."


Listeners: TypeAlias = tuple[Listener | None, Listener | None]
"""Of HTTP and of Wyoming."""


@contextmanager
def bound(listen: ListenOptions, *, tls: bool) -> Iterator[Listeners]:
    """Hold the addresses as long as the block lasts."""
    advice = "give another port, or an address that this machine has"
    with ExitStack() as stack:

        def bind(address: Address | None, scheme: str) -> Listener | None:
            if address is None:
                return None
            return stack.enter_context(Listener(address.host, address.port, scheme, advice))

        yield bind(listen.http, "https" if tls else "http"), bind(listen.wyoming, "tcp")


async def run_server(
    service: TranscriptionService,
    listeners: Listeners,
    *,
    listen: ListenOptions,
    safety: SafetyOptions,
    serving: Callable[[str], None],
) -> None:
    """Serve until a signal, drain within the time-out, and close the service, which is open.

    `serving` is called once with each address that is served.
    """
    loop, supervisor, (http, wyoming) = asyncio.get_running_loop(), Supervisor(), listeners
    connections = ConnectionLimiter(service.limits.connections, safety.proxies)

    def end() -> None:
        """End; asked a second time, without waiting for anything."""
        if service.ending.is_set():
            raise KeyboardInterrupt
        logger.info("ending: requests under way have %g s", listen.drain_s)
        service.ending.set()

    async def watch() -> None:
        """Tell the service manager that the server is ready, then that it is alive."""
        supervisor.ready("serving")
        while all(model.is_alive for model in service.models):
            supervisor.alive()
            await asyncio.sleep(_ALIVE_S)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, end)
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(rate_limited_network_log())
            if http is not None:
                _open_http(service, http, safety, connections, stack)
                serving(http.url)
            else:
                logger.info("only Wyoming is served; --http HOST:PORT adds OpenAI's API")
            if wyoming is not None:
                from whisper_hailo.serve.routes.wyoming import WyomingServer

                finds_end = listen.endpointing
                speaking = WyomingServer(service, connections, finds_end=finds_end)
                server = await speaking.serve(wyoming)
                stack.push_async_callback(speaking.close)
                stack.callback(server.close)
                serving(wyoming.url)
                if listen.zeroconf is not None:
                    announced = announce(listen.zeroconf, wyoming.host, wyoming.port)
                    await stack.enter_async_context(announced)
            watchdog = asyncio.create_task(watch())
            stack.callback(watchdog.cancel)
            await service.ending.wait()
            supervisor.stopping()
            service.stop()
            if not await asyncio.to_thread(service.wait_until_empty, listen.drain_s):
                n_unfinished = sum(model.queue.n_unfinished for model in service.models)
                logger.warning("%d requests were given up", n_unfinished)
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        await asyncio.to_thread(service.close)


def _open_http(
    service: TranscriptionService,
    listener: Listener,
    safety: SafetyOptions,
    connections: ConnectionLimiter,
    stack: AsyncExitStack,
) -> None:
    from whisper_hailo.http.server import HttpServer
    from whisper_hailo.serve.app import make_app
    from whisper_hailo.serve.routes.realtime_protocol import MOST_BYTES

    if not (safety.keys() or is_loopback(listener.host)):
        logger.warning(
            "%s is open to the network without an API key: everyone who reaches it may use it; "
            "give --api-key-file, or listen at 127.0.0.1",
            listener.url,
        )
    app, tls = make_app(service, listener.host, safety), safety.tls()
    server = HttpServer(app, connections, tls, message_bytes=MOST_BYTES, pong_s=PONG_S)
    listener.listen()
    task = asyncio.create_task(server.serve(sockets=[listener]))

    async def close() -> None:
        server.should_exit = True
        await task

    stack.push_async_callback(close)


@asynccontextmanager
async def announce(name: str, host: str, port: int) -> AsyncIterator[None]:
    """Announce the Wyoming server by multicast DNS, so that Home Assistant finds it.

    `name` is shown there. A server at every address is announced on all network cards, with the
    addresses of all.
    """
    from zeroconf import InterfaceChoice
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    try:
        addresses = list({str(info[4][0]) for info in socket.getaddrinfo(host, port)})
        everywhere = any(ipaddress.ip_address(address).is_unspecified for address in addresses)
        zeroconf = AsyncZeroconf(interfaces=InterfaceChoice.All if everywhere else addresses)
    except OSError as error:
        raise OptionError(
            f"--zeroconf cannot tell the network ({error.strerror}); leave it out, and give Home "
            "Assistant the address"
        ) from error
    service = AsyncServiceInfo(
        WYOMING_SERVICE,
        f"{name}.{WYOMING_SERVICE}",
        parsed_addresses=await _card_addresses(zeroconf) if everywhere else addresses,
        port=port,
        server=f"{socket.gethostname()}.local.",
    )
    try:
        await (await zeroconf.async_register_service(service))
        logger.info("announced by multicast DNS as %s", name)
        yield
    finally:
        await zeroconf.async_unregister_all_services()
        await zeroconf.async_close()


async def _card_addresses(zeroconf: AsyncZeroconf) -> list[str]:
    """Return the addresses of the network cards; loopback only where there is no other."""
    await zeroconf.zeroconf.async_wait_for_start()
    found = {str(sender.sock_name[0]) for sender in zeroconf.zeroconf.engine.senders}
    addresses = {one for one in found if not ipaddress.ip_address(one).is_unspecified}
    outside = {one for one in addresses if not ipaddress.ip_address(one).is_loopback}
    return sorted(outside or addresses)
