"""CTranslate2's lists of tokens become the tokenizer that they were made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.checkpoint.tokens import write_tokenizer
from whisper_hailo.core.errors import TokenizerError

MICRO = ASSETS / "micro" / "tokenizer.json"
WORDS = ["!", "a", "b", "\u0120", "ab", "\u0120a", "\u0120ab", "", "<|endoftext|>"]
CONTROL = ["<|startoftranscript|>", "<|en|>", "<|notimestamps|>", "<|0.00|>", "<|0.02|>"]


def tokens_of(tokenizer: Path) -> list[str]:
    raw = json.loads(tokenizer.read_text(encoding="utf-8"))
    names = raw["model"]["vocab"] | {token["content"]: token["id"] for token in raw["added_tokens"]}
    return sorted(names, key=names.__getitem__)


def build(folder: Path, tokens: list[str], name: str = "vocabulary.json") -> Tokenizer:
    text = json.dumps(tokens) if name.endswith("json") else "\n".join(tokens) + "\n"
    (folder / name).write_text(text, encoding="utf-8")
    assert write_tokenizer(folder, None, folder / "out.json")
    return Tokenizer.from_file(str(folder / "out.json"))


@pytest.mark.parametrize("name", ["vocabulary.json", "vocabulary.txt"])
def test_merges_follow_from_order(name: str, tmp_path: Path) -> None:
    tokenizer = build(tmp_path, WORDS + CONTROL, name)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    assert [tuple(merge) for merge in merges] == [("a", "b"), ("\u0120", "a"), ("\u0120", "ab")]
    assert tokenizer.encode("ab ab!").ids == [4, 6, 0]
    assert tokenizer.token_to_id("<|notimestamps|>") == 11
    assert tokenizer.token_to_id("<|0.00|>") is None


@pytest.mark.slow  # fifty thousand words
def test_bundled_tokenizer_follows_from_its_tokens(tmp_path: Path) -> None:
    built, original = build(tmp_path, tokens_of(MICRO)), Tokenizer.from_file(str(MICRO))
    for text in ("Hello world, it's 3 o'clock.", " Grüße aus Köln!", "日本語 🎉", "aaaa  bbb\n"):
        encoded = original.encode(text, add_special_tokens=False).ids
        assert built.encode(text, add_special_tokens=False).ids == encoded
        assert built.decode(encoded) == original.decode(encoded)


@pytest.mark.parametrize(
    "tokens",
    [[], ["a", "b"], ["a", "a", "<|endoftext|>"], ["a" * 300, "<|endoftext|>"]],
    ids=["empty", "without end of text", "twice", "long"],
)
def test_other_list_is_refused(tokens: list[str], tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"expected a Whisper's vocabulary: give its token"):
        build(tmp_path, tokens)


@pytest.mark.parametrize("text", ["{}", "[1]", "[", '["\\ud800"]'])
def test_broken_list_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "vocabulary.json").write_text(text, encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"vocabulary\.json"):
        write_tokenizer(tmp_path, None, tmp_path / "out.json")


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_bytes(b"\xff\n")
    with pytest.raises(TokenizerError, match="fetch the file again"):
        write_tokenizer(tmp_path, None, tmp_path / "out.json")
