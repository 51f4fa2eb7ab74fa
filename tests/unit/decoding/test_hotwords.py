"""Bonus of expected words: which tokens it raises, and what it leaves as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY_TOKENS
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.hotwords import (
    MAX_PHRASES,
    START_BONUS,
    HotwordTrie,
    build_hotword_trie,
    split_hotwords,
)
from whisper_hailo.decoding.options import HOTWORD_BONUS
from whisper_hailo.text.tokenizer import Tokenizer


class Letters:
    """One token per letter of the alphabet, capitals from 30 on; `#` is no plain text."""

    def encode(self, text: str, **_: object) -> Any:
        ids = [
            60 if letter == "#" else ord(letter.lower()) - 97 for letter in text.strip()
        ]
        return type("Encoding", (), {"ids": ids})()


def bonus(trie: HotwordTrie, *generated: int) -> dict[int, float]:
    raised = trie.add_bonus(np.zeros(12, np.float32), generated)
    return {int(token): float(raised[token]) for token in np.flatnonzero(raised)}


def test_add_bonus_without_match_raises_first_tokens() -> None:
    trie = HotwordTrie([(1, 2, 3), (4,)])
    assert bonus(trie) == bonus(trie, 7) == {1: START_BONUS, 4: START_BONUS}


def test_add_bonus_within_phrase_raises_next_token() -> None:
    trie = HotwordTrie([(1, 2, 3), (1, 5), (4,)])
    first = {1: START_BONUS, 4: START_BONUS}
    assert bonus(trie, 7, 1) == {**first, 2: HOTWORD_BONUS, 5: HOTWORD_BONUS}
    assert bonus(trie, 1, 2) == {**first, 3: HOTWORD_BONUS}
    assert bonus(trie, 1, 2, 3) == first


def test_add_bonus_of_several_matches_counts_each_token_once() -> None:
    trie = HotwordTrie([(1, 1, 2), (1, 2)])
    assert bonus(trie, 1, 1) == {1: HOTWORD_BONUS, 2: HOTWORD_BONUS}
    assert bonus(trie, 1) == {1: HOTWORD_BONUS, 2: HOTWORD_BONUS}


def test_add_bonus_of_another_size_is_that_of_later_tokens() -> None:
    trie = HotwordTrie([(1, 2)], 4.0)
    assert bonus(trie, 1) == {1: START_BONUS, 2: 4.0}


def test_add_bonus_keeps_what_is_impossible() -> None:
    logits = np.full(12, -np.inf, np.float32)
    assert np.all(np.isneginf(HotwordTrie([(1, 2)]).add_bonus(logits, (1,))))


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Anna, living room ; Ben\n", ["Anna", "living room", "Ben"]),
        ("Anna Ben", ["Anna", "Ben"]),
        ("living room,", ["living room"]),
    ],
)
def test_split_hotwords_at_commas_or_spaces(text: str, phrases: list[str]) -> None:
    assert split_hotwords(text) == phrases


def test_build_hotword_trie_refuses_too_many_phrases() -> None:
    tokenizer = Tokenizer(Letters(), TOY_TOKENS)  # type: ignore[arg-type]
    build_hotword_trie("a," * MAX_PHRASES, tokenizer)
    with pytest.raises(OptionError, match=str(MAX_PHRASES)):
        build_hotword_trie("a," * (MAX_PHRASES + 1), tokenizer)


def test_build_hotword_trie_refuses_control_tokens() -> None:
    tokenizer = Tokenizer(Letters(), TOY_TOKENS)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="--hotwords"):
        build_hotword_trie("ab, c#", tokenizer)
