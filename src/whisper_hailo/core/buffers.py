"""What one buffer of running audio was heard as: the live layer's counterpart of a transcript."""

from __future__ import annotations

from dataclasses import dataclass, field

from whisper_hailo.core.types import Timings


@dataclass(frozen=True, slots=True)
class BufferWord:
    """A word of a buffer.

    Attributes:
        text: as it is joined to the words before, so with its leading blank where the language has
            blanks.
        tokens: its ids; empty for engines that only give text.
        probability: mean over its tokens in [0, 1]; `None` for engines that do not say.
        start_s: seconds from the buffer's start, where times were asked for.
        end_s: likewise.
    """

    text: str
    tokens: tuple[int, ...] = ()
    probability: float | None = None
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class BufferText:
    """Words of a buffer, and what they cost.

    Attributes:
        words: in order.
        language: code; the detected one where it was asked for.
        passes: decoder passes; 0 for engines with a loop of their own.
        n_accepted: ids of the draft that were confirmed.
        runaway: the token budget was used up.
        guess: ids that may follow, held back because more audio has to tell.
        translation: all of it in English, where that was asked for and it is not English.
        timings: stage times of this buffer.
    """

    words: tuple[BufferWord, ...]
    language: str = "en"
    passes: int = 0
    n_accepted: int = 0
    runaway: bool = False
    guess: tuple[int, ...] = ()
    translation: str | None = None
    timings: Timings = field(default_factory=Timings)

    @property
    def text(self) -> str:
        """The words, joined, without surrounding blanks."""
        return "".join(word.text for word in self.words).strip()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids of all words: with the guess behind them the draft of the next buffer."""
        return tuple(token for word in self.words for token in word.tokens)
