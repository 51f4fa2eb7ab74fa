"""Words to cues that fit a screen: full lines are split where a clause ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whisper_hailo.core.types import Word

_SENTENCE_ENDS: Final = tuple(".!?…。！？")  # noqa: RUF001 - full-width marks are meant
_CLAUSE_ENDS: Final = tuple(",;:—–、，；：")  # noqa: RUF001 - likewise


def clauses(words: Sequence[Word], max_width: int, max_lines: int) -> Iterator[Sequence[Word]]:
    """Words of each cue, in order.

    A cue ends where a sentence does, else where a clause does, else as late as it can, but is at
    least half of what fits, so that none is a leftover.

    Args:
        words: with their leading blanks.
        max_width: characters of a line; a longer word has a line of its own.
        max_lines: of a cue.
    """
    rest = list(words)
    while rest:
        n_fit = _n_fitting(rest, max_width, max_lines)
        n_words = len(rest) if n_fit == len(rest) else _best_end(rest, n_fit)
        yield rest[:n_words]
        rest = rest[n_words:]


def lines(words: Sequence[Word], max_width: int) -> list[str]:
    """Words of a cue as lines; two are parted at a clause, or about in the middle.

    Args:
        words: with their leading blanks.
        max_width: characters of a line.
    """
    if len(_filled(words, max_width)) != 2:
        return [_text(line) for line in _filled(words, max_width)]
    fitting = [
        at
        for at in range(1, len(words))
        if max(len(_text(words[:at])), len(_text(words[at:]))) <= max_width
    ]
    at = min(
        fitting or [len(_filled(words, max_width)[0])],
        key=lambda at: (
            abs(len(_text(words[:at])) - len(_text(words[at:]))) - max_width * _rank(words[at - 1])
        ),
    )
    return [_text(words[:at]), _text(words[at:])]


def _filled(words: Sequence[Word], max_width: int) -> list[list[Word]]:
    """Words as lines, each as full as it can be."""
    filled: list[list[Word]] = []
    for word in words:
        if filled and len(_text([*filled[-1], word])) <= max_width:
            filled[-1].append(word)
        else:
            filled.append([word])
    return filled


def _n_fitting(words: Sequence[Word], max_width: int, max_lines: int) -> int:
    return sum(map(len, _filled(words, max_width)[:max_lines]))


def _best_end(words: Sequence[Word], n_fit: int) -> int:
    """Behind which word of those that fit a cue ends."""
    ends = range((n_fit + 1) // 2, n_fit + 1)
    return max(ends, key=lambda end: (_rank(words[end - 1]), end))


def _rank(word: Word) -> int:
    """2 for the end of a sentence, 1 for that of a clause."""
    text = word.text.rstrip("\"'»”)] ")
    return 2 * text.endswith(_SENTENCE_ENDS) or 1 * text.endswith(_CLAUSE_ENDS)


def _text(words: Sequence[Word]) -> str:
    return "".join(word.text for word in words).strip()
