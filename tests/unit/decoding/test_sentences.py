"""Segments that end where sentences and pauses do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.words import split_into_sentences


def segment_of(*texts: str, pauses: dict[int, float] | None = None, word_s: float = 0.4) -> Segment:
    """Words of equal length, with pauses in seconds before those of these numbers."""
    words, now_s = [], 1.0
    for index, text in enumerate(texts):
        now_s += (pauses or {}).get(index, 0.0)
        words.append(Word(now_s, now_s + word_s, text, 0.9, (index,)))
        now_s += word_s
    text = "".join(texts).strip()
    tokens = tuple(range(len(texts)))
    return Segment(
        0.0, 30.0, text, tokens, -0.2, 0.1, language="en", words=tuple(words), window_start_s=0.5
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
def test_sentence_ends_part_segments(text: str, expected: list[str]) -> None:
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
def test_titles_initials_and_small_letters_part_nothing(text: str) -> None:
    assert split(*spoken(text)) == [text]


def test_small_initials_end_sentences() -> None:
    """Only capitals are initials."""
    assert split(*spoken("Choose plan b. Then go.")) == ["Choose plan b.", "Then go."]


@pytest.mark.parametrize(("pause_s", "n_parts"), [(1.49, 1), (1.51, 2)])
def test_pauses_of_a_second_and_a_half_part_segments(pause_s: float, n_parts: int) -> None:
    parts = split(*spoken("we wait and go"), pauses={2: pause_s})
    assert parts == (["we wait and go"] if n_parts == 1 else ["we wait", "and go"])


def test_parts_have_words_tokens_and_times_of_their_own() -> None:
    whole = segment_of(*spoken("It rains. We stay."), pauses={2: 1.0})
    first, second = split_into_sentences(whole)
    assert (first.start_s, first.end_s) == pytest.approx((1.0, 1.8))
    assert (second.start_s, second.end_s) == pytest.approx((2.8, 3.6))
    assert (first.tokens, second.tokens) == ((0, 1), (2, 3))
    assert first.words + second.words == whole.words
    for part in (first, second):
        assert (part.language, part.avg_logprob, part.window_start_s) == ("en", -0.2, 0.5)


def test_one_sentence_is_the_segment_itself() -> None:
    """Its times are left alone."""
    whole = segment_of(*spoken("It rains."))
    assert split_into_sentences(whole) == [whole]
    one = segment_of(" Yes.")
    assert split_into_sentences(one) == [one]


def test_segment_without_words_stays_whole() -> None:
    bare = Segment(0.0, 30.0, "It rains. We stay.", (1, 2), -0.2, 0.1)
    assert split_into_sentences(bare) == [bare]


def test_long_sentence_is_split_at_pause_near_middle() -> None:
    texts = [f" w{index}" for index in range(30)]
    parts = split_into_sentences(segment_of(*texts, pauses={16: 0.8}))
    assert [len(part.words) for part in parts] == [16, 14]


def test_long_sentence_is_split_behind_clause() -> None:
    texts = [f" w{index}" for index in range(30)]
    texts[13] += ","
    parts = split_into_sentences(segment_of(*texts))
    assert [len(part.words) for part in parts] == [14, 16]


def test_sentence_of_ten_seconds_stays_whole() -> None:
    texts = [f" w{index}" for index in range(25)]
    assert len(split_into_sentences(segment_of(*texts, word_s=0.39))) == 1
    assert len(split_into_sentences(segment_of(*texts, word_s=0.41))) == 2


def test_one_word_of_any_length_stays_whole() -> None:
    whole = segment_of(" Ooooh", word_s=25.0)
    assert split_into_sentences(whole) == [whole]


def test_unspaced_scripts_are_split_at_their_marks() -> None:
    assert split("今日", "は", "雨", "。", "出か", "けない", "。") == ["今日は雨。", "出かけない。"]
    assert split("真的", "吗", "？", "是", "的", "！") == ["真的吗？", "是的！"]  # noqa: RUF001
    assert split("「", "はい", "。", "」", "「", "いいえ", "。」") == ["「はい。", "」「いいえ。」"]


def test_long_unspaced_text_is_split_behind_its_commas() -> None:
    texts = ["字"] * 30
    texts[14] = "字、"
    parts = split_into_sentences(segment_of(*texts))
    assert [len(part.words) for part in parts] == [15, 15]
    assert "".join(part.text for part in parts) == "".join(texts)


@given(
    st.lists(st.sampled_from([" It", " rains.", " Mr.", " b", ",", "。", " 5", '."']), min_size=1),
    st.floats(0.05, 12.0),
    st.dictionaries(st.integers(0, 20), st.floats(0.0, 3.0)),
)
def test_no_word_is_lost_and_no_part_is_longer_than_it_must_be(
    texts: list[str], word_s: float, pauses: dict[int, float]
) -> None:
    whole = segment_of(*texts, pauses=pauses, word_s=word_s)
    parts = split_into_sentences(whole)
    assert [word for part in parts for word in part.words] == list(whole.words)
    assert tuple(token for part in parts for token in part.tokens) == whole.tokens
    for part in parts:
        spoken_s = part.words[-1].end_s - part.words[0].start_s
        assert spoken_s <= 10.0 or len(part.words) == 1
