"""`vocab.json`, `merges.txt` and `added_tokens.json` become what Transformers makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from whisper_hailo.checkpoint.tokens import write_tokenizer

WORDS = ["a", "b", "\u0120", "\u0120a", "<|endoftext|>"]
"""A byte-level vocabulary writes a space as U+0120; OpenAI's has the end of a text among words."""

ADDED = {"<|notimestamps|>": 7, "<|en|>": 6, "<|startoftranscript|>": 5}
"""In another order than that of the ids."""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    (tmp_path / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(WORDS)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n\u0120 a\n", encoding="utf-8")
    (tmp_path / "added_tokens.json").write_text(json.dumps(ADDED))
    assert write_tokenizer(tmp_path, None, tmp_path / "out.json")
    return Tokenizer.from_file(str(tmp_path / "out.json"))


def test_a_space_belongs_to_the_word_behind_it(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a a").ids == [0, 3]
    assert tokenizer.encode("ab a").ids == [0, 1, 3]
    assert tokenizer.decode([0, 1, 3]) == "ab a"


def test_control_tokens_have_the_ids_of_their_list_in_any_order(tokenizer: Tokenizer) -> None:
    assert {name: tokenizer.token_to_id(name) for name in ADDED} == ADDED


def test_control_tokens_are_whole_and_no_text(tokenizer: Tokenizer) -> None:
    control = ["<|startoftranscript|>", "<|en|>", "<|notimestamps|>", "<|endoftext|>"]
    assert tokenizer.encode("".join(control)).ids == [5, 6, 7, 4]
    assert tokenizer.decode([5, 6, 7, 0, 4]) == "a"
    shown = tokenizer.decode([5, 0, 4], skip_special_tokens=False)
    assert shown == "<|startoftranscript|>a<|endoftext|>"
