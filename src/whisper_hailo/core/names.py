"""How names that users gave to files are shown in messages."""

from __future__ import annotations

from pathlib import Path


def shown(name: str | Path) -> str:
    """A name as it is, or quoted where it has something that cannot be seen or moves a cursor."""
    text = str(name)
    plain = text.isprintable() and text == text.strip() and text
    return text if plain else repr(text)
