"""Captions on a terminal: the running line rewritten in place; plain lines anywhere else; JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shutil import get_terminal_size
from typing import Final

from rich.cells import cell_len

from whisper_hailo.cli.output import shaded
from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial, as_json
from whisper_hailo.text.subtitles import label

_ERASE: Final = "\r\x1b[K"
_DIM, _RESET = "\x1b[2m", "\x1b[0m"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ELLIPSIS: Final = "…"


class JsonView:
    """Writes events to standard output as JSON Lines."""

    def put(self, event: Event) -> None:
        emit_json(as_json(event))


class TerminalView:
    """Writes captions to standard output.

    Args:
        colour: shade words by their probability.
        terminal: standard output is one; `None` looks.
    """

    def __init__(self, *, colour: bool = False, terminal: bool | None = None) -> None:
        self._terminal = sys.stdout.isatty() if terminal is None else terminal
        self._colour = colour and self._terminal

    def put(self, event: Event) -> None:
        if isinstance(event, Completed):
            erase = _ERASE if self._terminal else ""
            words = _of_speaker(event.speaker, event.words)
            if event.text:
                emit(erase + "".join(f"{line}\n" for line in self._lines(words)))
                translated = [CaptionWord(f" {word}") for word in (event.translation or "").split()]
                for line in self._lines(_from_margin(translated)):
                    emit(f"{_DIM}{line}{_RESET}\n" if self._terminal else f"{line}\n")
            elif erase:
                emit(erase)
        elif isinstance(event, Partial) and self._terminal:
            emit(_ERASE + self._running(event))

    def close(self) -> None:
        """Take the running line away."""
        if self._terminal:
            emit(_ERASE)

    def _lines(self, words: Sequence[CaptionWord]) -> Iterator[str]:
        """Yield the lines of a final text; on a terminal they end between words."""
        whole = [replace(word, text=clean(word.text)) for word in words]
        room = get_terminal_size().columns - 1 if self._terminal else 0
        while whole:
            line = first_columns(whole, room) if room else whole
            whole = _from_margin(whole[len(line) :])
            yield self._shaded(line) if self._colour else "".join(w.text for w in line).rstrip()

    def _running(self, event: Partial) -> str:
        """Return the end of the partial text, as much as one line holds."""
        room = max(4, get_terminal_size().columns - 1)  # the last column may wrap
        words = _of_speaker(event.speaker, [*event.committed, *event.tentative])
        texts = [clean(word.text) for word in words]
        shown = fitting(texts, room)
        kept = words[len(words) - len(shown) :]
        kept = [replace(word, text=text) for word, text in zip(kept, shown, strict=True)]
        dots = _ELLIPSIS if "".join(shown) != "".join(texts) else ""
        if self._colour:
            return dots + self._shaded(kept)
        n_settled = len(kept) - min(len(event.tentative), len(kept))
        settled, rest = "".join(shown[:n_settled]), "".join(shown[n_settled:])
        return f"{dots}{settled}{_DIM}{rest}{_RESET}" if rest else dots + settled

    def _shaded(self, words: Sequence[CaptionWord]) -> str:
        return "".join(shaded(clean(word.text), word.probability) for word in words)


def _of_speaker(speaker: int | None, words: Sequence[CaptionWord]) -> list[CaptionWord]:
    """Words behind the name of who says them, where that is known."""
    name = [CaptionWord(label(speaker))] if speaker is not None else []
    return [*name, *_from_margin(words)]


def _from_margin(words: Sequence[CaptionWord]) -> list[CaptionWord]:
    """Words from the first on that is seen, which has no blank before it."""
    while words and not words[0].text.strip():
        words = words[1:]
    return [replace(word, text=word.text.lstrip()) for word in words[:1]] + list(words[1:])


def clean(text: str) -> str:
    """Sanitise a text: nothing that moves a cursor."""
    return _CONTROL.sub(" ", text).strip("\n")


def first_columns(words: Sequence[CaptionWord], room: int) -> Sequence[CaptionWord]:
    """As many of the first words as a line holds; at least one.

    Args:
        words: with their blanks.
        room: columns; wide characters take two.
    """
    for n_words in range(1, len(words)):
        if cell_len("".join(word.text for word in words[: n_words + 1])) > room:
            return words[:n_words]
    return words


def fitting(words: Sequence[str], room: int) -> list[str]:
    """As many of the last words as fit, an ellipsis before them counted; at least one.

    Args:
        words: with their blanks.
        room: columns; wide characters take two.
    """
    kept: list[str] = []
    left = room if cell_len("".join(words)) <= room else room - cell_len(_ELLIPSIS)
    for word in reversed(words):
        left -= cell_len(word)
        if left < 0:
            if not kept:
                kept.append(_last_columns(word, room - cell_len(_ELLIPSIS)))
            break
        kept.append(word)
    return kept[::-1]


def _last_columns(word: str, room: int) -> str:
    """Return the end of a word that is wider than the line."""
    while cell_len(word) > room:
        word = word[1:]
    return word
