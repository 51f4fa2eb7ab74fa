"""How many speakers are looked for, as users write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.errors import OptionError

MAX_SPEAKERS: Final = 50
"""More than any meeting; it also bounds the memory of what is summed per speaker."""


@dataclass(frozen=True, slots=True)
class SpeakerCount:
    """The fewest and the most speakers that a recording may have."""

    fewest: int = 1
    most: int = MAX_SPEAKERS

    def __post_init__(self) -> None:
        if not 1 <= self.fewest <= self.most <= MAX_SPEAKERS:
            raise OptionError(
                f"--speakers is {self.fewest}-{self.most}, expected 1 to {MAX_SPEAKERS}, the "
                "smaller number first"
            )


def parse_speaker_count(text: str) -> SpeakerCount:
    """Return the bounds of `auto`, of a number such as `2`, or of a range such as `2-5`.

    Raises:
        OptionError: none of them, or numbers out of bounds.
    """
    if text == "auto":
        return SpeakerCount()
    match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text.strip())
    if match is None:
        raise OptionError(
            f"--speakers is {text!r}, expected a number such as 2, a range such as 2-5, or auto"
        )
    fewest = int(match[1])
    most = int(match[2]) if match[2] else fewest
    return SpeakerCount(fewest, most)
