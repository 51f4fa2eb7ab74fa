"""How a Hailo chip is used: alone or shared, with which priority, for how long at most."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from whisper_hailo.core.flags import CHIP, flag, require_valid

GROUP: Final = "SHARED"
"""Processes that name the same group share a chip; the vendor's examples use this name."""

_LONGEST_S: Final = 3600.0


class ChipPriority(IntEnum):
    """Who goes first when several networks wait; HailoRT counts from 0 to 31, 16 is normal."""

    BATCH = 12
    NORMAL = 16
    LIVE = 24


@dataclass(frozen=True, slots=True)
class ChipOptions:
    """What a caller asks of the chip.

    Attributes:
        share: with other processes, through HailoRT's service on an 8 or 8L, by group on a 10H.
        priority: of this process's networks; it matters where several are on one chip.
        timeout_s: for one run; the chip then counts as lost.
        open_timeout_s: to open the device and load a network.
        recovery_s: how long a chip that went away is waited for before a file is given up.
    """

    share: bool = flag(False, "Share the Hailo chip with other processes.", CHIP)
    priority: ChipPriority = ChipPriority.NORMAL
    timeout_s: float = flag(
        10.0,
        "Time-out of one run on the chip.",
        CHIP,
        name="--device-timeout",
        metavar="S",
        settings_only=True,
    )
    open_timeout_s: float = 60.0
    recovery_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("timeout_s", "open_timeout_s"):
            fits = 0 < getattr(self, name) <= _LONGEST_S
            require_valid(self, name, fits, f"more than 0 and at most {_LONGEST_S:g} s")
        fits = 0 <= self.recovery_s <= _LONGEST_S
        require_valid(self, "recovery_s", fits, f"0 to {_LONGEST_S:g} s")


ALONE: Final = ChipOptions()
"""The chip for this process alone."""
