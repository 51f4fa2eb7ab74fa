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
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class Listener(socket.socket):
    """A socket that has its address, and refuses connections until it listens.

    Port 0 takes any free one. Messages have `advice` if the address is taken.
    """

    def __init__(self, host: str, port: int, scheme: str, advice: str) -> None:
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.host, self._scheme, self._advice = host, scheme, advice
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with self._translate_errors(port):
            self.bind((host, port))

    @property
    def port(self) -> int:
        return int(self.getsockname()[1])

    @property
    def url(self) -> str:
        return url(self._scheme, self.host, self.port)

    def listen(self, _at_once: int = 0, /) -> None:
        """Queue more connections than asyncio accepts at once: others retry after a second."""
        with self._translate_errors(self.port):
            super().listen(_BACKLOG)

    @contextmanager
    def _translate_errors(self, port: int) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError) as error:  # others: no name at all
            self.close()
            why = getattr(error, "strerror", None) or error
            shown = url(self._scheme, self.host, port)
            raise OptionError(f"cannot listen at {shown} ({why}); {self._advice}") from error


def own_address(host: str) -> str | None:
    """Return the address at which other machines reach this one; `None` without a network."""
    family, far = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((far, 9))  # an address of examples; nothing is sent, a way is chosen
        except OSError:
            return None
        return str(probe.getsockname()[0])


def tls_context(
    cert: Path | None, key: Path | None, options: str = "--tls-cert and --tls-key"
) -> ssl.SSLContext | None:
    """Return the TLS context of a server; `None`, for HTTP, without certificate and key.

    They are PEM files, the certificate with its chain; `options` are their names in messages.
    """
    if cert is None or key is None:
        if cert is not key:
            raise OptionError(f"{options} need each other; give both")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key, password="")  # or it would be asked for
    except OSError as error:  # those of ssl, too
        raise OptionError(
            f"{options} cannot be used ({type(error).__name__}); expected PEM files of a "
            "certificate and its key, which has no password"
        ) from error
    return context


_AUTHORITY: Final = re.compile(
    r"(?: \[(?P<address>[0-9a-f:.]+)\] | (?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.? )"
    r"(?: :(?P<port>[0-9]{1,5}) )?",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_NAME: Final = 253

BAD_REQUEST, FORBIDDEN, MISDIRECTED = 400, 403, 421


class Authority(NamedTuple):
    """A host, an address in its shortest form or a name in lower case, and perhaps a port."""

    host: str
    port: int | None = None

    @classmethod
    def of(cls, authority: str) -> Self:
        """Parse a `Host` header, or what follows the `//` of an address, as browsers send it."""
        found = _AUTHORITY.fullmatch(authority)
        if found is None:
            raise ValueError(f"{authority!r} is no host")
        address, name, port = found.groups()
        host = name.lower() if address is None else address_of(str(ipaddress.IPv6Address(address)))
        if len(host) > _LONGEST_NAME or int(port or 0) > 65_535:
            raise ValueError(f"{authority!r} is a name or a port that cannot be")
        return cls(host, None if port is None else int(port))


def address_of(host: str) -> str:
    """Return an address in its shortest form, without the network card; a name as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


def origin_of(text: str) -> tuple[str, int] | None:
    """Return host and port of an origin such as `https://home.example:8443`; `None` of others."""
    scheme, _, authority = text.partition("://")
    try:
        usual, (host, port) = _PORTS[scheme.lower()], Authority.of(authority)
        return host, port or usual
    except (ValueError, KeyError):
        return None  # also "null", of a page that has no place


def is_loopback(host: str) -> bool:
    """Return whether an address or a name can be reached from this machine only."""
    try:
        return ipaddress.ip_address(address_of(host)).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Hosts:
    """Names of a server that listens at an address or a name, besides the address that is reached.

    This machine's own names belong to it; a listed `*.lan` stands for all that end so.
    """

    def __init__(
        self, listens_at: str, listed: Iterable[str] = (), option: str = "--web-allow-host"
    ) -> None:
        if not listens_at.strip():
            raise OptionError(
                "--web-host is empty, expected an address such as 127.0.0.1, or 0.0.0.0 for "
                "everyone who reaches this machine"
            )
        self._option = option
        own = socket.gethostname().lower()
        self.names = {"localhost", "127.0.0.1", "::1", own, own.split(".")[0] + ".local"}
        self.names.add(address_of(listens_at.lower()))
        self._suffixes: tuple[str, ...] = ()
        for given in listed:
            name = given.removeprefix("*.")
            try:
                host, port = Authority.of(f"[{name}]" if name.count(":") > 1 else name)
            except ValueError:
                host, port = "", 0
            if port is not None:
                raise OptionError(
                    f"{option} is {given!r}, expected a name or an address without a port, such as "
                    "captions.local"
                )
            if name == given:
                self.names.add(host)
            else:
                self._suffixes += (f".{host}",)

    def refusal(
        self, scope: Mapping[str, Any], *, any_page: bool | None = None
    ) -> tuple[int, str] | None:
        """Return the status and reason of a refusal; `None` if the request is answered."""

        def values(name: bytes) -> list[str]:
            return [value.decode("latin-1") for key, value in scope["headers"] if key == name]

        try:
            ((host, port),) = map(Authority.of, values(b"host"))
        except ValueError:
            return BAD_REQUEST, "a request has one Host, such as localhost:8765"
        if not scope["path"].startswith("/"):
            return BAD_REQUEST, "a request begins with the path, such as GET /events"
        reached_at = address_of((scope.get("server") or ("", None))[0])
        if host not in (*self.names, reached_at) and not host.endswith(self._suffixes):
            return MISDIRECTED, (
                f"this server does not answer to the name {host!r}; start it with "
                f"{self._option} {host}, or use the address of its machine"
            )
        origins = values(b"origin")  # programs other than browsers have none
        if any_page is None:
            any_page = scope["type"] != "websocket"
        if any_page or not origins:
            return None
        usual = _PORTS.get(origins[0].partition("://")[0].lower())
        if len(origins) == 1 and origin_of(origins[0]) == (host, port or usual):
            return None
        return FORBIDDEN, "only the page of this very server may connect"
