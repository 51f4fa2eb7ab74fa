"""Settings of a server, validated once."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import expect, flag
from whisper_hailo.core.names import shown
from whisper_hailo.http.hosts import Network
from whisper_hailo.http.listening import Tls

LIMITS: Final = "Limits"
SAFETY: Final = "Safety"
"""Topics of help."""

DEFAULT_HTTP: Final = "127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a door is.

    Attributes:
        host: a name or an address.
        port: 0 takes any free one.
    """

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """What is typed: `127.0.0.1:8000`, `[::1]:8000`, `tcp://0.0.0.0:10300`.

        Raises:
            ValueError: something else.
        """
        expected = "an address and a port, such as 127.0.0.1:8000"
        parts = urlsplit(text if "://" in text else f"tcp://{text}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(expected) from None
        if parts.scheme != "tcp" or not host or port is None or parts.path.strip("/"):
            raise ValueError(expected)
        return cls(host, port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """Which doors there are, and where; without any there is HTTP on this machine.

    Attributes:
        http: OpenAI's API and others.
        wyoming: Home Assistant's protocol.
        zeroconf: name by which Home Assistant finds the Wyoming door by itself.
        alias: further names that clients may use for the model.
        drain_s: time for requests under way when the server is told to end.
        log_json: each line of the log is an object.
        log_text: texts of transcripts are logged.
    """

    http: Address | None = flag(
        None, "Serve HTTP there.", metavar="HOST:PORT", shown=DEFAULT_HTTP, parse=Address.of
    )
    wyoming: Address | None = flag(
        None, "Serve Wyoming there.", metavar="tcp://HOST:PORT", parse=Address.of
    )
    zeroconf: str | None = flag(None, "Announce Wyoming by this name.", metavar="NAME")
    alias: tuple[str, ...] = flag(
        (), "Further name of the model, beside whisper-1.", metavar="NAME"
    )
    drain_s: float = flag(30.0, "For requests under way at the end.", name="--drain", metavar="S")
    log_json: bool = flag(False, "Log lines are JSON.")
    log_text: bool = flag(False, "Log the texts of transcripts, too.")

    def __post_init__(self) -> None:
        expect(self, "drain_s", 0 <= self.drain_s <= 3600, "0 to 3600 s")
        if self.zeroconf is not None and self.wyoming is None:
            raise OptionError("--zeroconf announces the Wyoming door; give --wyoming, too")


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """How much is taken on.

    Attributes:
        batch_size: windows decoded together.
        queue: unfinished requests in all.
        queue_each: unfinished requests of one client.
        live: streams that are heard as they come.
        rate: requests of one client per minute; 0 is any number.
        max_upload_mib: of one request, as it is sent.
        max_stored_mib: of all requests together, as they are sent and decoded.
        max_audio_s: of one request, as it is heard.
        deadline_s: of one request, from asking to the last word.
        connections: at once.
        release_after_s: so long without a request gives the model's memory back.
    """

    batch_size: int = flag(8, "Windows decoded together.", LIMITS)
    queue: int = flag(64, "Requests under way or waiting.", LIMITS)
    queue_each: int = flag(16, "Of one client.", LIMITS)
    live: int = flag(16, "Live streams at once.", LIMITS, name="--max-live")
    rate: int = flag(0, "Requests of a client per minute; 0: any.", LIMITS)
    max_upload_mib: int = flag(512, "Of one request.", LIMITS, name="--max-upload", metavar="MIB")
    max_stored_mib: int = flag(
        4096, "Of all requests together.", LIMITS, name="--max-stored", metavar="MIB"
    )
    max_audio_s: float = flag(
        4 * 3600.0, "Of one request.", LIMITS, name="--max-audio", metavar="S"
    )
    deadline_s: float = flag(
        3600.0, "From asking to the last word.", LIMITS, name="--deadline", metavar="S"
    )
    connections: int = flag(256, "At once.", LIMITS, name="--max-connections")
    release_after_s: float | None = flag(
        None, "Without a request for so long: free memory.", LIMITS, name="--release-after",
        metavar="S",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name in (
            "queue",
            "queue_each",
            "live",
            "max_upload_mib",
            "max_stored_mib",
            "connections",
        ):
            expect(self, name, 1 <= getattr(self, name) <= 1 << 20, "1 or more")
        expect(self, "batch_size", 1 <= self.batch_size <= 256, "1 to 256")
        expect(self, "rate", self.rate >= 0, "0 (any) or a number of requests")
        for name in ("max_audio_s", "deadline_s"):
            expect(self, name, 0 < getattr(self, name) <= 7 * 86_400, "seconds, more than 0")
        rest_s = self.release_after_s
        expect(self, "release_after_s", rest_s is None or rest_s > 0, "seconds, more than 0")


@dataclass(frozen=True, slots=True)
class SafetyOptions:
    """Who may ask.

    Attributes:
        api_key: HTTP needs one of these; seen by everyone who can list processes, unlike those of
            the environment or a file.
        api_key_file: one key per line; blank lines and those that begin with # are ignored.
        allow_host: names by which the server may be asked for, beside its own.
        allow_origin: pages of others that may ask.
        trusted_proxy: addresses or networks of reverse proxies; what they say of a client's
            address, scheme and host is believed.
        tls_cert: PEM file of the certificate; HTTP is HTTPS with it.
        tls_key: PEM file of its key.
    """

    api_key: tuple[str, ...] = flag((), "HTTP needs one.", SAFETY, metavar="KEY")
    api_key_file: Path | None = flag(
        None, "One key per line; # begins a comment.", SAFETY, metavar="FILE"
    )
    allow_host: tuple[str, ...] = flag(
        (), "Further name of the server; *.lan: any below.", SAFETY, metavar="NAME"
    )
    allow_origin: tuple[str, ...] = flag(
        (), "Pages of this origin may ask (CORS).", SAFETY, metavar="ORIGIN"
    )
    trusted_proxy: tuple[str, ...] = flag(
        (), "Believe X-Forwarded-... of this proxy.", SAFETY, metavar="ADDRESS"
    )
    tls_cert: Path | None = flag(None, "Serve HTTPS.", SAFETY, metavar="FILE")
    tls_key: Path | None = flag(None, "Of the certificate.", SAFETY, metavar="FILE")

    def __post_init__(self) -> None:
        self.tls  # noqa: B018 - refuses one without the other
        self.proxies  # noqa: B018 - refuses what is no address
        for origin in self.allow_origin:
            parts = urlsplit(origin)
            if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path:
                raise OptionError(
                    f"--allow-origin is {origin!r}, expected one such as https://home.example"
                )

    @property
    def tls(self) -> Tls:
        """What HTTPS is served with."""
        return Tls(self.tls_cert, self.tls_key)

    @property
    def proxies(self) -> tuple[Network, ...]:
        """The networks of trusted proxies.

        Raises:
            OptionError: something is no address and no network.
        """
        try:
            return tuple(map(ipaddress.ip_network, self.trusted_proxy))
        except ValueError as error:
            raise OptionError(
                f"--trusted-proxy: {error}; expected an address or a network such as 172.18.0.0/16"
            ) from error

    def keys(self) -> tuple[str, ...]:
        """All keys; none where everybody may ask.

        Raises:
            OptionError: the file cannot be read or holds none, or a key is blank.
        """
        keys = list(self.api_key)
        if self.api_key_file is not None:
            try:
                text = self.api_key_file.read_text(encoding="utf-8")
            except (OSError, UnicodeError) as error:
                raise OptionError(
                    f"--api-key-file {shown(self.api_key_file)} cannot be read "
                    f"({type(error).__name__}); expected a text file with a key a line"
                ) from error
            stripped = (line.strip() for line in text.splitlines())
            lines = [line for line in stripped if line and not line.startswith("#")]
            if not lines:
                raise OptionError(
                    f"--api-key-file {shown(self.api_key_file)} holds no key; write one per line"
                )
            keys += lines
        if not all(key.strip() and key.isascii() for key in keys):
            raise OptionError("--api-key is blank or has letters beyond ASCII; give another one")
        return tuple(keys)
