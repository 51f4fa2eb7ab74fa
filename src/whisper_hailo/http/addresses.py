"""Where a server listens, with which certificate, and its names.

A foreign page can open a WebSocket to this server, or have its own name point at this machine (DNS
rebinding). So requests use an address of the server or a name that is listed, and only pages of the
server open sockets.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

from whisper_hailo.core.errors import OptionError

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_BACKLOG: Final = 1024  # connections that the system keeps until they are accepted


def url(scheme: str, host: str, port: int) -> str:
    """Return the address of a server, without a path."""
    if ":" in host:
        host = f"[{host}]"  # IPv6
    return f"{scheme}://{host}:{port}"


def _address_family(host: str) -> socket.AddressFamily:
    """Return the family of an address; a name is looked up as IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class Listener(socket.socket):
    """A socket that is bound to its address, and refuses connections until it listens.

    Port 0 takes any free one. `advice` ends the message if the address is taken.
    """

    def __init__(self, host: str, port: int, scheme: str, advice: str) -> None:
        super().__init__(_address_family(host))
        self.host = host
        self._scheme = scheme
        self._advice = advice
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with self._translate_errors(port):
            self.bind((host, port))

    @property
    def port(self) -> int:
        """The port, which the system chose if 0 was asked for."""
        return int(self.getsockname()[1])

    @property
    def url(self) -> str:
        """The address, without a path."""
        return url(self._scheme, self.host, self.port)

    def listen(self, _at_once: int = 0, /) -> None:
        """Listen with a longer queue than asyncio's: clients beyond it retry after a second."""
        with self._translate_errors(self.port):
            super().listen(_BACKLOG)

    @contextmanager
    def _translate_errors(self, port: int) -> Iterator[None]:
        try:
            yield
        except (
            OSError,
            ValueError,
            TypeError,
        ) as error:  # the last two: not even a name
            self.close()
            reason = getattr(error, "strerror", None) or error
            address = url(self._scheme, self.host, port)
            raise OptionError(
                f"cannot listen at {address} ({reason}); {self._advice}"
            ) from error


def find_own_address(host: str) -> str | None:
    """Return the address at which other machines reach this one; `None` without a network."""
    family = _address_family(host)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: connecting only chooses the network card.
            probe.connect((_EXAMPLE_ADDRESS[family], _DISCARD_PORT))
        except OSError:
            return None
        return str(probe.getsockname()[0])


_EXAMPLE_ADDRESS: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation (RFC 5737, RFC 3849), which no machine has."""

_DISCARD_PORT: Final = 9


def make_tls_context(
    cert: Path | None, key: Path | None, options: str = "--tls-cert and --tls-key"
) -> ssl.SSLContext | None:
    """Return the TLS context of a server; `None`, for HTTP, without certificate and key.

    Args:
        cert: PEM file of the certificate with its chain.
        key: PEM file of the key.
        options: names of both in messages.
    """
    if cert is None or key is None:
        if cert is not key:
            raise OptionError(f"{options} need each other; give both")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without a password OpenSSL would ask for it on the terminal.
        context.load_cert_chain(cert, key, password="")
    except OSError as error:  # the errors of `ssl` are some
        raise OptionError(
            f"{options} cannot be used ({type(error).__name__}); expected PEM files of "
            "a certificate and its key without a password"
        ) from error
    return context


_AUTHORITY: Final = re.compile(
    r"(?: \[(?P<address>[0-9a-f:.]+)\] | (?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.? )"
    r"(?: :(?P<port>[0-9]{1,5}) )?",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_CUSTOMER_BITS: Final = 64
"""Of an IPv6 address: the rest of them is the customer's."""

_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_NAME: Final = 253  # RFC 1035
_LARGEST_PORT: Final = 65_535

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
MISDIRECTED: Final = 421
"""Status of HTTP."""


class Authority(NamedTuple):
    """Host and port of a URL.

    Attributes:
        host: an address in its shortest form, or a name in lower case.
        port: `None` for that of the scheme.
    """

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, authority: str) -> Self:
        """Parse a `Host` header, or what follows the `//` of a URL, as browsers send it.

        Raises:
            ValueError: no host, or no port.
        """
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            raise ValueError(f"{authority!r} is not a valid host")
        address, name, digits = match.groups()
        # IPv6Address raises ValueError, too, for text that only looks like an address.
        host = str(ipaddress.IPv6Address(address)) if address else name.lower()
        host = normalize_address(host)
        port = None if digits is None else int(digits)
        if len(host) > _LONGEST_NAME or (port or 0) > _LARGEST_PORT:
            raise ValueError(f"{authority!r} is not a valid name or port")
        return cls(host, port)


def normalize_address(host: str) -> str:
    """Return an address in its shortest form, without the network card; a name as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


def name_client(host: str) -> str:
    """Return what has the limits of one client: an address, or a network of 64 bits of IPv6.

    A customer has a whole network of the internet's IPv6, so a limit for each address would be
    none. Devices of a local network have an address each.
    """
    name = normalize_address(host)
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    if address.version == 6 and address.is_global:
        return str(ipaddress.ip_network((address, _CUSTOMER_BITS), strict=False))
    return name


def parse_origin(text: str) -> tuple[str, int] | None:
    """Return host and port of an origin such as `https://home.example:8443`; `None` of others."""
    scheme, _, authority = text.partition("://")
    default_port = _PORTS.get(scheme.lower())
    if default_port is None:
        return None  # such as "null", of a page that is a local file
    try:
        host, port = Authority.parse(authority)
    except ValueError:
        return None
    return host, port or default_port


def is_loopback(host: str) -> bool:
    """Return whether an address or a name can be reached from this machine only."""
    try:
        return ipaddress.ip_address(normalize_address(host)).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Hosts:
    """The names that a server answers to, besides all addresses.

    They are the one that it listens at, this machine's own names, and the listed ones; `*.lan`
    stands for all names with that end.
    """

    def __init__(
        self,
        listens_at: str,
        listed: Iterable[str] = (),
        option: str = "--web-allow-host",
    ) -> None:
        if not listens_at.strip():
            raise OptionError(
                "--web-host is empty, expected an address such as 127.0.0.1, or 0.0.0.0 for "
                "everyone who reaches this machine"
            )
        self._option = option
        machine = socket.gethostname().lower()
        multicast_name = machine.split(".")[0] + ".local"
        self.names = {"localhost", "127.0.0.1", "::1", machine, multicast_name}
        self.names.add(normalize_address(listens_at.lower()))
        self._suffixes: tuple[str, ...] = ()
        for entry in listed:
            name = entry.removeprefix("*.")
            host = self._parse_host(name)
            if host is None:
                raise OptionError(
                    f"{option} is {entry!r}, expected a name or an address without a port, such as "
                    "captions.local"
                )
            if name == entry:
                self.names.add(host)
            else:
                self._suffixes += (f".{host}",)

    @staticmethod
    def _parse_host(name: str) -> str | None:
        """Return a name or an address as in `Authority`; `None` if it is neither, or has a port."""
        if name.count(":") > 1:
            name = f"[{name}]"  # IPv6
        try:
            host, port = Authority.parse(name)
        except ValueError:
            return None
        return host if port is None else None

    def refusal(
        self, scope: Mapping[str, Any], *, any_page: bool | None = None
    ) -> tuple[int, str] | None:
        """Return the status and reason of a refusal; `None` if the request is answered.

        Args:
            scope: of ASGI.
            any_page: pages of other servers may ask, too. By default they may not open WebSockets,
                since browsers let them read the answers of these only.
        """
        try:
            ((host, port),) = [
                Authority.parse(value) for value in _header_values(scope, b"host")
            ]
        except ValueError:  # none, several, or not a host
            return (
                BAD_REQUEST,
                "a request needs exactly one Host, such as localhost:8765",
            )
        if not scope["path"].startswith("/"):
            return BAD_REQUEST, "the request target must be a path, such as GET /events"
        # A foreign page reaches this server under a name of its own (DNS rebinding), never under an
        # address. Behind a published port of a container, addresses are not this machine's.
        is_ours = host in self.names or _is_address(host)
        if not is_ours and not host.endswith(self._suffixes):
            return MISDIRECTED, (
                f"this server does not answer to the name {host!r}; start it with "
                f"{self._option} {host}, or use the machine's address"
            )
        # Programs other than browsers have none.
        origins = _header_values(scope, b"origin")
        if any_page is None:
            any_page = scope["type"] != "websocket"
        if any_page or not origins:
            return None
        if len(origins) == 1:
            scheme, _, _ = origins[0].partition("://")
            own_port = port or _PORTS.get(scheme.lower())
            if parse_origin(origins[0]) == (host, own_port):
                return None
        return FORBIDDEN, "only this server's own page may connect"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _header_values(scope: Mapping[str, Any], name: bytes) -> list[str]:
    """Return the values of a header of an ASGI request."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
