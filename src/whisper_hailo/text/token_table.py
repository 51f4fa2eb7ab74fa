"""Texts of tokens by id, from the vocabulary of a `tokenizer.json`."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

_NEW_LINE: Final = ord("\n")
_COMMA: Final = ord(",")
_ZERO: Final = ord("0")
_NINE: Final = ord("9")

_ID_SEPARATOR: Final = b": "
"""Between a token and its id; a token may have it, too, so the last one counts."""

_MOST_DIGITS: Final = 7
"""Digits of an id that are compared, one more than any vocabulary has."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenLines:
    """A vocabulary with one token a line, in the order of ids; lines are parsed on demand.

    The `tokenizers` library writes it so. Parsing all of it takes twenty times as long as finding
    the lines, and most transcripts need some dozens of tokens.

    Attributes:
        text: the lines, each behind a line feed: `"token": id,`, the last one without a comma.
        starts: `(n_tokens,)` places of these line feeds.
    """

    text: bytes
    starts: NDArray[np.int64]

    @classmethod
    def read(cls, vocabulary: bytes) -> Self | None:
        """Find the lines of a JSON object; `None` if they are not laid out so."""
        text = vocabulary[: vocabulary.rfind(b"\n")].removeprefix(b"{")
        letters = np.frombuffer(text, np.uint8)
        starts = np.flatnonzero(letters == _NEW_LINE)
        if not text.startswith(b"\n"):
            return None
        commas = starts[1:] - 1
        ids = _read_numbers(letters, np.append(commas, len(text)))
        is_ordered = np.array_equal(ids, np.arange(len(starts)))
        if not is_ordered or (letters[commas] != _COMMA).any():
            return None
        return cls(text, starts)

    def __len__(self) -> int:
        return len(self.starts)

    def text_of(self, token: int) -> str:
        """Return the text of a token.

        Raises:
            ValueError: its line is damaged.
        """
        start = self.starts[token]
        end = len(self.text)
        if token + 1 < len(self.starts):
            end = self.starts[token + 1]
        quoted, _, number = self.text[start:end].rpartition(_ID_SEPARATOR)
        text = json.loads(quoted)
        if not isinstance(text, str) or int(number.rstrip(b",")) != token:
            raise ValueError(f"{quoted[:40]!r} is not the text of {token}")
        return text


def _read_numbers(
    letters: NDArray[np.uint8], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the numbers whose decimal digits end before these places; 0 without any digit."""
    numbers = np.zeros(len(ends), np.int64)
    is_digit = np.ones(len(ends), np.bool_)
    for position in range(_MOST_DIGITS):
        places = np.maximum(
            ends - 1 - position, 0
        )  # at 0 is a line feed, which is no digit
        digits = letters[places]
        is_digit &= (digits >= _ZERO) & (digits <= _NINE)
        numbers += np.where(is_digit, digits.astype(np.int64) - _ZERO, 0) * 10**position
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTokens:
    """The tokens of any vocabulary as one string, which takes a fifth of the memory of a list.

    Attributes:
        letters: those of all tokens, in the order of their ids.
        ends: by token id, the number of letters up to its end.
    """

    letters: str
    ends: array[int]

    @classmethod
    def join(cls, vocabulary: Mapping[str, int]) -> Self:
        """Join tokens by their ids.

        Raises:
            IndexError: no ids, negative ones, or some beyond twice the size of the vocabulary.
        """
        tokens = _sort_by_id(vocabulary)
        ends = array("L", accumulate(len(token) for token in tokens))
        return cls("".join(tokens), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def text_of(self, token: int) -> str:
        """Return the text of a token; an id without one has none."""
        start = self.ends[token - 1] if token else 0
        return self.letters[start : self.ends[token]]


def _sort_by_id(vocabulary: Mapping[str, int]) -> list[str]:
    """Return tokens in the order of their ids; an id without a token has an empty one."""
    if min(vocabulary.values(), default=-1) < 0:
        raise IndexError("no id, or a negative one")
    tokens = [""] * (2 * len(vocabulary))
    for token, number in vocabulary.items():
        tokens[number] = token
    last = max(vocabulary.values())
    return tokens[: last + 1]
