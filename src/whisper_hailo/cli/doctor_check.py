"""One finding of `doctor`, as a line of its table and of `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OK: Final = "ok"
NOTE: Final = "note"
BROKEN: Final = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at.
        status: `ok`, `note` (transcription works without it) or `broken`.
        found: what is there.
        advice: what to do; empty when nothing has to be done.
    """

    name: str
    status: str
    found: str
    advice: str = ""
