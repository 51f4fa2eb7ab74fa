"""Control token ids of a checkpoint, and tokenizers built of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from whisper_hailo.checkpoint.tokens import read_special_tokens, write_tokenizer
from whisper_hailo.core.errors import ModelError, TokenizerError

WORDS = ["a", "b", "c", "ab"]
CONTROL = [
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|haw|>", "<|translate|>",
    "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
    "<|0.00|>", "<|0.02|>",
]  # fmt: skip
IDS = {name: len(WORDS) + index for index, name in enumerate(CONTROL)}
N_VOCAB = len(WORDS) + len(CONTROL)


def write(directory: Path, name: str, value: Any) -> Path:
    path = directory / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_vocabulary(directory: Path, control: list[str] = CONTROL) -> Path:
    """The older pair of files, with control tokens in `added_tokens.json`."""
    path = write(
        directory, "vocab.json", {word: index for index, word in enumerate(WORDS)}
    )
    (directory / "merges.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")
    write(
        directory,
        "added_tokens.json",
        {n: len(WORDS) + i for i, n in enumerate(control)},
    )
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write(
        tmp_path,
        "config.json",
        {"vocab_size": N_VOCAB, "decoder_start_token_id": 5, "eos_token_id": 4},
    )
    write(
        tmp_path,
        "generation_config.json",
        {
            "is_multilingual": True,
            "suppress_tokens": [3, 1],
            "begin_suppress_tokens": [2, 4],
        },
    )
    return tmp_path


def test_write_tokenizer_joins_older_vocabulary_files(checkpoint: Path) -> None:
    from tokenizers import Tokenizer

    write_vocabulary(checkpoint)
    out = checkpoint / "out.json"
    assert write_tokenizer(checkpoint, None, out)
    tokenizer = Tokenizer.from_file(str(out))
    assert tokenizer.encode("abc").ids == [3, 2]
    assert tokenizer.decode([3, 2]) == "abc"
    assert {name: tokenizer.token_to_id(name) for name in CONTROL} == IDS


def test_special_tokens_come_from_the_tokenizer(checkpoint: Path) -> None:
    write_vocabulary(checkpoint)
    out = checkpoint / "tokenizer.json"
    write_tokenizer(checkpoint, None, out)
    tokens = read_special_tokens(checkpoint, out)
    assert (tokens.sot, tokens.eot) == (5, 4)
    assert (tokens.transcribe, tokens.translate) == (9, 8)
    assert (tokens.sot_lm, tokens.sot_prev, tokens.no_speech) == (10, 11, 12)
    assert (tokens.no_timestamps, tokens.timestamp_begin) == (13, 14)
    assert tokens.languages == {"en": 6, "haw": 7}
    assert (tokens.suppress, tokens.begin_suppress) == ((1, 3), (2, 4))


def test_special_tokens_timestamps_begin_as_in_tokenizer(checkpoint: Path) -> None:
    separated = [*CONTROL[:-2], "<|extra|>", *CONTROL[-2:]]
    write(checkpoint, "config.json", {"vocab_size": N_VOCAB + 1})
    write_vocabulary(checkpoint, separated)
    write_tokenizer(checkpoint, None, checkpoint / "tokenizer.json")
    tokens = read_special_tokens(checkpoint, checkpoint / "tokenizer.json")
    assert (tokens.no_timestamps, tokens.timestamp_begin) == (13, 15)


def test_special_tokens_prefer_tokenizer_over_config(
    checkpoint: Path,
) -> None:
    """Fine-tuned checkpoints come with the tasks of the model before: ids moved by a language."""
    tasks = {"is_multilingual": True, "task_to_id": {"transcribe": 8, "translate": 7}}
    write(checkpoint, "generation_config.json", tasks)
    write_vocabulary(checkpoint)
    write_tokenizer(checkpoint, None, checkpoint / "tokenizer.json")
    tokens = read_special_tokens(checkpoint, checkpoint / "tokenizer.json")
    assert (tokens.transcribe, tokens.translate) == (9, 8)


def test_special_tokens_of_early_tokenizers(checkpoint: Path) -> None:
    early = [name.replace("nospeech", "nocaptions") for name in CONTROL[:-2]]
    write_vocabulary(checkpoint, early)
    out = checkpoint / "tokenizer.json"
    write_tokenizer(checkpoint, None, out)
    tokens = read_special_tokens(checkpoint, out)
    assert tokens.no_speech == 12
    assert tokens.timestamp_begin == 14


def test_special_tokens_of_english_have_no_languages(checkpoint: Path) -> None:
    write(checkpoint, "generation_config.json", {"is_multilingual": False})
    write_vocabulary(checkpoint)
    out = checkpoint / "tokenizer.json"
    write_tokenizer(checkpoint, None, out)
    tokens = read_special_tokens(checkpoint, out)
    assert tokens.languages == {}
    assert tokens.transcribe is None
    assert tokens.sot == 5


@pytest.mark.parametrize(
    ("n_vocab", "languages"), [(51864, {}), (51865, {"en": 6, "haw": 7})]
)
def test_special_tokens_without_flag_use_vocabulary_size(
    checkpoint: Path, n_vocab: int, languages: dict[str, int]
) -> None:
    write(checkpoint, "config.json", {"vocab_size": n_vocab})
    (checkpoint / "generation_config.json").unlink()
    write_vocabulary(checkpoint)
    out = checkpoint / "tokenizer.json"
    write_tokenizer(checkpoint, None, out)
    assert read_special_tokens(checkpoint, out).languages == languages


def test_special_tokens_without_tokenizer_use_configs(checkpoint: Path) -> None:
    write(
        checkpoint,
        "generation_config.json",
        {
            "is_multilingual": True,
            "lang_to_id": {"<|en|>": 6},
            "task_to_id": {"transcribe": 9, "translate": 8},
            "no_timestamps_token_id": 13,
            "prev_sot_token_id": 11,
            "suppress_tokens": [-1],
        },
    )
    tokens = read_special_tokens(checkpoint, None)
    assert (tokens.sot, tokens.eot, tokens.transcribe, tokens.sot_prev) == (5, 4, 9, 11)
    assert (tokens.no_timestamps, tokens.timestamp_begin) == (13, 14)
    assert (tokens.languages, tokens.suppress, tokens.no_speech) == (
        {"en": 6},
        (),
        None,
    )


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        ({"lang_to_id": {"<|en|>": 6, "<|haw|>": 7}}, {"en": 6, "haw": 7}),
        ({}, {}),
        ({"lang_to_id": {"<|en|>": 6}, "is_multilingual": False}, {}),
    ],
)
def test_special_tokens_with_languages_are_multilingual(
    checkpoint: Path, generation: dict[str, Any], expected: dict[str, int]
) -> None:
    write(checkpoint, "generation_config.json", generation)
    assert read_special_tokens(checkpoint, None).languages == expected


def test_special_tokens_without_start_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"vocab_size": 20})
    with pytest.raises(ModelError, match="--tokenizer"):
        read_special_tokens(tmp_path, None)


@pytest.mark.parametrize("known", ["decoder_start_token_id", "eos_token_id"])
def test_special_tokens_need_start_and_end(tmp_path: Path, known: str) -> None:
    write(tmp_path, "config.json", {"vocab_size": 20, known: 5})
    with pytest.raises(ModelError, match="end token"):
        read_special_tokens(tmp_path, None)


@pytest.mark.parametrize(("listed", "expected"), [([4, 7], 4), ([0, 4], 0), ([6], 6)])
def test_special_tokens_take_the_first_end_token(
    checkpoint: Path, listed: list[int], expected: int
) -> None:
    write(checkpoint, "generation_config.json", {"eos_token_id": listed})
    assert read_special_tokens(checkpoint, None).eot == expected


def test_special_tokens_of_empty_end_list_are_missing(checkpoint: Path) -> None:
    write(checkpoint, "generation_config.json", {"eos_token_id": []})
    with pytest.raises(ModelError, match="end token"):
        read_special_tokens(checkpoint, None)


def test_special_tokens_fall_back_to_the_config(checkpoint: Path) -> None:
    write(
        checkpoint,
        "generation_config.json",
        {"decoder_start_token_id": None, "eos_token_id": 7},
    )
    tokens = read_special_tokens(checkpoint, None)
    assert (tokens.sot, tokens.eot) == (5, 7)


def test_special_tokens_languages_are_in_order_of_ids(checkpoint: Path) -> None:
    listed = {"<|de|>": 8, "<|zh|>": 6, "<|en|>": 7}
    write(checkpoint, "generation_config.json", {"lang_to_id": listed})
    languages = read_special_tokens(checkpoint, None).languages
    assert list(languages.items()) == [("zh", 6), ("en", 7), ("de", 8)]


def test_special_tokens_suppress_known_ids_in_order(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = [N_VOCAB - 1, 8, 1, 0, 8]
    write(checkpoint, "generation_config.json", {"suppress_tokens": [*known, -1]})
    assert read_special_tokens(checkpoint, None).suppress == (0, 1, 8, N_VOCAB - 1)
    assert not caplog.records
    write(checkpoint, "generation_config.json", {"suppress_tokens": [*known, N_VOCAB]})
    assert read_special_tokens(checkpoint, None).suppress == (0, 1, 8, N_VOCAB - 1)
    assert "suppress_tokens" in caplog.text


def test_special_tokens_may_be_among_the_words(checkpoint: Path) -> None:
    words = {name: index for index, name in enumerate([*WORDS, *CONTROL])}
    out = write(checkpoint, "tokenizer.json", {"model": {"vocab": words}})
    tokens = read_special_tokens(checkpoint, out)
    assert (tokens.sot, tokens.eot, tokens.no_speech) == (5, 4, 12)
    assert tokens.languages == {"en": 6, "haw": 7}


def test_special_tokens_missing_in_tokenizer_are_configs(checkpoint: Path) -> None:
    added = [{"content": "<|endoftext|>", "id": 4}]
    words = {name: index for index, name in enumerate(WORDS)}
    for known in (added, []):
        content = {"model": {"vocab": words}, "added_tokens": known}
        tokens = read_special_tokens(
            checkpoint, write(checkpoint, "tokenizer.json", content)
        )
        assert (tokens.sot, tokens.eot, tokens.no_timestamps) == (5, 4, None)


def test_special_tokens_of_other_tokenizer_are_refused(checkpoint: Path) -> None:
    write_vocabulary(checkpoint)
    out = checkpoint / "tokenizer.json"
    write_tokenizer(checkpoint, None, out)
    write(
        checkpoint, "config.json", {"vocab_size": N_VOCAB, "decoder_start_token_id": 4}
    )
    with pytest.raises(TokenizerError, match="startoftranscript"):
        read_special_tokens(checkpoint, out)
    write(checkpoint, "config.json", {"vocab_size": N_VOCAB, "eos_token_id": 5})
    with pytest.raises(TokenizerError, match="endoftext"):
        read_special_tokens(checkpoint, out)
    write(checkpoint, "config.json", {"vocab_size": N_VOCAB - 1})
    with pytest.raises(TokenizerError, match="15 tokens"):
        read_special_tokens(checkpoint, out)
    write(checkpoint, "config.json", {"vocab_size": 10})
    with pytest.raises(TokenizerError, match="10 tokens"):
        read_special_tokens(checkpoint, out)


def test_write_tokenizer_without_files_is_no_error(tmp_path: Path) -> None:
    assert not write_tokenizer(tmp_path, None, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_write_tokenizer_of_mismatched_files_is_refused(checkpoint: Path) -> None:
    write_vocabulary(checkpoint)
    write(checkpoint, "added_tokens.json", {"<|en|>": 99})
    with pytest.raises(TokenizerError, match="tokenizer"):
        write_tokenizer(checkpoint, None, checkpoint / "out.json")
    (checkpoint / "merges.txt").unlink()
    with pytest.raises(TokenizerError, match=r"merges\.txt"):
        write_tokenizer(checkpoint, None, checkpoint / "out.json")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"model": {}}', "\x80"])
def test_write_tokenizer_of_broken_files_is_refused(
    tmp_path: Path, content: str
) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_bytes(content.encode("latin-1"))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        write_tokenizer(tmp_path, None, tmp_path / "out.json")
    with pytest.raises(TokenizerError, match="absent"):
        write_tokenizer(tmp_path, tmp_path / "absent.json", tmp_path / "out.json")


MERGED_WORDS = ["a", "b", "\u0120", "\u0120a", "<|endoftext|>"]
"""A byte-level vocabulary writes a space as U+0120; OpenAI's has the end of a text among words."""

ADDED = {"<|notimestamps|>": 7, "<|en|>": 6, "<|startoftranscript|>": 5}
"""In another order than that of the ids."""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    (tmp_path / "vocab.json").write_text(
        json.dumps({word: i for i, word in enumerate(MERGED_WORDS)})
    )
    (tmp_path / "merges.txt").write_text("#version: 0.2\n\u0120 a\n", encoding="utf-8")
    (tmp_path / "added_tokens.json").write_text(json.dumps(ADDED))
    assert write_tokenizer(tmp_path, None, tmp_path / "out.json")
    return Tokenizer.from_file(str(tmp_path / "out.json"))


def test_built_tokenizer_joins_space_to_the_next_word(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a a").ids == [0, 3]
    assert tokenizer.encode("ab a").ids == [0, 1, 3]
    assert tokenizer.decode([0, 1, 3]) == "ab a"


def test_built_tokenizer_keeps_ids_in_any_order(tokenizer: Tokenizer) -> None:
    assert {name: tokenizer.token_to_id(name) for name in ADDED} == ADDED


def test_built_tokenizer_control_tokens_are_no_text(tokenizer: Tokenizer) -> None:
    control = ["<|startoftranscript|>", "<|en|>", "<|notimestamps|>", "<|endoftext|>"]
    assert tokenizer.encode("".join(control)).ids == [5, 6, 7, 4]
    assert tokenizer.decode([5, 6, 7, 0, 4]) == "a"
    shown = tokenizer.decode([5, 0, 4], skip_special_tokens=False)
    assert shown == "<|startoftranscript|>a<|endoftext|>"
