"""Sockets at which a server listens, and the certificate that it encrypts with."""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError

logger = logging.getLogger(__name__)

_WAITING: Final = 1024
"""Connections that the system keeps until they are accepted."""


def listen(host: str, port: int, shown: str, advice: str) -> socket.socket:
    """A socket that queues connections until the server is ready; see `bind`."""
    listener = bind(host, port, shown, advice)
    listener.listen()
    return listener


def bind(host: str, port: int, shown: str, advice: str) -> socket.socket:
    """A socket that has its address; who comes before it listens is refused.

    Args:
        host: a name or an address.
        port: 0 takes any free one.
        shown: where it is, for the message.
        advice: what to do where it cannot be had.
    """
    listener = _Listener(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.shown, listener.advice = shown, advice
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener.told():
        listener.bind((host, port))
    return listener


def own_address(host: str) -> str | None:
    """At which other machines reach this one, as far as it knows; `None`: it has no network."""
    family, far = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as nowhere:
        try:
            nowhere.connect((far, 9))  # an address of examples; nothing is sent, a way is chosen
        except OSError:
            return None
        return str(nowhere.getsockname()[0])


class _Listener(socket.socket):
    """For asyncio, those who may wait are as many as it accepts in one go, which are fewer.

    Attributes:
        shown: where it is, for messages.
        advice: what to do where it cannot be had.
    """

    shown: str
    advice: str
    _spare: int | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; without a descriptor for it, refuse it.

        A connection that is not accepted would wake the event loop again at once, so a spare
        descriptor is given up to accept and close it.
        """
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or self._spare is None:
                raise
        logger.warning("no file descriptors are left; connections are refused (see ulimit -n)")
        os.close(self._spare)
        self._spare = None
        try:
            super().accept()[0].close()
        finally:
            self._spare = _spare_descriptor()
        raise BlockingIOError

    def close(self) -> None:
        super().close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def listen(self, _at_once: int = 0, /) -> None:
        """Let many wait: those who find no room try again after a second only."""
        with self.told():
            super().listen(_WAITING)
        if self._spare is None:
            self._spare = _spare_descriptor()

    @contextmanager
    def told(self) -> Iterator[None]:
        """What keeps it from listening is told in one line."""
        try:
            yield
        except (OSError, ValueError, TypeError) as error:  # others: no name at all
            self.close()
            why = getattr(error, "strerror", None) or error
            raise OptionError(f"cannot listen at {self.shown} ({why}); {self.advice}") from error


def _spare_descriptor() -> int | None:
    """Return a descriptor to give up when none is left; `None` if none is left now."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Tls:
    """What HTTPS needs, if it is wanted.

    Attributes:
        cert: PEM file of the certificate, and of those that vouch for it.
        key: PEM file of its key, without a password.
        options: how both are typed, for messages.
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
        """What a server encrypts with; `None`: it does not.

        Raises:
            OptionError: the files cannot be used.
        """
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
