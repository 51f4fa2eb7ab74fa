"""Tokenizers made of a list of tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from whisper_hailo.checkpoint import openai_vocabulary
from whisper_hailo.checkpoint.openai_vocabulary import (
    ordinary_tokens,
    suppressed_tokens,
    tokenizer_of_tokens,
)
from whisper_hailo.core.errors import ModelError, TokenizerError

TOKENS = [bytes([index]) for index in range(256)]
TOKENS += [b"th", b" th", b" the", b" -", "\u266a".encode()[:2], "\u266a".encode()]
CONTROLS = ["<|endoftext|>", "<|startoftranscript|>", "<|nospeech|>"]


@pytest.fixture
def tokenizer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(openai_vocabulary, "control_tokens", lambda _: CONTROLS)
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_of_tokens(TOKENS, len(TOKENS) + 3), encoding="utf-8")
    return path


def test_tokenizer_of_tokens_merges_in_order_of_ids(tokenizer: Path) -> None:
    made = Tokenizer.from_file(str(tokenizer))
    assert made.encode("the the").ids == [256, ord("e"), 258]
    assert made.decode([258, 256]) == " theth"
    assert made.token_to_id("<|nospeech|>") == len(TOKENS) + 2
    assert ordinary_tokens(tokenizer) == TOKENS


def test_suppressed_tokens_are_symbols_and_controls(tokenizer: Path) -> None:
    ids = suppressed_tokens(tokenizer)
    suppressed = ids["suppress_tokens"]
    assert {ord("("), ord("["), 259, 261, len(TOKENS) + 1} <= {*suppressed}
    assert not {ord("a"), ord("."), 256, 258} & {*suppressed}
    assert ids["begin_suppress_tokens"] == [ord(" "), len(TOKENS)]


def test_tokenizer_of_tokens_unfit_ones_are_refused(tokenizer: Path) -> None:
    with pytest.raises(ModelError, match="--tokenizer"):
        tokenizer_of_tokens(TOKENS, 300)
    with pytest.raises(TokenizerError, match=f"{len(TOKENS)}"):
        tokenizer_of_tokens([*TOKENS, b"xyz"], len(TOKENS) + 4)
