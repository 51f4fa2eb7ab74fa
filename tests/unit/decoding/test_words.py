"""Words out of tokens, and their times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import whisper_hailo
from tests.unit.shapes import TOY_TOKENS
from tests.unit.spoken_words import word
from whisper_hailo.audio.windows import Window
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.core.types import Segment
from whisper_hailo.decoding.options import APPENDED, PREPENDED, WordOptions
from whisper_hailo.decoding.word_times import (
    median_filter,
    token_starts,
    warp_path,
    whole_positions,
    words_into_segments,
)
from whisper_hailo.decoding.words import join_punctuation, split_words
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.assemble import round_times

WINDOW = Window(np.zeros(480_000, np.float32), 0.0)
MICRO = Path(whisper_hailo.__file__).parent / "assets" / "micro"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    file = MICRO / "tokenizer.json"
    return Tokenizer.load(file, read_special_tokens(MICRO, file))


def test_broken_characters_as_in_openai_s_own_test(tokenizer: Tokenizer) -> None:
    tokens = [8404, 871, 287, 6, 246, 526, 3210, 20378]
    words = split_words(tokenizer, tokens, "zh")  # every character for itself
    assert [text for text, _ in words] == [
        " elle", " est", " l", "'", "\ufffd", "é", "rit", "oire",
    ]  # fmt: skip
    assert [ids for _, ids in words] == [(token,) for token in tokens]


def test_a_character_of_several_tokens_is_not_taken_apart(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode(" 🧑🚀 fly")
    assert len(tokens) > 4
    words = split_words(tokenizer, tokens, "en")
    assert [text for text, _ in words] == [" 🧑🚀", " fly"]
    assert [text for text, _ in split_words(tokenizer, tokens, "zh")] == [" 🧑", "🚀", " fly"]


def test_a_text_that_breaks_off_within_a_character_keeps_its_tokens(tokenizer: Tokenizer) -> None:
    """The last token begins a character that does not end: it is what is left."""
    for language in ("en", "ko"):
        words = split_words(tokenizer, [23142, 99], language)
        assert [token for _, ids in words for token in ids] == [23142, 99]
        assert "".join(text for text, _ in words).startswith(" 반")


@pytest.mark.parametrize(
    ("tokens", "pieces"),
    [
        # A token whose first byte is no character and whose last begins one.
        ([2366, 34328], [("\ufffd" * 2, 1), ("\ufffd" * 2 + "니다", 1)]),
        ([45863, 48411], [("\ufffd" * 3, 1), ("\ufffd" * 2, 1)]),
        # Characters that break off, each after a whole one or a blank.
        ([37067, 17058, 23531], [("세\ufffd", 1), ("\ufffd" * 2, 1), (" 보\ufffd", 1)]),
    ],
)
def test_broken_characters_are_judged_by_the_first_of_a_piece(
    tokenizer: Tokenizer, tokens: list[int], pieces: list[tuple[str, int]]
) -> None:
    """As OpenAI Whisper's `split_tokens_on_unicode` does, which loses an unfinished last one."""
    words = split_words(tokenizer, tokens, "zh")
    assert [(text, len(ids)) for text, ids in words] == pieces


def test_any_tokens_are_words_in_order_and_none_is_lost(tokenizer: Tokenizer) -> None:
    """Most of them are single bytes, of which characters may be made or not."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        tokens = rng.integers(94, 300, 6).tolist()
        for language in ("en", "zh"):
            words = split_words(tokenizer, tokens, language)
            assert [token for _, ids in words for token in ids] == tokens
            assert all(ids for _, ids in words)


def test_words_begin_at_blanks_and_marks(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode(" Unbelievably good, isn't it?")
    words = split_words(tokenizer, tokens, "en")
    assert "".join(text for text, _ in words) == " Unbelievably good, isn't it?"
    assert [text for text, _ in words][:3] == [" Unbelievably", " good", ","]
    assert [token for _, ids in words for token in ids] == list(tokens)


def test_marks_join_the_word_they_belong_to() -> None:
    texts = [" “", "Hello", ",", " she", " said", ".", "”"]
    words = [word(text, (i,), i, i + 1.0, 0.5) for i, text in enumerate(texts)]
    joined = join_punctuation(words, PREPENDED, APPENDED)
    assert [word.text for word in joined if word.text] == [" “Hello,", " she", " said.”"]
    assert [word.tokens for word in joined if word.text] == [(0, 1, 2), (3,), (4, 5, 6)]
    assert (joined[1].start_s, joined[1].end_s) == (1, 2.0)


def test_warping_follows_the_cheapest_path() -> None:
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (1, 5), (5, 1), (4, 9), (9, 4)):
        cost = rng.normal(size=(n, m))
        rows, columns = warp_path(cost)
        steps = list(zip(np.diff(rows), np.diff(columns), strict=True))
        assert set(steps) <= {(0, 1), (1, 0), (1, 1)}
        assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, n - 1, m - 1)
        table = np.full((n + 1, m + 1), np.inf)
        table[0, 0] = 0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                table[i, j] = cost[i - 1, j - 1] + min(
                    table[i - 1, j - 1], table[i - 1, j], table[i, j - 1]
                )
        assert cost[rows, columns].sum() == pytest.approx(table[n, m])


def test_a_tie_goes_across_as_in_openai_whisper() -> None:
    """Its rule: diagonal or down only where it is cheaper than both others."""
    rows, columns = warp_path(np.zeros((2, 3)))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 1, 1], [0, 0, 1, 2])
    rows, columns = warp_path(np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 1], [0, 0, 1])
    # Of the ways to the last cell the diagonal and across are even, then down and across.
    for cost in ([[0.0, 1.0], [0.0, 0.0]], [[0.0, -1.0], [-1.0, 0.0]]):
        rows, columns = warp_path(np.array(cost))
        assert (rows.tolist(), columns.tolist()) == ([0, 1, 1], [0, 0, 1])


def test_median_reflects_at_the_ends_and_leaves_short_rows() -> None:
    values = np.array([[9.0, 1.0, 2.0, 8.0, 3.0, 4.0, 0.0, 5.0]])
    padded = np.concatenate([values[0, 3:0:-1], values[0], values[0, -2:-5:-1]])
    expected = [np.median(padded[i : i + 7]) for i in range(8)]
    assert median_filter(values).tolist() == [expected]
    assert median_filter(values[:, :3]).tolist() == values[:, :3].tolist()


def test_tokens_start_where_attention_moves_and_padding_counts_for_nothing() -> None:
    attention = np.full((2, 4, 60), 1e-4, np.float32)
    for token in range(4):
        attention[:, token, token * 10 : token * 10 + 10] = 0.1
    heard = token_starts(attention, 40, slice(0, 4))
    assert np.abs(heard - np.array([0, 10, 20, 30])).max() <= 3
    loud = attention.copy()
    loud[:, :, 40:] = 5.0  # beyond the audio
    assert token_starts(loud, 40, slice(0, 4)).tolist() == heard.tolist()


def test_words_go_to_their_segments_and_move_their_edges() -> None:
    segments = [
        Segment(0.0, 2.0, "One two.", (1, 2), -0.1, 0.0),
        Segment(2.0, 9.0, "Three.", (3,), -0.1, 0.0),
    ]
    words = [
        word(" One", (1,), 0.1, 0.5, 0.9),
        word(" two.", (2,), 0.5, 0.9, 0.8),
        word(" Three.", (3,), 2.2, 2.6, 0.7),
    ]
    first, second = words_into_segments(
        segments, words, WINDOW, WordOptions(), eot=TOY_TOKENS.eot, last_speech_s=0.0
    )
    assert [word.text for word in first.words] == [" One", " two."]
    assert (first.start_s, first.end_s, second.start_s, second.end_s) == (0.1, 0.9, 2.2, 2.6)
    assert second.words[0].tokens == (3,)


def test_half_a_second_is_compared_as_openai_whisper_computes_it() -> None:
    """226.24 + 8.4 - 0.5 is more than 234.14, 234.64 - 0.5 is not: the last bit decides."""
    window = Window(np.zeros(480_000, np.float32), 226.24)
    said = Segment(226.24 + 8.4, 236.0, "One two three four.", (1, 2, 3, 4), -0.1, 0.0)
    edges = [n / 50 for n in (363, 424, 438, 453, 467)]
    words = [
        word(f" {text}", (token,), edges[token - 1], edges[token], 0.9)
        for token, text in enumerate(("One", "two", "three", "four."), start=1)
    ]
    (mended,) = words_into_segments(
        [said], words, window, WordOptions(), eot=TOY_TOKENS.eot, last_speech_s=220.0
    )
    assert mended.words[0].start_s == pytest.approx(234.43)
    assert mended.start_s == said.start_s
    assert round_times(mended).start_s == 234.64


@pytest.mark.parametrize("n_positions", [1, 29, 57, 201, 479, 717, 1499, 1500])
def test_whole_positions_are_counted_by_samples(n_positions: int) -> None:
    assert whole_positions(n_positions * 320 / 16_000) == n_positions
    assert whole_positions((n_positions * 320 + 319) / 16_000) == n_positions
    assert whole_positions(0.001) == 1  # never none
