"""What every engine gives: samples, and when each word is spoken."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lab.training.voices import Voice


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the text, parted by white space, marks included.

    Attributes:
        text: as written.
        start_s: where it starts.
        end_s: where it ends.
    """

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Sound:
    """What an engine made of a text.

    Attributes:
        samples: `(n_samples,)` int16, mono.
        rate_hz: their rate.
        words: all words of the text in order, or none if the engine's words could not be matched.
    """

    samples: np.ndarray
    rate_hz: int
    words: tuple[Word, ...]


class Engine(Protocol):
    """A program that speaks. Its state may depend on what it spoke before."""

    def speak(self, text: str, voice: Voice) -> Sound:
        """Speaks one sentence.

        Raises:
            RuntimeError: the engine or the voice is not there.
        """
        ...


def matched(text: str, spoken: list[tuple[str, float, float]]) -> tuple[Word, ...]:
    """Joins an engine's words to the words of `text`; engines part `twenty-one` and `don't`.

    Args:
        text: what was to be said.
        spoken: word as the engine writes it, start and end in seconds.

    Returns:
        The words of `text` with times, or none if the letters of both sides do not agree.
    """
    words = []
    at = 0
    for written in text.split():
        letters = _letters(written)
        first = at
        if not letters:
            return ()
        heard = ""
        while at < len(spoken) and len(heard) < len(letters):
            heard += _letters(spoken[at][0])
            at += 1
        if heard != letters:
            return ()
        words.append(Word(written, spoken[first][1], spoken[at - 1][2]))
    return tuple(words) if at == len(spoken) else ()


def _letters(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalpha())
