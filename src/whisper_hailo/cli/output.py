"""Options of results: formats, places, subtitles; words in colours of their probability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, option_group, refuse_unused
from whisper_hailo.core.types import Segment
from whisper_hailo.text.outputs import ALL_FORMATS, FORMATS
from whisper_hailo.text.subtitles import Layout

_RESET: Final = "\x1b[0m"
_SHADES: Final = ((0.5, "\x1b[31m"), (0.8, "\x1b[33m"), (1.01, "\x1b[32m"))
"""Red, yellow and green: the probability up to which a word has the colour."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Formats and places of the results.

    Raises:
        OptionError: an unknown format, several of them on standard output, or an option that needs
            another one.
    """

    fmt: tuple[str, ...] = flag(
        (), f"{', '.join(FORMATS)}, {ALL_FORMATS}.", name="--format", short="-f",
        also=("--output-format",), metavar="LIST", shown="txt",
    )  # fmt: skip
    output_dir: Path | None = flag(
        None, "Write files there, not to standard output.", short="-o", metavar="DIR"
    )
    skip_existing: bool = flag(
        False, "Skip finished, resume interrupted recordings.", also=("--resume",)
    )
    as_json: bool = flag(False, "Print one JSON object per input.", name="--json")
    colour: bool = flag(False, "Shade words by confidence.", also=("--color",))
    layout: Layout = option_group(Layout)

    def __post_init__(self) -> None:
        if self.output_dir == Path("-"):
            raise OptionError(
                "--output-dir is '-', expected a folder; leave it out to write to standard output"
            )
        wrong = [fmt for fmt in self._named if fmt not in (*FORMATS, ALL_FORMATS)]
        if wrong:
            known = ", ".join((*FORMATS, ALL_FORMATS))
            raise OptionError(f"--format is {wrong[0]!r}, expected one of: {known}")
        if self.output_dir is None and len(self.formats) > 1:
            several = " ".join(self._named)
            raise OptionError(f"--format {several} writes several files; give --output-dir")
        if self.output_dir is None and self.skip_existing:
            raise OptionError("--skip-existing needs --output-dir; give both")
        as_text = self.output_dir is None and not self.as_json and self.formats == ("txt",)
        refuse_unused(self, "colour", as_text, "text on a terminal")

    @property
    def _named(self) -> list[str]:
        """Split the formats that were typed, also at commas."""
        words = [word.strip().lower() for given in self.fmt for word in given.split(",")]
        return [word for word in words if word] or ["txt"]

    @property
    def formats(self) -> tuple[str, ...]:
        """Return the formats to write, without duplicates."""
        return FORMATS if ALL_FORMATS in self._named else tuple(dict.fromkeys(self._named))


def shaded(text: str, probability: float | None) -> str:
    """Colour a word for a terminal by its probability; without one it counts as certain."""
    sure = 1.0 if probability is None else probability
    colour = next(code for limit, code in _SHADES if sure < limit)
    word = text.lstrip()
    return f"{text[: len(text) - len(word)]}{colour}{word}{_RESET}"


def in_shades(segment: Segment) -> Segment:
    """Colour the words of a segment, where it has word timestamps."""
    text = "".join(shaded(word.text, word.probability) for word in segment.words).lstrip()
    return replace(segment, text=text or segment.text)
