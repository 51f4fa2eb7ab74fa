import json
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core.errors import TokenizerError
from whisper_hailo.text.token_table import JoinedTokens, TokenLines
from whisper_hailo.text.tokenizer import QuickBackend

TEXTS = ["!", '"', "\\", '": 7,', "Ġthe", "☃", "\n", "", "a", "b", "c", "d"]
VOCABULARY = {text: number for number, text in enumerate(TEXTS)}


def _as_lines(vocabulary: Any) -> bytes:
    return json.dumps(vocabulary, indent=6, ensure_ascii=False).encode()


def test_token_lines_of_ordered_ids_give_each_text() -> None:
    lines = TokenLines.read(_as_lines(VOCABULARY))
    assert lines is not None
    assert [lines.text_of(token) for token in range(len(lines))] == TEXTS


def test_token_lines_equal_joined_tokens() -> None:
    numbered = {f"token {number}": number for number in range(12_345)}
    lines = TokenLines.read(_as_lines(numbered))
    joined = JoinedTokens.join(numbered)
    assert lines is not None
    assert len(lines) == len(joined)
    for token in (0, 9, 10, 99, 100, 9_999, 10_000, 12_344):
        assert lines.text_of(token) == joined.text_of(token)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"{\n}",
        b"",
        b"\n",
        b'{"a": 0, "b": 1}',
        b'{\n"a": 1,\n"b": 0\n}',
        b'{\n"a": 0,\n"b": 2\n}',
        b'{\n"a": 0\n"b": 1\n}',
        b'{\n"a": 0,\n\n"b": 1\n}',
        b'{\n"a": 0,\n"b": null\n}',
        b'[\n"a",\n"b"\n]',
    ],
)
def test_token_lines_of_other_layouts_are_none(text: bytes) -> None:
    assert TokenLines.read(text) is None


@pytest.mark.parametrize(
    "line",
    [
        b'"b: 1',
        b"b: 1",
        b'"\\x": 1',
        b'"\xff": 1',
        b"[1]: 1",
        b'"a"b": 1',
        b'"b": -1',
        b'"b":  2 1',
    ],
)
def test_decode_of_a_damaged_line_names_its_token(tmp_path: Path, line: bytes) -> None:
    control = {"id": 2, "content": "<|endoftext|>"}
    layout = {
        "added_tokens": [control],
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    }
    path = tmp_path / "tokenizer.json"
    path.write_bytes(_as_lines(layout).replace(b'"b": 1', line))
    backend = QuickBackend.read(path)
    assert backend is not None
    assert backend.decode([0]) == "a"
    with pytest.raises(TokenizerError, match="token 1"):
        backend.decode([1])


@pytest.mark.parametrize("vocabulary", [{}, {"a": -1, "b": 0}, {"a": 0, "b": 4}])
def test_joined_tokens_of_scattered_ids_are_refused(vocabulary: dict[str, int]) -> None:
    with pytest.raises(IndexError):
        JoinedTokens.join(vocabulary)
