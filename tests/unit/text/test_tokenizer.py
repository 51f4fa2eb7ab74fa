"""Ids to text by the vocabulary alone, beside the library that reads the whole file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

import whisper_hailo
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.core.errors import TokenizerError
from whisper_hailo.text.tokenizer import QuickBackend, Tokenizer
from whisper_hailo.text.vocabulary import Vocabulary

MICRO = Path(whisper_hailo.__file__).parent / "assets" / "micro"
FILE = MICRO / "tokenizer.json"
LIBRARY = Library.from_file(str(FILE))
SPECIAL = read_special_tokens(MICRO, FILE)
OURS = Tokenizer.load(FILE, SPECIAL)


@given(st.lists(st.integers(0, SPECIAL.eot - 1), max_size=12))
def test_any_ids_give_what_the_library_says(ids: list[int]) -> None:
    assert isinstance(OURS.backend, QuickBackend)
    assert OURS.decode(ids) == LIBRARY.decode(ids)


@settings(deadline=None)  # the first text loads the library
@given(st.text(max_size=20))
def test_text_comes_back(text: str) -> None:
    ids = OURS.encode(text)
    assert list(ids) == LIBRARY.encode(text, add_special_tokens=False).ids
    assert OURS.decode(ids) == text


def test_every_single_token_and_broken_pairs() -> None:
    for start in range(0, SPECIAL.eot, 7):
        ids = list(range(start, min(start + 7, SPECIAL.eot)))
        assert OURS.decode(ids) == LIBRARY.decode(ids)


def test_control_tokens_and_ids_beyond_have_no_text() -> None:
    hello = OURS.encode(" hello")
    assert OURS.decode((SPECIAL.sot, *hello, SPECIAL.eot, 60_000)) == " hello"


def test_the_library_is_loaded_for_encoding_only(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []

    def from_file(path: str) -> Library:
        loads.append(path)
        return LIBRARY

    monkeypatch.setattr("tokenizers.Tokenizer", type("Seen", (), {"from_file": from_file}))
    fresh = Tokenizer.load(FILE, SPECIAL)
    fresh.decode((1, 2, 3))
    assert loads == []
    assert fresh.encode("a") == fresh.encode("a")
    assert loads == [str(FILE)]


def _small(**changes: Any) -> dict[str, Any]:
    model = {"type": "BPE", "vocab": {"a": 0, "Ġb": 1, "☃": 2}, "merges": []}
    whole = {
        "version": "1.0",
        "added_tokens": [{"id": 3, "content": "<|endoftext|>", "special": True}],
        "decoder": {"type": "ByteLevel"},
        "model": model,
    }
    return whole | changes


def _written(tmp_path: Path, content: dict[str, Any], indent: int | None = None) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_letters_that_are_no_bytes_stand_for_themselves(tmp_path: Path, indent: int | None) -> None:
    path = _written(tmp_path, _small(), indent)
    vocabulary = Vocabulary.read(path)
    assert vocabulary is not None
    assert vocabulary.text([0, 1, 2, 9]) == "a b☃"
    assert vocabulary.added == {"<|endoftext|>": 3}


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder": {"type": "WordPiece"}},
        {"decoder": None},
        {"model": {"type": "Unigram", "vocab": {}, "merges": []}},
        {"model": {"type": "BPE", "vocab": [["a", 0]], "merges": []}},
        {"model": {"type": "BPE", "vocab": {"a": 1000}, "merges": []}},
        {"model": {"type": "BPE", "merges": [], "vocab": {"a": 0}}},
        {"added_tokens": None},
    ],
)
def test_other_layouts_are_left_to_the_library(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert Vocabulary.read(_written(tmp_path, _small(**changes))) is None


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(FILE.read_bytes()[:-200_001])
    with pytest.raises(TokenizerError, match="is no tokenizer"):
        Tokenizer.load(path, SPECIAL)


def test_the_tokenizer_of_another_model_is_refused() -> None:
    other = replace(SPECIAL, sot=7)
    with pytest.raises(TokenizerError, match="the model has 7"):
        Tokenizer.load(FILE, other)


def test_tokens_added_among_the_text_are_left_to_the_library(tmp_path: Path) -> None:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    content["added_tokens"].append(
        {"id": 5, "content": "&", "special": False, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False}
    )  # fmt: skip
    loaded = Tokenizer.load(_written(tmp_path, content), SPECIAL)
    assert not isinstance(loaded.backend, QuickBackend)
    assert loaded.decode((5,)) == "&"
