"""Words that are shown as others: names that a model cannot know, and words that are masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.files import read_text
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
        """Read a file with a line `high low => Hailo` for each; `#` begins a comment.

        Raises:
            OptionError: it cannot be read, or a line has no arrow or no words before it.
        """
        phrases = {}
        for number, line in _lines(path, "--replace"):
            heard, arrow, instead = line.partition(_ARROW)
            if not arrow or not _key(heard):
                raise OptionError(
                    f"{display_path(path)}, line {number} is {line!r}, expected HEARD {_ARROW} "
                    "SHOWN"
                )
            phrases[_key(heard)] = instead.strip()
        return cls(phrases)

    @classmethod
    def masks(cls, path: Path) -> Replacements:
        """Read a file with a word or phrase per line, whose letters but the first are masked.

        Raises:
            OptionError: it cannot be read.
        """
        lines = (line for _, line in _lines(path, "--mask") if _key(line))
        return cls({_key(line): " ".join(map(_masked, line.split())) for line in lines})

    def __or__(self, other: Replacements) -> Replacements:
        """Return both; the other wins."""
        return Replacements(self.phrases | other.phrases)

    def apply(self, event: Event) -> Event:
        """Return an event with the words that are shown."""
        if isinstance(event, Completed):
            words = tuple(word for _, word in self._shown(event.words))
            return replace(event, words=words, translation=self._translation(event.translation))
        if not isinstance(event, Partial):
            return event
        words, n_committed = (*event.committed, *event.tentative), len(event.committed)
        n_safe = self._n_safe(words, n_committed)
        told = list(self._shown(words))
        return replace(
            event,
            committed=tuple(word for end, word in told if end <= n_safe),
            tentative=tuple(word for end, word in told if end > n_safe),
        )

    def _translation(self, text: str | None) -> str | None:
        if text is None:
            return None
        words = [CaptionWord(f" {word}") for word in text.split()]
        return text_of(word for _, word in self._shown(words))

    def _shown(self, words: Sequence[CaptionWord]) -> Iterator[tuple[int, CaptionWord]]:
        """Return shown words, each with how many were heard up to its end."""
        at = 0
        while at < len(words):
            n_words = self._n_matching(words, at)
            if n_words:
                yield at + n_words, self._instead(words[at : at + n_words])
            else:
                yield at + 1, words[at]
            at += max(1, n_words)

    def _n_matching(self, words: Sequence[CaptionWord], at: int) -> int:
        """Return the words of the longest phrase that begins at a place; 0 for none."""
        keys = _keys(words[at:])
        return max(
            (len(phrase) for phrase in self.phrases if keys[: len(phrase)] == phrase), default=0
        )

    def _n_safe(self, words: Sequence[CaptionWord], n_committed: int) -> int:
        """Return how many committed words are shown the same whatever follows."""
        at = 0
        while at < n_committed:
            rest = _keys(words[at:n_committed])
            if any(
                len(phrase) > len(rest) and phrase[: len(rest)] == rest for phrase in self.phrases
            ):
                return at
            at += max(1, self._n_matching(words, at))
        return at

    def _instead(self, words: Sequence[CaptionWord]) -> CaptionWord:
        first, last = words[0], words[-1]
        blank = first.text[: len(first.text) - len(first.text.lstrip())]
        marks = last.text[len(last.text.rstrip(_MARKS)) :]
        known = [word.probability for word in words if word.probability is not None]
        return CaptionWord(
            blank + self.phrases[_keys(words)] + marks,
            min(known) if known else None,
            first.start_s,
            last.end_s,
        )


def _lines(path: Path, option: str) -> Iterator[tuple[int, str]]:
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OptionError(
            f"{option} {display_path(path)} cannot be read ({why}); check the path"
        ) from error
    for number, line in enumerate(text.splitlines(), start=1):
        if bare := line.partition("#")[0].strip():
            yield number, bare


def _key(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip(_MARKS).casefold() for word in text.split())))


def _keys(words: Sequence[CaptionWord]) -> tuple[str, ...]:
    return tuple(word.text.strip(_MARKS).casefold() for word in words)


def _masked(word: str) -> str:
    return word[:1] + "*" * (len(word) - 1)
