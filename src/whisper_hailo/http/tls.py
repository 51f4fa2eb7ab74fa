"""A server's certificate and key, looked at before anything is loaded."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.core.errors import OptionError


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
