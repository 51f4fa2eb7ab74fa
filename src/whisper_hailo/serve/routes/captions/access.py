"""Who may look at captions, speak into them, control them, and show their page in a frame."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.hosts import Authority, is_loopback
from whisper_hailo.serve.api_keys import is_one_of

Right: TypeAlias = Literal["look", "record", "control"]
"""To see captions; to have one's microphone captioned; to change what is captioned and shown."""

_ALL: Final[tuple[Right, ...]] = ("look", "record", "control")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{8,128}")


@dataclass(frozen=True, slots=True)
class Access:
    """What is free, and what needs the token.

    Attributes:
        token: grants all rights.
        free: what everybody may do who reaches the page.
        is_generated: it holds for this run only, and has to be told.
    """

    token: str
    free: tuple[Right, ...]
    is_generated: bool = False

    @classmethod
    def of(cls, given: str | None, host: str) -> Self:
        """For a page that is served at an address.

        A token that was given is needed for everything. Without one everybody may look, and record
        where only this machine reaches the page; controls need one that is made up.

        Raises:
            OptionError: a token that could be guessed, or does not fit into an address.
        """
        if given is not None:
            if not _TOKEN.fullmatch(given):
                raise OptionError(
                    "--web-token is too short, too long or has other letters, expected 8 to 128 "
                    "of A-Z a-z 0-9 . _ ~ -"
                )
            return cls(given, ())
        free: tuple[Right, ...] = ("look", "record") if is_loopback(host) else ("look",)
        return cls(secrets.token_urlsafe(16), free, is_generated=True)

    def rights(self, token: str | None) -> tuple[Right, ...] | None:
        """What somebody may do; `None`: the token that they have is wrong."""
        if not token:
            return self.free
        return _ALL if is_one_of(token, [self.token]) else None


def frame_ancestors(origins: Iterable[str]) -> str:
    """Origins as a Content Security Policy directive takes them; `'none'` without any."""
    return " ".join(map(_origin, origins)) or "'none'"


def _origin(given: str) -> str:
    scheme, _, authority = given.rstrip("/").partition("://")
    try:
        Authority.of(authority)
    except ValueError:
        authority = ""
    if scheme.lower() not in ("http", "https") or not authority:
        raise OptionError(
            f"web-frame is {given!r}, expected the origin of a page, such as "
            "http://homeassistant.local:8123"
        )
    return f"{scheme}://{authority}".lower()
