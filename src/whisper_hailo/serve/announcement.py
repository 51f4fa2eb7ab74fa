"""The announcement of Wyoming by multicast DNS, by which Home Assistant finds the server."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from whisper_hailo.core.errors import OptionError

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncZeroconf

logger = logging.getLogger(__name__)

WYOMING_SERVICE: Final = "_wyoming._tcp.local."


@asynccontextmanager
async def announce_wyoming(name: str, host: str, port: int) -> AsyncIterator[None]:
    """Announce the Wyoming server as long as the block lasts.

    Home Assistant shows the name. A server that listens everywhere is announced on all network
    cards with all of their addresses, since a client reaches only some of them.

    Raises:
        OptionError: the network cannot be used.
    """
    # 9 MiB, which only servers that are announced take.
    from zeroconf import InterfaceChoice
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    try:
        addresses = list({str(info[4][0]) for info in socket.getaddrinfo(host, port)})
        is_everywhere = any(
            ipaddress.ip_address(address).is_unspecified for address in addresses
        )
        zeroconf = AsyncZeroconf(
            interfaces=InterfaceChoice.All if is_everywhere else addresses
        )
    except OSError as error:
        raise OptionError(
            f"--zeroconf cannot use the network ({error.strerror}); leave it out and enter the "
            "address in Home Assistant"
        ) from error
    if is_everywhere:
        addresses = await _card_addresses(zeroconf)
    service = AsyncServiceInfo(
        WYOMING_SERVICE,
        f"{name}.{WYOMING_SERVICE}",
        parsed_addresses=addresses,
        port=port,
        server=f"{socket.gethostname()}.local.",
    )
    try:
        # The first wait sends the announcement, the second waits until it is sent.
        await (await zeroconf.async_register_service(service))
        logger.info("announced by multicast DNS as %s", name)
        yield
    finally:
        await zeroconf.async_unregister_all_services()
        await zeroconf.async_close()


async def _card_addresses(zeroconf: AsyncZeroconf) -> list[str]:
    """Return the addresses of the network cards; loopback only where there is no other."""
    await zeroconf.zeroconf.async_wait_for_start()
    addresses = {
        ipaddress.ip_address(str(sender.sock_name[0]))
        for sender in zeroconf.zeroconf.engine.senders
    }
    usable = {address for address in addresses if not address.is_unspecified}
    reachable = {address for address in usable if not address.is_loopback}
    return sorted(str(address) for address in reachable or usable)
