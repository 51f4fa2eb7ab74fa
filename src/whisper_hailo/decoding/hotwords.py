"""Hotwords: a trie of their tokens, and a logits bonus for tokens that match.

A prompt with a list of names changes the text of audio in which none of them is said
(docs/decoding.md). A bonus does not: the model never sees the list.

Source: contextual biasing by shallow fusion with a prefix tree (Zhao et al. 2019). Greedy decoding
cannot take a bonus back, so starting a phrase earns little and continuing it more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.text.tokenizer import Tokenizer

START_BONUS: Final = 1.0
CONTINUE_BONUS: Final = 2.0
"""In logits; measured in docs/decoding.md."""

MAX_PHRASES: Final = 2000


class HotwordTrie:
    """Hotword phrases as a trie of token ids."""

    def __init__(self, phrases: Iterable[Sequence[int]]) -> None:
        self._root: dict[int, Any] = {}
        self._longest = 0
        for phrase in phrases:
            node = self._root
            for token in phrase:
                node = node.setdefault(token, {})
            self._longest = max(self._longest, len(phrase))
        self._starts = np.array(sorted(self._root), dtype=np.int64)

    def add_bonus(self, logits: FloatArray, generated: Sequence[int]) -> FloatArray:
        """Add a bonus to tokens that start or continue a phrase; `logits` are changed."""
        continuing = self._continuations(generated)
        starts = self._starts
        if continuing:
            starts = np.setdiff1d(starts, continuing, assume_unique=True)
            logits[continuing] += np.float32(CONTINUE_BONUS)
        logits[starts] += np.float32(START_BONUS)
        return logits

    def _continuations(self, generated: Sequence[int]) -> list[int]:
        """Return the next tokens of all phrases whose beginning ends the text, each once."""
        found: dict[int, None] = {}
        for length in range(1, min(self._longest, len(generated) + 1)):
            found.update(dict.fromkeys(self._find(generated[-length:])))
        return list(found)

    def _find(self, tokens: Sequence[int]) -> dict[int, Any]:
        """Return the node of the tokens; empty where no phrase starts with them."""
        node = self._root
        for token in tokens:
            node = node.get(token, {})
        return node


def build_hotword_trie(text: str, tokenizer: Tokenizer) -> HotwordTrie:
    """Return the trie of phrases (see `split_hotwords`), each as given and capitalised."""
    phrases = split_hotwords(text)
    if len(phrases) > MAX_PHRASES:
        raise OptionError(
            f"--hotwords has {len(phrases)} phrases, at most {MAX_PHRASES} are taken; shorten it"
        )
    spellings = dict.fromkeys(
        spelling for phrase in phrases for spelling in (phrase, phrase[:1].upper() + phrase[1:])
    )
    return HotwordTrie([tokenizer.encode_plain("--hotwords", each) for each in spellings])


def split_hotwords(text: str) -> list[str]:
    """Split a list at commas, semicolons and line ends; a list without any, at spaces."""
    phrases = [phrase.strip() for phrase in re.split(r"[,;\n]", text)]
    return [phrase for phrase in phrases if phrase] if len(phrases) > 1 else text.split()
