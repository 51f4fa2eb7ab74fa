"""Words as a window has them, in the order in which a test thinks of them."""

from __future__ import annotations

from whisper_hailo.core.types import Word


def word(
    text: str,
    tokens: tuple[int, ...],
    start_s: float = 0.0,
    end_s: float = 0.0,
    probability: float = 0.0,
) -> Word:
    return Word(start_s, end_s, text, probability, tokens)
