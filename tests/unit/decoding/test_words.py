"""Words out of tokens, and their times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.words import word
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.words import (
    join_punctuation,
    split_into_sentences,
    split_words,
)
from whisper_hailo.text.tokenizer import Tokenizer


def test_split_words_of_broken_characters_matches_openai(tokenizer: Tokenizer) -> None:
    tokens = [8404, 871, 287, 6, 246, 526, 3210, 20378]
    words = split_words(tokenizer, tokens, "zh")  # every character for itself
    assert [text for text, _ in words] == [
        " elle", " est", " l", "'", "\ufffd", "é", "rit", "oire",
    ]  # fmt: skip
    assert [ids for _, ids in words] == [(token,) for token in tokens]


def test_split_words_keeps_multi_token_characters(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode(" 🧑🚀 fly")
    assert len(tokens) > 4
    words = split_words(tokenizer, tokens, "en")
    assert [text for text, _ in words] == [" 🧑🚀", " fly"]
    assert [text for text, _ in split_words(tokenizer, tokens, "zh")] == [
        " 🧑",
        "🚀",
        " fly",
    ]


def test_split_words_of_cut_character_keeps_tokens(tokenizer: Tokenizer) -> None:
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
def test_split_words_judges_a_piece_by_its_first_mark(
    tokenizer: Tokenizer, tokens: list[int], pieces: list[tuple[str, int]]
) -> None:
    """Like OpenAI Whisper's `split_tokens_on_unicode`, which loses an unfinished last one."""
    words = split_words(tokenizer, tokens, "zh")
    assert [(text, len(ids)) for text, ids in words] == pieces


def test_split_words_of_random_tokens_loses_none(tokenizer: Tokenizer) -> None:
    """Most of them are single bytes, of which characters may be made or not."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        tokens = rng.integers(94, 300, 6).tolist()
        for language in ("en", "zh"):
            words = split_words(tokenizer, tokens, language)
            assert [token for _, ids in words for token in ids] == tokens
            assert all(ids for _, ids in words)


def test_split_words_begins_words_at_blanks_and_marks(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode(" Unbelievably good, isn't it?")
    words = split_words(tokenizer, tokens, "en")
    assert "".join(text for text, _ in words) == " Unbelievably good, isn't it?"
    assert [text for text, _ in words][:3] == [" Unbelievably", " good", ","]
    assert [token for _, ids in words for token in ids] == list(tokens)


def test_join_punctuation_joins_both_directions() -> None:
    texts = [" “", "Hello", ",", " she", " said", ".", "”"]
    words = [word(text, (i,), i, i + 1.0, 0.5) for i, text in enumerate(texts)]
    joined = join_punctuation(words)
    assert [word.text for word in joined if word.text] == [
        " “Hello,",
        " she",
        " said.”",
    ]
    assert [word.tokens for word in joined if word.text] == [(0, 1, 2), (3,), (4, 5, 6)]
    assert (joined[1].start_s, joined[1].end_s) == (1, 2.0)


def segment_of(
    *texts: str, pauses: dict[int, float] | None = None, word_s: float = 0.4
) -> Segment:
    """Words of equal length, with pauses in seconds before those of these numbers."""
    words = []
    now_s = 1.0
    for index, text in enumerate(texts):
        now_s += (pauses or {}).get(index, 0.0)
        words.append(Word(now_s, now_s + word_s, text, 0.9, (index,)))
        now_s += word_s
    text = "".join(texts).strip()
    tokens = tuple(range(len(texts)))
    return Segment(
        0.0,
        30.0,
        text,
        tokens,
        -0.2,
        0.1,
        language="en",
        words=tuple(words),
        window_start_s=0.5,
    )


def spoken(text: str) -> list[str]:
    return [f" {word}" for word in text.split()]


def split(*texts: str, **options: object) -> list[str]:
    return [part.text for part in split_into_sentences(segment_of(*texts, **options))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rains. We stay. Why?", ["It rains.", "We stay.", "Why?"]),
        ("Stop! Go", ["Stop!", "Go"]),
        ("Well… Yes", ["Well…", "Yes"]),
        ('He said "Stop." Then he left', ['He said "Stop."', "Then he left"]),
        ("(It rains.) We stay.", ["(It rains.)", "We stay."]),
        ("one sentence without an end", ["one sentence without an end"]),
    ],
)
def test_split_into_sentences_splits_at_sentence_marks(
    text: str, expected: list[str]
) -> None:
    assert split(*spoken(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I saw Mr. Smith and Dr. Jones.",
        "Room No. Five is at St. Mary's.",
        "J. S. Bach wrote it.",
        "It costs approx. 5 euros.",
        "Wait ... and see.",
        "Version 2. 5 is out.",
    ],
)
def test_split_into_sentences_ignores_titles_and_initials(text: str) -> None:
    assert split(*spoken(text)) == [text]


def test_split_into_sentences_splits_after_small_initials() -> None:
    """Only capitals are initials."""
    assert split(*spoken("Choose plan b. Then go.")) == ["Choose plan b.", "Then go."]


@pytest.mark.parametrize(("pause_s", "n_parts"), [(1.49, 1), (1.51, 2)])
def test_split_into_sentences_splits_at_1_5_s_pauses(
    pause_s: float, n_parts: int
) -> None:
    parts = split(*spoken("we wait and go"), pauses={2: pause_s})
    assert parts == (["we wait and go"] if n_parts == 1 else ["we wait", "and go"])


def test_split_into_sentences_divides_words_and_tokens() -> None:
    whole = segment_of(*spoken("It rains. We stay."), pauses={2: 1.0})
    first, second = split_into_sentences(whole)
    assert (first.start_s, first.end_s) == pytest.approx((1.0, 1.8))
    assert (second.start_s, second.end_s) == pytest.approx((2.8, 3.6))
    assert (first.tokens, second.tokens) == ((0, 1), (2, 3))
    assert first.words + second.words == whole.words
    for part in (first, second):
        assert (part.language, part.avg_logprob, part.window_start_s) == (
            "en",
            -0.2,
            0.5,
        )


def test_split_into_sentences_of_one_returns_the_segment() -> None:
    """The word's times stay."""
    whole = segment_of(*spoken("It rains."))
    assert split_into_sentences(whole) == [whole]
    single = segment_of(" Yes.")
    assert split_into_sentences(single) == [single]


def test_split_into_sentences_without_words_stays_whole() -> None:
    bare = Segment(0.0, 30.0, "It rains. We stay.", (1, 2), -0.2, 0.1)
    assert split_into_sentences(bare) == [bare]


def test_split_into_sentences_splits_long_one_at_pause() -> None:
    texts = [f" w{index}" for index in range(30)]
    parts = split_into_sentences(segment_of(*texts, pauses={16: 0.8}))
    assert [len(part.words) for part in parts] == [16, 14]


def test_split_into_sentences_splits_long_one_after_clause() -> None:
    texts = [f" w{index}" for index in range(30)]
    texts[13] += ","
    parts = split_into_sentences(segment_of(*texts))
    assert [len(part.words) for part in parts] == [14, 16]


def test_split_into_sentences_keeps_10_s_whole() -> None:
    texts = [f" w{index}" for index in range(25)]
    assert len(split_into_sentences(segment_of(*texts, word_s=0.39))) == 1
    assert len(split_into_sentences(segment_of(*texts, word_s=0.41))) == 2


def test_split_into_sentences_keeps_single_long_word() -> None:
    whole = segment_of(" Ooooh", word_s=25.0)
    assert split_into_sentences(whole) == [whole]


def test_split_into_sentences_splits_unspaced_script() -> None:
    assert split("今日", "は", "雨", "。", "出か", "けない", "。") == [
        "今日は雨。",
        "出かけない。",
    ]
    assert split("真的", "吗", "？", "是", "的", "！") == ["真的吗？", "是的！"]  # noqa: RUF001
    assert split("「", "はい", "。", "」", "「", "いいえ", "。」") == [
        "「はい。",
        "」「いいえ。」",
    ]


def test_split_into_sentences_splits_unspaced_after_commas() -> None:
    texts = ["字"] * 30
    texts[14] = "字、"
    parts = split_into_sentences(segment_of(*texts))
    assert [len(part.words) for part in parts] == [15, 15]
    assert "".join(part.text for part in parts) == "".join(texts)


@given(
    st.lists(
        st.sampled_from([" It", " rains.", " Mr.", " b", ",", "。", " 5", '."']),
        min_size=1,
    ),
    st.floats(0.05, 12.0),
    st.dictionaries(st.integers(0, 20), st.floats(0.0, 3.0)),
)
def test_split_into_sentences_of_random_words_loses_none(
    texts: list[str], word_s: float, pauses: dict[int, float]
) -> None:
    whole = segment_of(*texts, pauses=pauses, word_s=word_s)
    parts = split_into_sentences(whole)
    assert [word for part in parts for word in part.words] == list(whole.words)
    assert tuple(token for part in parts for token in part.tokens) == whole.tokens
    for part in parts:
        spoken_s = part.words[-1].end_s - part.words[0].start_s
        assert spoken_s <= 10.0 or len(part.words) == 1


def test_join_punctuation_joins_several_marks() -> None:
    texts = [" (", " [", "a", "]", ")", ","]
    words = [word(text, (i,), float(i), i + 1.0, 0.5) for i, text in enumerate(texts)]
    joined = [word for word in join_punctuation(words, "([", ")],") if word.text]
    assert [(word.text, word.tokens) for word in joined] == [
        (" ( [a]),", (0, 1, 2, 3, 4, 5))
    ]
    assert (joined[0].start_s, joined[0].end_s) == (2.0, 3.0)


def test_join_punctuation_needs_space_before_opening_mark() -> None:
    words = [word(text, (i,)) for i, text in enumerate([" a", "(", "b"])]
    assert [word.text for word in join_punctuation(words, "(", "")] == [" a", "(", "b"]


def test_join_punctuation_after_trailing_space_joins_nothing() -> None:
    words = [word(text, (i,)) for i, text in enumerate([" a ", "."])]
    assert [word.text for word in join_punctuation(words, "", ".")] == [" a ", "."]


def test_join_punctuation_keeps_a_leading_closing_mark() -> None:
    words = [word(text, (i,)) for i, text in enumerate([".", " a", "(", "."])]
    assert [word.text for word in join_punctuation(words, "(", ".")] == [
        ".",
        " a",
        "(.",
        "",
    ]
    assert join_punctuation([], "(", ".") == []
    assert join_punctuation(words[:1], ".", ".") == words[:1]


def test_join_punctuation_keeps_a_trailing_opening_mark() -> None:
    words = [word(text, (i,)) for i, text in enumerate([" a", " ("])]
    assert join_punctuation(words, "(", ")") == words


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        ([" (", "a"], ["", " (a"]),
        ([" a", " (", "b"], [" a", "", " (b"]),
        ([" a", ".", " (", "b", ")"], [" a.", "", "", " (b)", ""]),
    ],
)
def test_join_punctuation_empties_joined_marks(
    texts: list[str], joined: list[str]
) -> None:
    words = join_punctuation(
        [word(text, (i,)) for i, text in enumerate(texts)], "(", ".)"
    )
    assert [word.text for word in words] == joined
    assert [bool(word.tokens) for word in words] == [bool(text) for text in joined]
    assert [token for word in words for token in word.tokens] == list(range(len(texts)))
