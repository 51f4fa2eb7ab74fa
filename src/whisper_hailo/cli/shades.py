"""Words in colours that say how sure the model was."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from whisper_hailo.core.types import Segment

_RESET: Final = "\x1b[0m"
_SHADES: Final = ((0.5, "\x1b[31m"), (0.8, "\x1b[33m"), (1.01, "\x1b[32m"))
"""Red, yellow and green: the probability up to which a word has the colour."""


def shaded(text: str, probability: float | None) -> str:
    """Colour a word for a terminal by its probability; without one it counts as sure."""
    sure = 1.0 if probability is None else probability
    colour = next(code for limit, code in _SHADES if sure < limit)
    word = text.lstrip()
    return f"{text[: len(text) - len(word)]}{colour}{word}{_RESET}"


def in_shades(segment: Segment) -> Segment:
    """Colour the words of a segment, where it has word timestamps."""
    text = "".join(shaded(word.text, word.probability) for word in segment.words).lstrip()
    return replace(segment, text=text or segment.text)
