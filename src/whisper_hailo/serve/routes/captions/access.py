"""Who may do what on the caption page, and where it is served."""

from __future__ import annotations

import hmac
import re
import secrets
import ssl
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.addresses import Hosts, is_loopback, parse_origin

Right: TypeAlias = Literal["look", "record", "control"]
"""To see captions; to have one's microphone captioned; to change what is captioned and shown."""

_ALL_RIGHTS: Final[tuple[Right, ...]] = ("look", "record", "control")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{8,128}")


class Access:
    """What everybody may do who reaches the page, and what needs the token.

    A token that the user chose is needed for everything. Without one everybody may look, and record
    where only this machine reaches the page; controls need a token that is generated for this run.

    Args:
        chosen_token: the user's; `None` has one generated.
        host: where the page listens.

    Raises:
        OptionError: the token can be guessed, or does not fit into an address.
    """

    def __init__(self, chosen_token: str | None, host: str) -> None:
        if chosen_token is None:
            self.token = secrets.token_urlsafe(16)
            self._public_rights: tuple[Right, ...] = ("look",)
            if is_loopback(host):
                self._public_rights = ("look", "record")
        else:
            if not _TOKEN.fullmatch(chosen_token):
                raise OptionError(
                    "--web-token is not valid, expected 8 to 128 of A-Z a-z 0-9 . _ ~ -"
                )
            self.token = chosen_token
            self._public_rights = ()
        self.is_generated = chosen_token is None

    def rights_of(self, token: str | None) -> tuple[Right, ...] | None:
        """Return the rights of a token; `None` if it is wrong."""
        if not token:
            return self._public_rights
        # Compared as bytes: characters beyond ASCII would raise.
        is_right = hmac.compare_digest(
            token.encode(errors="replace"), self.token.encode()
        )
        return _ALL_RIGHTS if is_right else None


def format_frame_ancestors(origins: Sequence[str]) -> str:
    """Return origins as a Content Security Policy takes them; `'none'` without any.

    Raises:
        OptionError: one is not the origin of a page.
    """
    for origin in origins:
        if parse_origin(origin.rstrip("/")) is None:
            raise OptionError(
                f"--web-frame is {origin!r}, expected the origin of a page, such as "
                "http://homeassistant.local:8123"
            )
    return " ".join(origin.rstrip("/").lower() for origin in origins) or "'none'"


class PageAddress:
    """Where the page is served, and to whom; by default to this machine only.

    Args:
        names: further names of the server.
        framed_by: origins whose pages may show it in theirs.
        token: what `Access` needs; `None` has one generated.
        tls: serves HTTPS; `None` serves HTTP.
        max_viewers: connections at once; `None` is the default of all servers.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8765,
        *,
        names: Iterable[str] = (),
        framed_by: Sequence[str] = (),
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        max_viewers: int | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.hosts = Hosts(host, names)
        self.access = Access(token, host)
        self.frame_ancestors = format_frame_ancestors(framed_by)
        self.tls = tls
        self.max_viewers = max_viewers
