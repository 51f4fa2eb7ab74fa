"""Options of telling speakers apart, and their number as users write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, refuse_unused

SPEAKERS: Final = "Speakers"
"""Topic of help."""

AUTO: Final = "auto"

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
    if text == AUTO:
        return SpeakerCount()
    match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text.strip())
    if match is None:
        raise OptionError(
            f"--speakers is {text!r}, expected a number such as 2, a range such as 2-5, or {AUTO}"
        )
    fewest = int(match[1])
    most = int(match[2]) if match[2] else fewest
    return SpeakerCount(fewest, most)


def check_speaker_count(text: str) -> str:
    """Return a number of speakers as it is written, or refuse it as `parse_speaker_count` does."""
    parse_speaker_count(text)
    return text


def parse_names(text: str) -> tuple[str, ...]:
    """Return names that are separated by commas; an empty one leaves a speaker without.

    Raises:
        OptionError: a name that would break the lines or the tags of an output.
    """
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name.isprintable() or set(name) & set("<>&"):
            raise OptionError(
                f"--speaker-names has {name!r}, expected names without < > & and line ends"
            )
    return names


@dataclass(frozen=True, slots=True)
class SpeakerOptions:
    """Whether speakers are distinguished, and what they are called."""

    speakers: str | None = flag(
        None,
        "Tell speakers apart; give their number or a range such as 2-5 if you know it.",
        SPEAKERS,
        metavar="N",
        optional=AUTO,
        parse=check_speaker_count,
    )
    speaker_names: tuple[str, ...] = flag(
        (),
        "Names of the speakers, in order of appearance.",
        SPEAKERS,
        metavar="NAME,NAME",
        parse=parse_names,
    )
    speaker_models: Path | None = flag(
        None,
        "Folder of the two speaker models.",
        SPEAKERS,
        metavar="DIR",
        shown="fetched from the model hub",
    )

    @property
    def is_requested(self) -> bool:
        """Whether speakers are distinguished."""
        return self.speakers is not None

    @property
    def count(self) -> SpeakerCount | None:
        """Bounds of the number of speakers; `None` where they are not distinguished."""
        return None if self.speakers is None else parse_speaker_count(self.speakers)

    def __post_init__(self) -> None:
        refuse_unused(
            self, self.is_requested, "--speakers", "speaker_names", "speaker_models"
        )
