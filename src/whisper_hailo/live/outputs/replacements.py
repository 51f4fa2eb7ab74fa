"""Replacements of words in captions: names that a model cannot know, words to mask."""

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
    """Replaces phrases in captions, ignoring case and surrounding marks.

    Committed words stay as they are, so words that may begin a phrase are tentative until the next
    ones are known.

    Attributes:
        phrases: words in lower case and without marks, to the text that is shown.
    """

    phrases: dict[tuple[str, ...], str]

    @classmethod
    def read(cls, path: Path) -> Replacements:
        """Read a file with a line such as `high low => Hailo` for each; `#` begins a comment.

        Raises:
            OptionError: the file cannot be read, or a line is no replacement.
        """
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OptionError(
                f"--replace {display_path(path)} cannot be read ({reason}); check the path"
            ) from error
        phrases = {}
        for number, raw in enumerate(text.splitlines(), start=1):
            line = raw.partition("#")[0].strip()
            if not line:
                continue
            heard, arrow, shown = line.partition(_ARROW)
            key = _split_words(heard)
            if not arrow or not key:
                raise OptionError(
                    f"{display_path(path)}, line {number} is {line!r}, expected HEARD {_ARROW} "
                    "SHOWN"
                )
            phrases[key] = shown.strip()
        return cls(phrases)

    def apply(self, event: Event) -> Event:
        """Return an event with replaced words."""
        if isinstance(event, Completed):
            words = tuple(word for _, word in self._replace_words(event.words))
            translation = event.translation
            if translation is not None:
                translated = [CaptionWord(f" {word}") for word in translation.split()]
                translation = text_of(
                    word for _, word in self._replace_words(translated)
                )
            return replace(event, words=words, translation=translation)
        if not isinstance(event, Partial):
            return event
        heard = (*event.committed, *event.tentative)
        n_final = self._count_final(_normalise_words(heard), len(event.committed))
        committed: list[CaptionWord] = []
        tentative: list[CaptionWord] = []
        for end, word in self._replace_words(heard):
            if end <= n_final:
                committed.append(word)
            else:
                tentative.append(word)
        return replace(event, committed=tuple(committed), tentative=tuple(tentative))

    def _replace_words(
        self, words: Sequence[CaptionWord]
    ) -> Iterator[tuple[int, CaptionWord]]:
        """Yield the words to show, each with the number of words that were heard to its end."""
        keys = _normalise_words(words)
        start = 0
        while start < len(words):
            n_matching = self._count_matching(keys, start)
            if n_matching:
                end = start + n_matching
                yield end, self._replace_phrase(words[start:end])
            else:
                end = start + 1
                yield end, words[start]
            start = end

    def _count_matching(self, keys: tuple[str, ...], start: int) -> int:
        """Return the words of the longest phrase that begins there; 0 for none."""
        lengths = [
            len(phrase)
            for phrase in self.phrases
            if keys[start : start + len(phrase)] == phrase
        ]
        return max(lengths, default=0)

    def _count_final(self, keys: tuple[str, ...], n_committed: int) -> int:
        """Return how many committed words are shown the same whatever follows."""
        start = 0
        while start < n_committed:
            rest = keys[start:n_committed]
            for phrase in self.phrases:
                if len(phrase) > len(rest) and phrase[: len(rest)] == rest:
                    return start
            start += max(1, self._count_matching(keys, start))
        return start

    def _replace_phrase(self, words: Sequence[CaptionWord]) -> CaptionWord:
        """Return the text to show for a phrase, with the probability of its least likely word."""
        first = words[0]
        last = words[-1]
        n_blank = len(first.text) - len(first.text.lstrip())
        blank = first.text[:n_blank]
        marks = last.text[len(last.text.rstrip(_MARKS)) :]
        text = blank + self.phrases[_normalise_words(words)] + marks
        probabilities = [
            word.probability for word in words if word.probability is not None
        ]
        return CaptionWord(
            text, min(probabilities, default=None), first.start_s, last.end_s
        )


def _split_words(text: str) -> tuple[str, ...]:
    words = [word.strip(_MARKS).casefold() for word in text.split()]
    return tuple(word for word in words if word)


def _normalise_words(words: Sequence[CaptionWord]) -> tuple[str, ...]:
    return tuple(word.text.strip(_MARKS).casefold() for word in words)
