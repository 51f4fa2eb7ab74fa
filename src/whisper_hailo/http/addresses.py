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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from whisper_hailo.core.errors import OptionError

_BACKLOG: Final = 1024  # connections that the system keeps until they are accepted


def listen(host: str, port: int, shown: str, advice: str) -> socket.socket:
    """Return a socket that queues connections until the server is ready; see `bind`."""
    listener = bind(host, port, shown, advice)
    listener.listen()
    return listener


def bind(host: str, port: int, shown: str, advice: str) -> socket.socket:
    """Return a socket that has its address and refuses connections until it listens.

    Messages have `shown`, the address, and `advice` if it is taken.
    """
    listener = _Listener(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.shown, listener.advice = shown, advice
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener.translate_errors():
        listener.bind((host, port))
    return listener


def own_address(host: str) -> str | None:
    """Return the address at which other machines reach this one; `None` without a network."""
    family, far = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((far, 9))  # an address of examples; nothing is sent, a way is chosen
        except OSError:
            return None
        return str(probe.getsockname()[0])


class _Listener(socket.socket):
    shown: str
    advice: str

    def listen(self, _at_once: int = 0, /) -> None:
        """Queue more connections than asyncio accepts at once: others retry after a second."""
        with self.translate_errors():
            super().listen(_BACKLOG)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError) as error:  # others: no name at all
            self.close()
            why = getattr(error, "strerror", None) or error
            raise OptionError(f"cannot listen at {self.shown} ({why}); {self.advice}") from error


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificate chain and key of HTTPS, as PEM files without a password; `None` for HTTP.

    `options` are their names in messages.
    """

    cert: Path | None
    key: Path | None
    options: tuple[str, str] = ("--tls-cert", "--tls-key")

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise OptionError(f"{' and '.join(self.options)} need each other; give both")

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a server; `None` for HTTP."""
        if self.cert is None or self.key is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.cert, self.key, password="")  # or it would be asked for
        except OSError as error:  # those of ssl, too
            raise OptionError(
                f"{' and '.join(self.options)} cannot be used ({type(error).__name__}); expected "
                "PEM files of a certificate and its key, which has no password"
            ) from error
        return context


Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_AUTHORITY: Final = re.compile(
    r"(?: \[(?P<address>[0-9a-f:.]+)\] | (?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.? )"
    r"(?: :(?P<port>[0-9]{1,5}) )?",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_NAME: Final = 253

BAD_REQUEST, FORBIDDEN, MISDIRECTED = 400, 403, 421


@dataclass(frozen=True, slots=True)
class Authority:
    """A host, an address in its shortest form or a name in lower case, and perhaps a port."""

    host: str
    port: int | None = None

    @classmethod
    def of(cls, authority: str) -> Self:
        """Parse a `Host` header, or what follows the `//` of an address, as browsers send it."""
        found = _AUTHORITY.fullmatch(authority)
        if found is None:
            raise ValueError(f"{authority!r} is no host")
        if found["address"] is not None:
            host = address_of(str(ipaddress.IPv6Address(found["address"])))
        else:
            host = found["name"].lower()
        port = None if found["port"] is None else int(found["port"])
        if len(host) > _LONGEST_NAME or (port is not None and port > 65_535):
            raise ValueError(f"{authority!r} is a name or a port that cannot be")
        return cls(host, port)


def address_of(host: str) -> str:
    """Return an address in its shortest form, without the network card; a name as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_origin(text: str) -> bool:
    """Return whether a text is the origin of a page, such as `https://home.example:8443`."""
    scheme, _, authority = text.partition("://")
    try:
        Authority.of(authority)
    except ValueError:
        return False
    return scheme.lower() in _PORTS


def is_loopback(host: str) -> bool:
    """Return whether an address or a name can be reached from this machine only."""
    try:
        return ipaddress.ip_address(address_of(host)).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True, slots=True)
class Hosts:
    """Names and suffixes of names of a server, in addition to the address that is reached."""

    names: frozenset[str]
    suffixes: tuple[str, ...] = ()
    option: str = "--web-allow-host"

    @classmethod
    def of(
        cls, listens_at: str, listed: Iterable[str] = (), option: str = "--web-allow-host"
    ) -> Self:
        """Return the names of a server that listens at an address or a name.

        This machine's own names belong to it; a listed `*.lan` stands for all that end so.
        """
        if not listens_at.strip():
            raise OptionError(
                "--web-host is empty, expected an address such as 127.0.0.1, or 0.0.0.0 for "
                "everyone who reaches this machine"
            )
        own = socket.gethostname().lower()
        names = {*_LOOPBACK, own, own.split(".")[0] + ".local", address_of(listens_at.lower())}
        suffixes: list[str] = []
        for given in listed:
            name = given.removeprefix("*.")
            try:
                place = Authority.of(f"[{name}]" if name.count(":") > 1 else name)
            except ValueError:
                place = None
            if place is None or place.port is not None:
                raise OptionError(
                    f"{option} is {given!r}, expected a name or an address without a port, such as "
                    "captions.local"
                )
            if name == given:
                names.add(place.host)
            else:
                suffixes.append("." + place.host)
        return cls(frozenset(names), tuple(suffixes), option)

    def refusal(
        self, scope: Mapping[str, Any], *, any_page: bool | None = None
    ) -> tuple[int, str] | None:
        """Return the status and reason of a refusal; `None` if the request is answered."""
        hosts = _values(scope, b"host")
        try:
            (asked_for,) = (Authority.of(host) for host in hosts)
        except ValueError:
            return BAD_REQUEST, "a request has one Host, such as localhost:8765"
        if not scope["path"].startswith("/"):
            return BAD_REQUEST, "a request begins with the path, such as GET /events"
        reached_at = address_of((scope.get("server") or ("", None))[0])
        if asked_for.host not in (*self.names, reached_at) and not asked_for.host.endswith(
            self.suffixes
        ):
            return MISDIRECTED, (
                f"this server does not answer to the name {asked_for.host!r}; start it with "
                f"{self.option} {asked_for.host}, or use the address of its machine"
            )
        if any_page is None:
            any_page = scope["type"] != "websocket"
        if not any_page and not _is_own(_values(scope, b"origin"), asked_for):
            return FORBIDDEN, "only the page of this very server may connect"
        return None


def _values(scope: Mapping[str, Any], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _is_own(origins: list[str], asked_for: Authority) -> bool:
    """Return whether a page is the server's own; programs other than browsers do not say."""
    if not origins:
        return True
    try:
        (origin,) = origins
        scheme, _, authority = origin.partition("://")
        page, usual = Authority.of(authority), _PORTS[scheme.lower()]
    except (ValueError, KeyError):
        return False  # also "null", of a page that has no place
    return (page.host, page.port or usual) == (asked_for.host, asked_for.port or usual)
