"""When an output that grows goes on in a new file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

_UNITS: Final = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a file that grows is left for a new one.

    Attributes:
        most_bytes: it would become larger; `None` is any size.
        daily: the day is over, by local time; the names of files have their day.
    """

    most_bytes: int | None = None
    daily: bool = False

    @classmethod
    def of(cls, text: str) -> Rotation:
        """As it is typed: `day`, or a size such as `100MB`.

        Raises:
            ValueError: neither.
        """
        if text == "day":
            return cls(daily=True)
        found = re.fullmatch(r"(\d{1,9})([KMG])B?", text.strip().upper())
        size = int(found[1]) * _UNITS[found[2]] if found else 0
        if not size:
            raise ValueError("day, or a size such as 100MB (at least 1KB)")
        return cls(most_bytes=size)

    @property
    def day(self) -> str:
        """What a name has between stem and ending: the day that it is now, if that matters."""
        return f".{date.today().isoformat()}" if self.daily else ""
