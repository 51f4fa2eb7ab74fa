"""Settings of a server, validated once."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import flag, require_valid
from whisper_hailo.core.read_files import read_text
from whisper_hailo.http.addresses import Network, make_tls_context, parse_origin

LIMITS: Final = "Limits"
SAFETY: Final = "Safety"  # Topics of help

RELEASE_AFTER_S: Final = 300.0  # Of models other than the first; loading one takes a second or so
DEFAULT_HTTP: Final = "127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes any free one."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Parse what is typed: `127.0.0.1:8000`, `[::1]:8000`, `tcp://0.0.0.0:10300`."""
        expected = "an address and a port, such as 127.0.0.1:8000"
        parts = urlsplit(text if "://" in text else f"tcp://{text}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(expected) from None
        if parts.scheme != "tcp" or not host or port is None or parts.path.strip("/"):
            raise ValueError(expected)
        return cls(host, port)


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """What is served, and where; HTTP on this machine unless told otherwise."""

    model: tuple[str, ...] = flag(
        ("tiny",), "Model name, hub id or directory; again for further models.",
        short="-m", metavar="NAME", shown="tiny",
    )  # fmt: skip
    http: Address | None = flag(
        None, "Serve OpenAI's API and others by HTTP.",
        metavar="HOST:PORT", shown=DEFAULT_HTTP, parse=Address.of,
    )  # fmt: skip
    wyoming: Address | None = flag(
        None, "Serve Home Assistant's Wyoming.", metavar="tcp://HOST:PORT", parse=Address.of
    )
    endpointing: bool = flag(True, "Find the end of a spoken command (Wyoming).", rare=True)
    zeroconf: str | None = flag(None, "Announce Wyoming by this name (mDNS).", metavar="NAME")
    alias: tuple[str, ...] = flag((), "Further name of the first model.", metavar="NAME")
    drain_s: float = flag(
        30.0, "Seconds to finish requests at the end.", name="--drain", metavar="S",
        rare=True,
    )  # fmt: skip
    speaker_models: Path | None = flag(
        None, "Folder of the two speaker models.", metavar="DIR",
        shown="fetched from the model hub", rare=True,
    )  # fmt: skip
    log_text: bool = flag(False, "Log transcripts, too.")

    def __post_init__(self) -> None:
        require_valid(self, "drain_s", 0 <= self.drain_s <= 3600, "0 to 3600 s")
        if self.zeroconf is not None and self.wyoming is None:
            raise OptionError("--zeroconf announces Wyoming; give --wyoming, too")


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """How much is taken on, of all clients and of each."""

    batch_size: int = flag(8, "Windows decoded together.", LIMITS)
    queue: int = flag(64, "Unfinished requests in all.", LIMITS)
    queue_each: int = flag(16, "Unfinished requests of a client.", LIMITS, rare=True)
    live: int = flag(16, "Limit of live streams.", LIMITS, name="--max-live", rare=True)
    rate: int = flag(0, "Rate limit per client and minute; 0 is off.", LIMITS)
    max_upload_mib: int = flag(
        512, "Size of a request.", LIMITS, name="--max-upload", metavar="MIB"
    )
    max_stored_mib: int = flag(
        4096, "Size of all requests together.", LIMITS, name="--max-stored", metavar="MIB",
        rare=True,
    )  # fmt: skip
    max_audio_s: float = flag(
        4 * 3600.0, "Length of a recording.", LIMITS, name="--max-audio", metavar="S"
    )
    deadline_s: float = flag(
        3600.0, "Deadline of a request.", LIMITS, name="--deadline", metavar="S"
    )
    connections: int = flag(
        256, "Connections at once.", LIMITS, name="--max-connections", rare=True
    )
    max_memory_mib: int | None = flag(
        None, "Memory of all loaded models.", LIMITS, name="--max-memory", metavar="MIB"
    )
    release_after_s: float | None = flag(
        None, "Free a model's memory when idle so long.", LIMITS, name="--release-after",
        metavar="S", shown=f"{RELEASE_AFTER_S:g}, never for the first model",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name in (
            "queue", "queue_each", "live", "max_upload_mib", "max_stored_mib", "connections",
        ):  # fmt: skip
            require_valid(self, name, 1 <= getattr(self, name) <= 1 << 20, "1 or more")
        most, rest_s = self.max_memory_mib, self.release_after_s
        require_valid(self, "max_memory_mib", most is None or most >= 1, "MiB, 1 or more")
        require_valid(self, "batch_size", 1 <= self.batch_size <= 256, "1 to 256")
        require_valid(self, "rate", self.rate >= 0, "0 (any) or a number of requests")
        for name in ("max_audio_s", "deadline_s"):
            require_valid(self, name, 0 < getattr(self, name) <= 7 * 86_400, "seconds, more than 0")
        require_valid(self, "release_after_s", rest_s is None or rest_s > 0, "seconds, more than 0")

    @property
    def max_upload_bytes(self) -> int:
        return self.max_upload_mib << 20


@dataclass(frozen=True, slots=True)
class SafetyOptions:
    """Who may ask, and over what.

    A key in `api_key` is seen by everyone who can list processes; those of a file are not.
    """

    api_key: tuple[str, ...] = flag((), "API key that HTTP needs.", SAFETY, metavar="KEY")
    api_key_file: Path | None = flag(
        None, "File of API keys, one per line.", SAFETY, metavar="FILE"
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
    tls_cert: Path | None = flag(None, "Certificate (PEM); serves HTTPS.", SAFETY, metavar="FILE")
    tls_key: Path | None = flag(None, "Key of the certificate (PEM).", SAFETY, metavar="FILE")

    def __post_init__(self) -> None:
        self.proxies  # noqa: B018 - refuses what is no address
        for origin in self.allow_origin:
            if parse_origin(origin) is None:
                raise OptionError(
                    f"--allow-origin is {origin!r}, expected one such as https://home.example"
                )

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of HTTPS; `None` for HTTP."""
        return make_tls_context(self.tls_cert, self.tls_key)

    @property
    def proxies(self) -> tuple[Network, ...]:
        """The networks of trusted proxies."""
        try:
            return tuple(map(ipaddress.ip_network, self.trusted_proxy))
        except ValueError as error:
            raise OptionError(
                f"--trusted-proxy: {error}; expected an address or a network such as 172.18.0.0/16"
            ) from error

    def keys(self) -> tuple[str, ...]:
        """Return all keys; none where everybody may ask."""
        keys = list(self.api_key)
        if self.api_key_file is not None:
            shown = f"--api-key-file {display_path(self.api_key_file)}"
            try:
                lines = read_text(self.api_key_file).splitlines()
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                raise OptionError(
                    f"{shown} cannot be read ({why}); expected a text file with a key a line"
                ) from error
            found = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
            if not found:
                raise OptionError(f"{shown} holds no key; write one per line")
            keys += found
        if not all(key.strip() and key.isascii() for key in keys):
            raise OptionError("--api-key is blank or has letters beyond ASCII; give another one")
        return tuple(keys)
