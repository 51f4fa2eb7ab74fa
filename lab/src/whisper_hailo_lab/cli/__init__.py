"""The commands that measure; `whisper-hailo` finds them by their entry points."""

from __future__ import annotations

from collections.abc import Callable


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds, for `Flag.parse`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"a whole number, {least} to {most}")
        return int(text)

    return parse
