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


def test_library_is_loaded_for_encoding_only(
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
    "id": 3, "content": "<|endoftext|>", "special": True, "single_word": False, "lstrip": False,
    "rstrip": False, "normalized": False,
}  # fmt: skip


def _small(**changes: Any) -> dict[str, Any]:
    model = {"type": "BPE", "vocab": {"a": 0, "Ġb": 1, "☃": 2}, "merges": []}
    bytes_of = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    whole = {
        "version": "1.0",
        "added_tokens": [CONTROL],
        "decoder": {"type": "ByteLevel", **bytes_of},
        "model": model,
    }
    return whole | changes


def _written(
    tmp_path: Path, content: dict[str, Any], indent: int | None = None
) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_letters_that_are_no_bytes_stand_for_themselves(
    tmp_path: Path, indent: int | None
) -> None:
    path = _written(tmp_path, _small(), indent)
    vocabulary = QuickBackend.read(path)
    assert vocabulary is not None
    assert vocabulary.decode([0, 1, 2, 9]) == "a b☃"
    assert vocabulary.added == {"<|endoftext|>": 3}


def test_half_a_character_that_json_can_spell_is_a_question_mark(
    tmp_path: Path,
) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "\ud800": 1}, "merges": []}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(_small(model=model)), encoding="utf-8")
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
def test_other_layouts_are_left_to_the_library(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert QuickBackend.read(_written(tmp_path, _small(**changes))) is None


def test_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(FILE.read_bytes()[:-200_001])
    with pytest.raises(TokenizerError, match="tokenizer"):
        Tokenizer.load(path, SPECIAL)


def test_tokenizer_of_another_model_is_refused() -> None:
    other = replace(SPECIAL, sot=7)
    with pytest.raises(TokenizerError, match="has 7"):
        Tokenizer.load(FILE, other)


@pytest.mark.parametrize(("special", "text"), [(False, "a& b"), (True, "a b")])
def test_tokens_added_among_the_text_are_left_to_the_library(
    tmp_path: Path, special: bool, text: str
) -> None:
    among = {**CONTROL, "content": "&", "special": special}
    path = _written(tmp_path, _small(added_tokens=[among, {**CONTROL, "id": 4}]))
    loaded = Tokenizer.load(path, replace(SPECIAL, sot=11, eot=4))
    assert not isinstance(loaded.backend, QuickBackend)
    assert loaded.decode((0, 3, 1, 4)) == text


def test_text_is_encoded_without_control_tokens_of_a_file(
    tmp_path: Path,
) -> None:
    """OpenAI's own files have a post-processor that does; the bundled one has none."""
    name = str(CONTROL["content"])
    ends = {"id": name, "ids": [CONTROL["id"]], "tokens": [name]}
    end = {"SpecialToken": {"id": name, "type_id": 0}}
    one, other = ({"Sequence": {"id": text, "type_id": 0}} for text in "AB")
    around = {
        "type": "TemplateProcessing",
        "single": [one, end],
        "pair": [one, other],
        "special_tokens": {name: ends},
    }
    path = _written(tmp_path, _small(post_processor=around))
    assert Library.from_file(str(path)).encode("aa").ids == [0, 0, 3]
    assert Tokenizer.load(path, replace(SPECIAL, sot=11, eot=3)).encode("aa") == (0, 0)


def test_control_token_in_the_vocabulary_has_no_text_either(tmp_path: Path) -> None:
    """As `<|endoftext|>` of the models that hear English only."""
    model = {
        "type": "BPE",
        "vocab": {"a": 0, "Ġb": 1, "<|endoftext|>": 2},
        "merges": [],
    }
    path = _written(tmp_path, _small(model=model, added_tokens=[]))
    loaded = Tokenizer.load(path, replace(SPECIAL, sot=3, eot=2))
    assert isinstance(loaded.backend, QuickBackend)
    assert loaded.decode((0, 2, 1, 3)) == "a b"


class Empty:
    """A tokenizer without a vocabulary: prefixes need none."""

    def token_to_id(self, name: str) -> int | None:
        return None


def prefix(
    language: str, task: str, tokens: SpecialTokens = TOY_TOKENS, **named: bool
) -> list[int]:
    return list(Tokenizer(Empty(), tokens).prefix(language, task, **named))  # type: ignore[arg-type]


def test_prefix_says_language_task_and_whether_times_are_wanted() -> None:
    assert prefix("en", "transcribe") == [11, 12, 14, 19]
    assert prefix("de", "translate") == [11, 13, 15, 19]
    assert prefix("de", "translate", timestamps=True) == [11, 13, 15]
    without = replace(TOY_TOKENS, no_timestamps=None)
    assert prefix("en", "transcribe", without) == [11, 12, 14]


def test_english_model_s_prefix_is_its_start() -> None:
    english = replace(TOY_TOKENS, languages={}, transcribe=None, translate=None)
    assert prefix("en", "transcribe", english) == [11, 19]
    for language, task in (("de", "transcribe"), ("en", "translate")):
        with pytest.raises(OptionError, match="English"):
            prefix(language, task, english)


@pytest.mark.parametrize(
    ("language", "task", "message"),
    [
        ("xx", "transcribe", "'xx'.*: en, de"),
        ("eng", "transcribe", r"English \(en\)"),
        ("en", "summarise", "'summarise'"),
    ],
)
def test_what_a_model_does_not_know_is_told(
    language: str, task: str, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        prefix(language, task)


@pytest.mark.parametrize(
    ("n_languages", "known"),
    [
        (2, ": l0, l1$"),
        (10, ": l0, .*l9$"),
        (11, " 11, by name or code, .*$"),
        (99, " 99, by .*$"),
    ],
)
def test_many_languages_are_not_listed(n_languages: int, known: str) -> None:
    many = {f"l{index}": 100 + index for index in range(n_languages)}
    with pytest.raises(OptionError, match=known):
        prefix("xx", "transcribe", replace(TOY_TOKENS, languages=many))


def test_task_that_a_model_lacks_is_unknown() -> None:
    with pytest.raises(OptionError, match="'translate'"):
        prefix("en", "translate", replace(TOY_TOKENS, translate=None))


@pytest.mark.parametrize("name", ["sot", "eot"])
def test_either_end_of_a_transcript_tells_another_model_apart(name: str) -> None:
    with pytest.raises(TokenizerError, match="same model"):
        Tokenizer.load(FILE, replace(SPECIAL, **{name: getattr(SPECIAL, name) + 1}))


def test_tokenizer_without_names_for_its_ends_is_believed(tmp_path: Path) -> None:
    small = _small(added_tokens=[])
    loaded = Tokenizer.load(_written(tmp_path, small), replace(SPECIAL, sot=11, eot=3))
    assert loaded.decode((0, 1)) == "a b"


def test_missing_tokenizer_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="--tokenizer"):
        Tokenizer.load(tmp_path / "tokenizer.json", SPECIAL)


@pytest.mark.parametrize("vocabulary", [{"a": -1, "b": 0}, {"a": 0, "b": 4}])
def test_ids_that_are_negative_or_far_apart_are_left_to_library(
    tmp_path: Path, vocabulary: dict[str, int]
) -> None:
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    assert QuickBackend.read(_written(tmp_path, _small(model=model))) is None


def test_ids_without_a_text_between_others_give_none(tmp_path: Path) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 3, "cc": 1}, "merges": []}
    vocabulary = QuickBackend.read(_written(tmp_path, _small(model=model)))
    assert vocabulary is not None
    assert [vocabulary.decode([token]) for token in (0, 1, 2, 3, 4, -1)] == [
        "a",
        "cc",
        "",
        "b",
        "",
        "",
    ]
    assert list(vocabulary.ends) == [1, 3, 3, 4], "nothing is kept beyond the last one"


def test_every_byte_has_a_letter_of_its_own(tmp_path: Path) -> None:
    """GPT-2's table: what prints stands for itself, a blank is `Ġ`, a line end `Ċ`."""
    letters = {letter: number for number, letter in enumerate("!ĠĊÿ¡Ń")}
    model = {"type": "BPE", "vocab": letters, "merges": []}
    bytes_of = QuickBackend.read(_written(tmp_path, _small(model=model)))
    assert bytes_of is not None
    assert bytes_of.decode([0]) == "!"
    assert bytes_of.decode([1]) == " "
    assert bytes_of.decode([2]) == "\n"
    assert bytes_of.decode([4, 4]) == "\ufffd\ufffd"  # no UTF-8


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
