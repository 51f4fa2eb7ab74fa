"""What turning token ids into text needs of a `tokenizer.json`, read without the rest of it.

Three quarters of the time and most of the memory that the whole file takes go into what only
encoding needs, the merges above all; a transcript without a prompt never encodes anything.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import TokenizerError
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json, read_bounded

_VOCABULARY: Final = b'"vocab":'
_MERGES: Final = b'"merges":'


def _byte_letters() -> dict[str, int]:
    """The letter that stands for each byte in a byte-level vocabulary, as GPT-2 chose them.

    Bytes that print as one letter of Latin-1 stand for themselves, the others, in order, for the
    letters from 256 on.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in plain)
    shifted = {chr(256 + number): byte for number, byte in enumerate(others)}
    return {chr(byte): byte for byte in plain} | shifted


_BYTES: Final = _byte_letters()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The texts of a byte-level vocabulary, as one: a text for each token takes five times as much.

    Attributes:
        letters: that stand for the bytes of all tokens, in the order of their ids.
        ends: by token id, how many letters there are up to the end of its own.
        added: ids of control tokens and others outside the vocabulary, by name.
    """

    letters: str
    ends: array[int]
    added: dict[str, int]

    @classmethod
    def of(cls, letters: Sequence[str], added: dict[str, int]) -> Vocabulary:
        """By the letters of each token; empty for ids that have none."""
        return cls("".join(letters), array("L", accumulate(map(len, letters))), added)

    @classmethod
    def read(cls, path: Path) -> Vocabulary | None:
        """Read a file that is laid out as the `tokenizers` library writes it.

        Returns:
            nothing for a file that this does not understand, or that is damaged: the library, which
            reads all of it, says more about that.

        Raises:
            TokenizerError: the file cannot be read, or is far too large.
        """
        raw = read_bounded(path, TokenizerError)
        if not raw.rstrip().endswith(b"}"):
            return None
        # Where one of both is missing, or they stand the other way round, what lies between is no
        # JSON.
        start = raw.find(_VOCABULARY) + len(_VOCABULARY)
        end = raw.rfind(_MERGES)
        try:
            # The vocabulary stands in the last object but one that is open there.
            around = parse_json(raw[:start] + b"{}}}")
            vocabulary = parse_json(raw[start:end].rstrip().rstrip(b","))
            if not _is_byte_level(around):
                return None
            added = {token["content"]: token["id"] for token in around["added_tokens"]}
            letters = _by_id(decode(dict[str, int], vocabulary))
            return cls.of(letters, decode(dict[str, int], added))
        except (MismatchError, TypeError, LookupError):
            return None

    def text(self, tokens: Iterable[int]) -> str:
        """Text of token ids; ids without a text give none, incomplete UTF-8 gives U+FFFD."""
        known = range(len(self.ends))
        parts = (_as_bytes(self._letters(token)) for token in tokens if token in known)
        return b"".join(parts).decode("utf-8", errors="replace")

    def _letters(self, token: int) -> str:
        return self.letters[self.ends[token - 1] if token else 0 : self.ends[token]]


def _as_bytes(letters: str) -> bytes:
    """What a token stands for; one with a letter that is no byte stands for itself."""
    try:
        return bytes([_BYTES[letter] for letter in letters])
    except KeyError:
        return letters.encode(errors="replace")  # JSON can spell half characters


def _is_byte_level(around: dict[str, Any]) -> bool:
    return (around["model"]["type"], around["decoder"]["type"]) == ("BPE", "ByteLevel")


def _by_id(vocabulary: dict[str, int]) -> list[str]:
    """Names in the order of their ids.

    Raises:
        IndexError: none, or ids that are far from consecutive, or negative.
    """
    if min(vocabulary.values(), default=-1) < 0:
        raise IndexError("no id, or a negative one")
    letters: list[str] = [""] * (2 * len(vocabulary))
    for name, number in vocabulary.items():
        letters[number] = name
    return letters[: 1 + max(vocabulary.values())]
