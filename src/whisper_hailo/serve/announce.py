"""Announce the Wyoming server by multicast DNS, so that Home Assistant finds it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from zeroconf import InterfaceChoice
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from whisper_hailo.core.errors import OptionError

KIND: Final = "_wyoming._tcp.local."


@asynccontextmanager
async def announce(name: str, host: str, port: int) -> AsyncIterator[None]:
    """Announce the server as long as the block lasts.

    Args:
        name: shown in Home Assistant.
        host: where it is; where it is everywhere, so it is told.
        port: of the server.

    Raises:
        OptionError: the network cannot be told.
    """
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, port)}
        bare = [ipaddress.ip_address(address) for address in addresses]
        everywhere = any(address.is_unspecified for address in bare)
        told = [] if everywhere else [str(address) for address in bare]
        zeroconf = AsyncZeroconf(interfaces=InterfaceChoice.All if everywhere else told)
    except OSError as error:
        raise OptionError(
            f"--zeroconf cannot tell the network ({error.strerror}); leave it out, and give Home "
            "Assistant the address"
        ) from error
    own = told or sorted(await _own_addresses(zeroconf))
    service = AsyncServiceInfo(
        KIND,
        f"{name}.{KIND}",
        parsed_addresses=own,
        port=port,
        server=f"{socket.gethostname()}.local.",
    )
    try:
        await (await zeroconf.async_register_service(service))
        yield
    finally:
        await zeroconf.async_unregister_all_services()
        await zeroconf.async_close()


async def _own_addresses(zeroconf: AsyncZeroconf) -> set[str]:
    """Of the network cards that the network is told by."""
    await zeroconf.zeroconf.async_wait_for_start()
    engine = zeroconf.zeroconf.engine
    return {str(sender.sock_name[0]) for sender in engine.senders} - {"0.0.0.0"}  # noqa: S104
