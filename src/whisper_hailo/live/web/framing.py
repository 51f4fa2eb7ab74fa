"""Whose pages may show the page in a frame of theirs."""

from __future__ import annotations

from collections.abc import Iterable

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.hosts import Authority


def frame_ancestors(origins: Iterable[str]) -> str:
    """Origins as the directive of a Content Security Policy takes them; without any, nobody's.

    Args:
        origins: such as `http://homeassistant.local:8123`.

    Raises:
        OptionError: what is no origin.
    """
    return " ".join(map(_origin, origins)) or "'none'"


def _origin(given: str) -> str:
    scheme, _, authority = given.rstrip("/").partition("://")
    try:
        Authority.of(authority)
    except ValueError:
        authority = ""
    if scheme.lower() not in ("http", "https") or not authority:
        raise OptionError(
            f"--web-frame is {given!r}, expected the origin of a page, such as "
            "http://homeassistant.local:8123"
        )
    return f"{scheme}://{authority}".lower()
