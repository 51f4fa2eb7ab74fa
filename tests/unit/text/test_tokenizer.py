"""Tokens to text by the vocabulary alone, compared with the library that reads the whole file."""

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
from tests.fakes.model_sizes import TOY_TOKENS
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.core.errors import OptionError, TokenizerError
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.text.tokenizer import QuickBackend, Tokenizer, read_tokenizer

MICRO = Path(whisper_hailo.__file__).parent / "assets" / "micro"
FILE = MICRO / "tokenizer.json"
LIBRARY = Library.from_file(str(FILE))
SPECIAL = read_special_tokens(MICRO, FILE)
OURS = Tokenizer.load(FILE, SPECIAL)


@given(st.lists(st.integers(0, SPECIAL.eot - 1), max_size=12))
def test_decode_random_ids_equals_the_library(ids: list[int]) -> None:
    assert isinstance(OURS.backend, QuickBackend)
    assert OURS.decode(ids) == LIBRARY.decode(ids)


@settings(deadline=None)  # the first text loads the library
@given(st.text(max_size=20))
def test_encode_then_decode_gives_the_text(text: str) -> None:
    ids = OURS.encode(text)
    assert list(ids) == LIBRARY.encode(text, add_special_tokens=False).ids
    assert OURS.decode(ids) == text


def test_decode_every_token_equals_the_library() -> None:
    for start in range(0, SPECIAL.eot, 7):
        ids = list(range(start, min(start + 7, SPECIAL.eot)))
        assert OURS.decode(ids) == LIBRARY.decode(ids)


def test_decode_control_tokens_and_unknown_ids_are_empty() -> None:
    hello = OURS.encode(" hello")
    assert OURS.decode((SPECIAL.sot, *hello, SPECIAL.eot, 60_000)) == " hello"


def test_tokenizer_loads_the_library_to_encode_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads: list[str] = []

    def from_file(path: str) -> Library:
        loads.append(path)
        return LIBRARY

    monkeypatch.setattr(
        "tokenizers.Tokenizer", type("Seen", (), {"from_file": from_file})
    )
    fresh = Tokenizer.load(FILE, SPECIAL)
    fresh.decode((1, 2, 3))
    assert loads == []
    assert fresh.encode("a") == fresh.encode("a")
    assert loads == [str(FILE)]


CONTROL = {
    "id": 3,
    "content": "<|endoftext|>",
    "special": True,
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
}


def make_layout(**changes: Any) -> dict[str, Any]:
    model = {"type": "BPE", "vocab": {"a": 0, "Ġb": 1, "☃": 2}, "merges": []}
    byte_level = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    whole = {
        "version": "1.0",
        "added_tokens": [CONTROL],
        "decoder": {"type": "ByteLevel", **byte_level},
        "model": model,
    }
    return whole | changes


def write_layout(
    tmp_path: Path, content: dict[str, Any], indent: int | None = None
) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_quick_backend_letters_without_byte_are_kept(
    tmp_path: Path, indent: int | None
) -> None:
    path = write_layout(tmp_path, make_layout(), indent)
    vocabulary = QuickBackend.read(path)
    assert vocabulary is not None
    assert vocabulary.decode([0, 1, 2, 9]) == "a b☃"
    assert vocabulary.added == {"<|endoftext|>": 3}


def test_quick_backend_lone_surrogate_is_a_question_mark(
    tmp_path: Path,
) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "\ud800": 1}, "merges": []}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(make_layout(model=model)), encoding="utf-8")
    vocabulary = QuickBackend.read(path)
    assert vocabulary is not None
    assert vocabulary.decode([0, 1, 0]) == "a?a"


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder": {"type": "WordPiece"}},
        {"decoder": None},
        {"model": {"type": "Unigram", "vocab": {}, "merges": []}},
        {"model": {"type": "BPE", "vocab": [["a", 0]], "merges": []}},
        {"model": {"type": "BPE", "vocab": {"a": 1000}, "merges": []}},
        {"model": {"type": "BPE", "merges": [], "vocab": {"a": 0}}},
        {"model": {"type": "BPE", "vocab": {"a": 0}}},
        {"model": {"type": "BPE", "merges": []}},
        {"model": {"type": "BPE", "vocab": {}, "merges": []}},
        {"added_tokens": None},
    ],
)
def test_quick_backend_other_layouts_are_none(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert QuickBackend.read(write_layout(tmp_path, make_layout(**changes))) is None


def test_load_truncated_file_raises(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(FILE.read_bytes()[:-200_001])
    with pytest.raises(TokenizerError, match="tokenizer"):
        Tokenizer.load(path, SPECIAL)


@pytest.mark.parametrize(("special", "text"), [(False, "a& b"), (True, "a b")])
def test_load_added_text_tokens_use_the_library(
    tmp_path: Path, special: bool, text: str
) -> None:
    added = {**CONTROL, "content": "&", "special": special}
    path = write_layout(
        tmp_path, make_layout(added_tokens=[added, {**CONTROL, "id": 4}])
    )
    loaded = Tokenizer.load(path, replace(SPECIAL, sot=11, eot=4))
    assert not isinstance(loaded.backend, QuickBackend)
    assert loaded.decode((0, 3, 1, 4)) == text


def test_encode_ignores_post_processor(
    tmp_path: Path,
) -> None:
    """OpenAI's files have a post-processor that adds control tokens; the bundled one has none."""
    name = str(CONTROL["content"])
    ends = {"id": name, "ids": [CONTROL["id"]], "tokens": [name]}
    end = {"SpecialToken": {"id": name, "type_id": 0}}
    first, second = ({"Sequence": {"id": text, "type_id": 0}} for text in "AB")
    post_processor = {
        "type": "TemplateProcessing",
        "single": [first, end],
        "pair": [first, second],
        "special_tokens": {name: ends},
    }
    path = write_layout(tmp_path, make_layout(post_processor=post_processor))
    assert Library.from_file(str(path)).encode("aa").ids == [0, 0, 3]
    assert Tokenizer.load(path, replace(SPECIAL, sot=11, eot=3)).encode("aa") == (0, 0)


def test_decode_control_token_in_vocabulary_is_empty(tmp_path: Path) -> None:
    """As `<|endoftext|>` of English-only models."""
    model = {
        "type": "BPE",
        "vocab": {"a": 0, "Ġb": 1, "<|endoftext|>": 2},
        "merges": [],
    }
    path = write_layout(tmp_path, make_layout(model=model, added_tokens=[]))
    loaded = Tokenizer.load(path, replace(SPECIAL, sot=3, eot=2))
    assert isinstance(loaded.backend, QuickBackend)
    assert loaded.decode((0, 2, 1, 3)) == "a b"


class Empty:
    """A tokenizer without a vocabulary: prefixes need none."""

    def token_to_id(self, name: str) -> int | None:
        return None


def make_prefix(
    language: str, task: str, tokens: SpecialTokens = TOY_TOKENS, **named: bool
) -> list[int]:
    return list(Tokenizer(Empty(), tokens).prefix(language, task, **named))  # type: ignore[arg-type]


def test_prefix_has_language_task_and_timestamps() -> None:
    assert make_prefix("en", "transcribe") == [11, 12, 14, 19]
    assert make_prefix("de", "translate") == [11, 13, 15, 19]
    assert make_prefix("de", "translate", timestamps=True) == [11, 13, 15]
    without = replace(TOY_TOKENS, no_timestamps=None)
    assert make_prefix("en", "transcribe", without) == [11, 12, 14]


def test_prefix_of_english_model_is_sot() -> None:
    english = replace(TOY_TOKENS, languages={}, transcribe=None, translate=None)
    assert make_prefix("en", "transcribe", english) == [11, 19]
    for language, task in (("de", "transcribe"), ("en", "translate")):
        with pytest.raises(OptionError, match="English"):
            make_prefix(language, task, english)


@pytest.mark.parametrize(
    ("language", "task", "message"),
    [
        ("xx", "transcribe", "'xx'.*: en, de"),
        ("eng", "transcribe", r"English \(en\)"),
        ("en", "summarise", "'summarise'"),
    ],
)
def test_prefix_unknown_language_or_task_raises(
    language: str, task: str, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        make_prefix(language, task)


@pytest.mark.parametrize(
    ("n_languages", "known"),
    [
        (2, ": l0, l1$"),
        (10, ": l0, .*l9$"),
        (11, " 11, [^l]*$"),
        (99, " 99, [^l]*$"),
    ],
)
def test_prefix_error_lists_at_most_ten_languages(n_languages: int, known: str) -> None:
    many = {f"l{index}": 100 + index for index in range(n_languages)}
    with pytest.raises(OptionError, match=known):
        make_prefix("xx", "transcribe", replace(TOY_TOKENS, languages=many))


def test_prefix_task_missing_in_model_raises() -> None:
    with pytest.raises(OptionError, match="'translate'"):
        make_prefix("en", "translate", replace(TOY_TOKENS, translate=None))


@pytest.mark.parametrize("name", ["sot", "eot"])
def test_load_other_sot_or_eot_raises(name: str) -> None:
    other_id = getattr(SPECIAL, name) + 1
    with pytest.raises(TokenizerError, match=str(other_id)):
        Tokenizer.load(FILE, replace(SPECIAL, **{name: other_id}))


def test_load_file_without_control_tokens_is_accepted(tmp_path: Path) -> None:
    small = make_layout(added_tokens=[])
    loaded = Tokenizer.load(
        write_layout(tmp_path, small), replace(SPECIAL, sot=11, eot=3)
    )
    assert loaded.decode((0, 1)) == "a b"


def test_load_missing_file_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="--tokenizer"):
        Tokenizer.load(tmp_path / "tokenizer.json", SPECIAL)


@pytest.mark.parametrize("vocabulary", [{"a": -1, "b": 0}, {"a": 0, "b": 4}])
def test_quick_backend_negative_or_sparse_ids_are_none(
    tmp_path: Path, vocabulary: dict[str, int]
) -> None:
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    assert QuickBackend.read(write_layout(tmp_path, make_layout(model=model))) is None


def test_quick_backend_unused_ids_have_no_text(tmp_path: Path) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 3, "cc": 1}, "merges": []}
    vocabulary = QuickBackend.read(write_layout(tmp_path, make_layout(model=model)))
    assert vocabulary is not None
    assert [vocabulary.decode([token]) for token in (0, 1, 2, 3, 4, -1)] == [
        "a",
        "cc",
        "",
        "b",
        "",
        "",
    ]
    assert len(vocabulary.tokens) == 4, "no token beyond the last one"


def test_quick_backend_maps_letters_to_bytes(tmp_path: Path) -> None:
    """GPT-2's table: printable bytes stand for themselves, a blank is `Ġ`, a line end `Ċ`."""
    letters = {letter: number for number, letter in enumerate("!ĠĊÿ¡Ń")}
    model = {"type": "BPE", "vocab": letters, "merges": []}
    byte_level = QuickBackend.read(write_layout(tmp_path, make_layout(model=model)))
    assert byte_level is not None
    assert byte_level.decode([0]) == "!"
    assert byte_level.decode([1]) == " "
    assert byte_level.decode([2]) == "\n"
    assert byte_level.decode([4, 4]) == "\ufffd\ufffd"  # no UTF-8


@pytest.mark.parametrize("is_pair", [True, False])
def test_read_tokenizer_without_its_first_merge_adds_it(
    tmp_path: Path, is_pair: bool
) -> None:
    layout = json.loads(FILE.read_text(encoding="utf-8"))
    _, *merges = layout["model"]["merges"]
    layout["model"]["merges"] = merges if is_pair else [" ".join(m) for m in merges]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(layout), encoding="utf-8")
    text = " the talk of the town"
    published = Library.from_file(str(path)).encode(text, add_special_tokens=False)
    expected = LIBRARY.encode(text, add_special_tokens=False).ids
    assert published.ids != expected
    backend = read_tokenizer(path)
    assert backend.encode(text, add_special_tokens=False).ids == expected
