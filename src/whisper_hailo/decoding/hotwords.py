"""Hotwords: phrases to expect, and the bonus that makes their tokens likelier."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import HOTWORD_BONUS
from whisper_hailo.text.tokenizer import Tokenizer

START_BONUS: Final = 1.0
"""In logits; measured in docs/decoding.md."""

MAX_PHRASES: Final = 2000


class HotwordTrie:
    """Hotword phrases as a trie of token ids, which get a bonus where they match.

    Unlike a prompt with a list of names, it leaves audio alone in which none is said
    (docs/decoding.md). Greedy decoding cannot take a bonus back, so starting a phrase earns little.

    Source: contextual biasing by shallow fusion with a prefix tree (Zhao et al. 2019).
    """

    def __init__(
        self, phrases: Iterable[Sequence[int]], continue_bonus: float = HOTWORD_BONUS
    ) -> None:
        self._continue_bonus = np.float32(continue_bonus)
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
        following: set[int] = set()
        for length in range(1, min(self._longest, len(generated) + 1)):
            node = self._root
            for token in generated[-length:]:
                node = node.get(token, {})
            following.update(node)
        starts = self._starts
        if following:
            continuing = list(following)
            # A token that does both gets the larger bonus alone.
            starts = np.setdiff1d(starts, continuing, assume_unique=True)
            logits[continuing] += self._continue_bonus
        logits[starts] += np.float32(START_BONUS)
        return logits


def build_hotword_trie(
    text: str, tokenizer: Tokenizer, continue_bonus: float = HOTWORD_BONUS
) -> HotwordTrie:
    """Return the trie of phrases (see `split_hotwords`), each as given and capitalised.

    Raises:
        OptionError: too many phrases, or control tokens among them.
    """
    phrases = split_hotwords(text)
    if len(phrases) > MAX_PHRASES:
        raise OptionError(
            f"--hotwords has {len(phrases)} phrases, at most {MAX_PHRASES} are taken; shorten it"
        )
    spellings: dict[str, None] = {}  # each once, in order
    for phrase in phrases:
        spellings[phrase] = None
        spellings[phrase[:1].upper() + phrase[1:]] = None
    tokens = [tokenizer.encode_plain("--hotwords", text) for text in spellings]
    return HotwordTrie(tokens, continue_bonus)


def split_hotwords(text: str) -> list[str]:
    """Split a list at commas, semicolons and line ends; a list without any, at spaces."""
    phrases = [phrase.strip() for phrase in re.split(r"[,;\n]", text)]
    if len(phrases) == 1:
        return text.split()
    return [phrase for phrase in phrases if phrase]
