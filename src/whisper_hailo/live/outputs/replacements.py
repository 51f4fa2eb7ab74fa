"""Words that are shown as others: names that a model cannot know, words to mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.read_files import read_text
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial, text_of

_MARKS: Final = " .,;:!?\"'()[]{}«»“”„…-–—"  # noqa: RUF001 - dashes are meant
_ARROW: Final = "=>"


@dataclass(frozen=True, slots=True)
class Replacements:
    """Replaces words in what is shown, ignoring case and surrounding marks.

    Committed words stay committed: words that may begin a phrase are tentative until more was
    heard.

    Attributes:
        phrases: words in lower case and without marks, to what is shown.
    """

    phrases: dict[tuple[str, ...], str]

    @classmethod
    def read(cls, path: Path) -> Replacements:
        """Read a file with a line `high low => Hailo` for each; `#` begins a comment."""
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise OptionError(
                f"--replace {display_path(path)} cannot be read ({why}); check the path"
            ) from error
        phrases = {}
        for number, raw in enumerate(text.splitlines(), start=1):
            line = raw.partition("#")[0].strip()
            heard, arrow, instead = line.partition(_ARROW)
            if line and not (arrow and _word_key(heard)):
                raise OptionError(
                    f"{display_path(path)}, line {number} is {line!r}, expected HEARD {_ARROW} "
                    "SHOWN"
                )
            if line:
                phrases[_word_key(heard)] = instead.strip()
        return cls(phrases)

    def apply(self, event: Event) -> Event:
        """Return an event with the words that are shown."""
        if isinstance(event, Completed):
            words = tuple(word for _, word in self._shown(event.words))
            translation = event.translation
            if translation is not None:
                said = [CaptionWord(f" {word}") for word in translation.split()]
                translation = text_of(word for _, word in self._shown(said))
            return replace(event, words=words, translation=translation)
        if not isinstance(event, Partial):
            return event
        both = (*event.committed, *event.tentative)
        n_safe = self._n_safe(_word_keys(both), len(event.committed))
        shown = list(self._shown(both))
        return replace(
            event,
            committed=tuple(word for end, word in shown if end <= n_safe),
            tentative=tuple(word for end, word in shown if end > n_safe),
        )

    def _shown(self, words: Sequence[CaptionWord]) -> Iterator[tuple[int, CaptionWord]]:
        """Yield shown words, each with how many were heard up to its end."""
        keys, at = _word_keys(words), 0
        while at < len(words):
            n_words = self._n_matching(keys, at)
            end = at + max(1, n_words)
            yield end, self._instead(words[at:end]) if n_words else words[at]
            at = end

    def _n_matching(self, keys: tuple[str, ...], at: int) -> int:
        """Return the words of the longest phrase that begins at a place; 0 for none."""
        found = (len(phrase) for phrase in self.phrases if keys[at : at + len(phrase)] == phrase)
        return max(found, default=0)

    def _n_safe(self, keys: tuple[str, ...], n_committed: int) -> int:
        """Return how many committed words are shown the same whatever follows."""
        at = 0
        while at < n_committed:
            rest = keys[at:n_committed]
            if any(len(key) > len(rest) and key[: len(rest)] == rest for key in self.phrases):
                return at
            at += max(1, self._n_matching(keys, at))
        return at

    def _instead(self, words: Sequence[CaptionWord]) -> CaptionWord:
        """Return what is shown for a phrase, as sure as the least sure of its words."""
        first, last = words[0], words[-1]
        blank = first.text[: len(first.text) - len(first.text.lstrip())]
        marks = last.text[len(last.text.rstrip(_MARKS)) :]
        text = blank + self.phrases[_word_keys(words)] + marks
        known = [word.probability for word in words if word.probability is not None]
        return CaptionWord(text, min(known, default=None), first.start_s, last.end_s)


def _word_key(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip(_MARKS).casefold() for word in text.split())))


def _word_keys(words: Sequence[CaptionWord]) -> tuple[str, ...]:
    return tuple(word.text.strip(_MARKS).casefold() for word in words)
