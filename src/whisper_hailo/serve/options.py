"""Settings of a server, validated once."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import flag, require_valid
from whisper_hailo.core.read_files import read_text
from whisper_hailo.http.addresses import Network, make_tls_context, parse_origin

LIMITS: Final = "Limits"
SAFETY: Final = "Safety"
"""Topics of help."""

RELEASE_AFTER_S: Final = 300.0
"""Of models other than the first; loading one takes a second or so."""

DEFAULT_HTTP: Final = "127.0.0.1:8000"

_MAX_COUNT: Final = 1 << 20
_MAX_DRAIN_S: Final = 3600.0
_MAX_BATCH_SIZE: Final = 256
_WEEK_S: Final = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse what users type: `127.0.0.1:8000`, `[::1]:8000`, `tcp://0.0.0.0:10300`.

        Raises:
            ValueError: it is no such address; the message says what is expected.
        """
        expected = "an address and a port, such as 127.0.0.1:8000"
        parts = urlsplit(text if "://" in text else f"tcp://{text}")
        try:
            port = parts.port
        except ValueError:
            raise ValueError(expected) from None
        if (
            parts.scheme != "tcp"
            or not parts.hostname
            or port is None
            or parts.path.strip("/")
        ):
            raise ValueError(expected)
        return cls(parts.hostname, port)


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """What is served, and where; HTTP on this machine unless users say otherwise."""

    model: tuple[str, ...] = flag(
        ("tiny",),
        "Model name, hub id, directory or file; repeat for more models.",
        short="-m",
        metavar="NAME",
        shown="tiny",
    )
    http: Address | None = flag(
        None,
        "Serve OpenAI's API and others over HTTP.",
        metavar="HOST:PORT",
        shown=DEFAULT_HTTP,
        parse=Address.parse,
    )
    wyoming: Address | None = flag(
        None,
        "Serve Wyoming, Home Assistant's protocol.",
        metavar="tcp://HOST:PORT",
        parse=Address.parse,
    )
    endpointing: bool = flag(
        False, "Answer when a command ends, before audio-stop (Wyoming)."
    )
    zeroconf: str | None = flag(
        None, "Announce Wyoming under this name (mDNS).", metavar="NAME"
    )
    alias: tuple[str, ...] = flag((), "Alias of the first model.", metavar="NAME")
    drain_s: float = flag(
        30.0,
        "Time to finish requests at shutdown.",
        name="--drain",
        metavar="S",
        rare=True,
    )
    speaker_models: Path | None = flag(
        None,
        "Folder of the two speaker models.",
        metavar="DIR",
        shown="fetched from the model hub",
        rare=True,
    )
    log_text: bool = flag(False, "Log transcripts, too.")
    log_json: bool = flag(False, "Log JSON, one object per line.")

    def __post_init__(self) -> None:
        is_valid = 0 <= self.drain_s <= _MAX_DRAIN_S
        require_valid(self, "drain_s", is_valid, f"0 to {_MAX_DRAIN_S:g} s")
        if self.zeroconf is not None and self.wyoming is None:
            raise OptionError("--zeroconf announces Wyoming; give --wyoming too")


@dataclass(frozen=True, slots=True)
class HomeAssistantOptions:
    """The home whose names are expected in commands over Wyoming."""

    home_assistant: str | None = flag(
        None,
        "Expect names of this Home Assistant in commands (Wyoming).",
        metavar="URL",
    )
    home_assistant_token_file: Path | None = flag(
        None, "File with a long-lived access token for it.", metavar="FILE"
    )

    def __post_init__(self) -> None:
        if (self.home_assistant is None) != (self.home_assistant_token_file is None):
            raise OptionError(
                "--home-assistant and --home-assistant-token-file need each other; give both"
            )
        if self.home_assistant is not None:
            self.websocket_url  # noqa: B018 - refuses what is no address

    @property
    def websocket_url(self) -> str:
        """Address of its WebSocket API."""
        url = str(self.home_assistant)
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise OptionError(
                f"--home-assistant is {url!r}, expected an address such as "
                "http://homeassistant.local:8123"
            )
        path = f"{parts.path.rstrip('/')}/api/websocket"
        scheme = parts.scheme.replace("http", "ws")
        return parts._replace(scheme=scheme, path=path, query="", fragment="").geturl()

    def token(self) -> str:
        """Return the token, which may be renewed in its file at any time.

        Raises:
            OptionError: the file cannot be read.
        """
        path = self.home_assistant_token_file
        return _read_keys("--home-assistant-token-file", cast(Path, path))[0]


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """How much is accepted, of all clients and of each."""

    batch_size: int = flag(4, "Windows decoded together.", LIMITS)
    queue: int = flag(64, "Limit of unfinished requests in total.", LIMITS)
    queue_each: int = flag(
        16, "Limit of unfinished requests per client.", LIMITS, rare=True
    )
    live: int = flag(16, "Limit of live streams.", LIMITS, name="--max-live", rare=True)
    rate: int = flag(0, "Rate limit per client and minute; 0 is off.", LIMITS)
    max_upload_mib: int = flag(
        512, "Maximum size of a request.", LIMITS, name="--max-upload", metavar="MIB"
    )
    max_stored_mib: int = flag(
        4096,
        "Maximum size of all requests together.",
        LIMITS,
        name="--max-stored",
        metavar="MIB",
        rare=True,
    )
    max_audio_s: float = flag(
        4 * 3600.0,
        "Maximum length of a recording.",
        LIMITS,
        name="--max-audio",
        metavar="S",
    )
    deadline_s: float = flag(
        3600.0, "Deadline of a request.", LIMITS, name="--deadline", metavar="S"
    )
    connections: int = flag(
        256, "Connections at once.", LIMITS, name="--max-connections", rare=True
    )
    max_memory_mib: int | None = flag(
        None,
        "Memory limit of all loaded models.",
        LIMITS,
        name="--max-memory",
        metavar="MIB",
    )
    release_after_s: float | None = flag(
        None,
        "Unload a model after this long without requests.",
        LIMITS,
        name="--release-after",
        metavar="S",
        shown=f"{RELEASE_AFTER_S:g}, never for the first model",
    )

    def __post_init__(self) -> None:
        for name in ("queue", "queue_each", "live", "max_upload_mib", "max_stored_mib"):
            self._require_count(name)
        self._require_count("connections")
        require_valid(
            self, "batch_size", 1 <= self.batch_size <= _MAX_BATCH_SIZE, "1 to 256"
        )
        require_valid(self, "rate", self.rate >= 0, "0 (any) or a number of requests")
        for name in ("max_audio_s", "deadline_s"):
            is_valid = 0 < getattr(self, name) <= _WEEK_S
            require_valid(self, name, is_valid, "seconds, more than 0")
        if self.max_memory_mib is not None:
            require_valid(
                self, "max_memory_mib", self.max_memory_mib >= 1, "MiB, 1 or more"
            )
        if self.release_after_s is not None:
            is_valid = self.release_after_s > 0
            require_valid(self, "release_after_s", is_valid, "seconds, more than 0")

    def for_wyoming(self) -> LimitOptions:
        """Return the limits of Wyoming, half of these, which it does not share with HTTP."""
        return replace(
            self,
            queue=_half_of(self.queue),
            max_stored_mib=_half_of(self.max_stored_mib),
            connections=_half_of(self.connections),
        )

    def _require_count(self, name: str) -> None:
        require_valid(self, name, 1 <= getattr(self, name) <= _MAX_COUNT, "1 or more")

    @property
    def max_upload_bytes(self) -> int:
        """Size of a request in bytes."""
        return self.max_upload_mib << 20


def _half_of(count: int) -> int:
    return max(1, count // 2)


@dataclass(frozen=True, slots=True)
class SafetyOptions:
    """Who may use the server, and over what.

    A key in `api_key` is seen by everyone who can list processes; those of a file are not.
    """

    api_key: tuple[str, ...] = flag(
        (), "API key required over HTTP.", SAFETY, metavar="KEY"
    )
    api_key_file: Path | None = flag(
        None, "File of API keys, one per line.", SAFETY, metavar="FILE"
    )
    allow_host: tuple[str, ...] = flag(
        (), "Additional host name; *.lan allows all below.", SAFETY, metavar="NAME"
    )
    allow_origin: tuple[str, ...] = flag(
        (), "Let pages of this origin call (CORS).", SAFETY, metavar="ORIGIN"
    )
    trusted_proxy: tuple[str, ...] = flag(
        (), "Trust X-Forwarded-... headers of this proxy.", SAFETY, metavar="ADDRESS"
    )
    allow_wyoming: tuple[str, ...] = flag(
        (), "Let only these addresses use Wyoming.", SAFETY, metavar="ADDRESS"
    )
    tls_cert: Path | None = flag(
        None, "Serve HTTPS with this certificate (PEM).", SAFETY, metavar="FILE"
    )
    tls_key: Path | None = flag(
        None, "Private key of the certificate (PEM).", SAFETY, metavar="FILE"
    )

    def __post_init__(self) -> None:
        # Both raise for what is no address.
        self.proxies  # noqa: B018
        self.wyoming_clients  # noqa: B018
        for origin in self.allow_origin:
            if parse_origin(origin) is None:
                raise OptionError(
                    f"--allow-origin is {origin!r}, expected one such as https://home.example"
                )

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of HTTPS; `None` for HTTP.

        Raises:
            OptionError: the certificate or its key cannot be used.
        """
        return make_tls_context(self.tls_cert, self.tls_key)

    @property
    def proxies(self) -> tuple[Network, ...]:
        """Networks of trusted proxies."""
        return _parse_networks("--trusted-proxy", self.trusted_proxy)

    @property
    def wyoming_clients(self) -> tuple[Network, ...]:
        """Networks whose clients may use Wyoming; none where all may."""
        return _parse_networks("--allow-wyoming", self.allow_wyoming)

    def keys(self) -> tuple[str, ...]:
        """Return all API keys; none where everybody may use the server.

        Raises:
            OptionError: the file cannot be read, or a key cannot be sent in a header.
        """
        keys = list(self.api_key)
        if self.api_key_file is not None:
            keys += _read_keys("--api-key-file", self.api_key_file)
        for key in keys:
            if not key.strip() or not key.isascii():
                raise OptionError(
                    "--api-key is blank or has characters beyond ASCII; choose another key"
                )
        return tuple(keys)


def _parse_networks(option: str, addresses: Iterable[str]) -> tuple[Network, ...]:
    """Return addresses and networks, as an option lists them.

    Raises:
        OptionError: one is neither.
    """
    try:
        return tuple(ipaddress.ip_network(address) for address in addresses)
    except ValueError as error:
        raise OptionError(
            f"{option}: {error}; expected an address or a network such as 172.18.0.0/16"
        ) from error


def _read_keys(option: str, path: Path) -> list[str]:
    """Return the keys in the file of an option, without comments."""
    option = f"{option} {display_path(path)}"
    try:
        lines = read_text(path).splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(
            f"{option} cannot be read ({reason}); expected a text file with one key per line"
        ) from error
    keys = [line.strip() for line in lines]
    keys = [key for key in keys if key and not key.startswith("#")]
    if not keys:
        raise OptionError(f"{option} holds no key; write one per line")
    return keys
