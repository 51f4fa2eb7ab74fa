"""Sockets at which a server listens, and the certificate that it encrypts with."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError

_BACKLOG: Final = 1024
"""Connections that the system keeps until they are accepted."""


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
    """A socket whose backlog is longer than what asyncio accepts in one go."""

    shown: str
    advice: str

    def listen(self, _at_once: int = 0, /) -> None:
        """Queue many connections: a client that finds no room tries again after a second only."""
        with self.translate_errors():
            super().listen(_BACKLOG)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise `OptionError` if an address cannot be listened at."""
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

    @property
    def scheme(self) -> str:
        return "http" if self.cert is None else "https"

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
