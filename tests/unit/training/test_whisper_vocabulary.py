"""The special tokens' ids, and the bundled tokenizer that the recipe wrote."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from training import whisper_vocabulary as ids

TOKENIZER = Path("src/whisper_hailo/assets/micro/tokenizer.json")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(Path(__file__).parents[3] / TOKENIZER))


def test_special_ids_are_whispers() -> None:
    special = ids.special_tokens()
    assert len(special) == ids.N_VOCAB - ids.EOT
    assert special["<|en|>"] == 50259
    assert special["<|su|>"] == 50357
    assert special["<|notimestamps|>"] == 50363
    assert special["<|0.00|>"] == 50364
    assert special["<|30.00|>"] == 51864


def test_hello_world(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(" Hello world.").ids == [2425, 1002, 13]
    assert tokenizer.decode([2425, 1002, 13]) == " Hello world."


@pytest.mark.parametrize(
    "text", [" naïve façade", "Grüße, 東京!", "\n\n tab\there", " don't 12345"]
)
def test_any_text_survives_a_round_trip(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_special_tokens_are_single_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|startoftranscript|><|de|><|0.02|>").ids == [50258, 50261, 50365]


def test_suppressed_ids_are_the_published_ones(tokenizer: Tokenizer) -> None:
    found = ids.non_speech_ids(tokenizer)
    assert len(found) == 88
    assert found[:6] == [1, 2, 7, 8, 9, 10]
    assert found[-6:] == [50258, 50358, 50359, 50360, 50361, 50362]
