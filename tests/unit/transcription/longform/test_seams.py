"""Sentences over the seams of windows: joined where they go on, apart where they do not."""

from __future__ import annotations

import pytest

from whisper_hailo.core.types import Segment, Word
from whisper_hailo.transcription.longform.seams import SentenceJoiner


def segment(
    text: str, start_s: float = 0.0, end_s: float = 2.0, language: str = "en"
) -> Segment:
    return Segment(start_s, end_s, text, (1,), -0.2, 0.0, language=language)


def timed(start_s: float, *texts: str) -> Segment:
    """Return a segment with a word a second."""
    words = tuple(
        Word(start_s + index, start_s + index + 1, text, 0.9, (index,))
        for index, text in enumerate(texts)
    )
    whole = "".join(texts).strip()
    tokens = tuple(range(len(texts)))
    end_s = start_s + len(texts)
    return Segment(start_s, end_s, whole, tokens, -0.2, 0.0, words=words, language="en")


def join(left: Segment, right: Segment, *, overlaps: bool) -> list[str]:
    joiner = SentenceJoiner()
    segments = joiner.take([left], right, overlaps=overlaps)
    segments += joiner.take([right], None, overlaps=False)
    return [segment.text for segment in segments]


@pytest.mark.parametrize(
    ("left", "right", "overlaps", "joined"),
    [
        ("the lovely April", "of her prime.", True, True),
        ("the lovely April.", "Of her prime.", True, False),
        ("the lovely April,", "Of her prime.", True, True),
        ("the lovely April,", "of her prime.", False, True),
        ("the lovely April,", "Of her prime.", False, False),
        ("the lovely April", "Of her prime.", False, True),
        ("the lovely April.", "of her prime.", False, True),
        ("press", "1 to answer", False, True),
    ],
)
def test_sentence_over_a_seam_is_joined(
    left: str, right: str, overlaps: bool, joined: bool
) -> None:
    texts = join(segment(left), segment(right, 2.0, 4.0), overlaps=overlaps)
    assert texts == ([f"{left} {right}"] if joined else [left, right])


@pytest.mark.parametrize("gap_s", [1.0, 1.1])
def test_sentence_before_a_long_pause_stays_apart(gap_s: float) -> None:
    right = segment("of her prime.", 2.0 + gap_s, 5.0)
    texts = join(segment("the lovely April"), right, overlaps=True)
    assert len(texts) == (1 if gap_s <= 1.0 else 2)


def test_sentences_of_two_languages_stay_apart() -> None:
    right = segment("de sa vie.", 2.0, 4.0, language="fr")
    assert len(join(segment("the lovely April"), right, overlaps=True)) == 2


def test_text_without_blanks_is_joined_without_one() -> None:
    left = segment("花上千", language="zh")
    right = segment("元的定位", 2.0, 4.0, language="zh")
    assert join(left, right, overlaps=True) == ["花上千元的定位"]
    assert join(left, right, overlaps=False) == ["花上千", "元的定位"]


def test_parts_of_a_written_word_are_joined_without_blank() -> None:
    left = timed(0.0, " mit", " dem", " T")
    right = timed(3.0, "-Rex", " lief.")
    assert join(left, right, overlaps=True) == ["mit dem T-Rex lief."]


def test_whole_sentences_before_the_last_stay_apart() -> None:
    left = timed(0.0, " Done.", " The", " lovely")
    right = timed(3.0, " April", " came.", " So", " did", " he.")
    texts = join(left, right, overlaps=True)
    assert texts == ["Done.", "The lovely April came. So did he."]


def test_long_text_after_a_seam_is_cut_at_its_sentence() -> None:
    left = timed(0.0, " The", " lovely")
    right = timed(2.0, " April", " came.", " So", *[" and so"] * 18)
    texts = join(left, right, overlaps=True)
    assert texts[0] == "The lovely April came."
    assert len(texts) == 2


def test_sentence_too_long_for_a_segment_stays_in_two() -> None:
    left = segment("The lovely", 0.0, 15.0)
    right = segment("April came.", 15.0, 30.0)
    assert len(join(left, right, overlaps=True)) == 2


def test_joined_segment_has_times_tokens_and_words_of_both() -> None:
    joiner = SentenceJoiner()
    left = timed(0.0, " The", " lovely")
    right = timed(2.0, " April", " came.")
    assert joiner.take([left], right, overlaps=True) == []
    assert joiner.open == left
    (whole,) = joiner.take([right], None, overlaps=False)
    assert whole.start_s == 0.0
    assert whole.end_s == 4.0
    assert whole.tokens == left.tokens + right.tokens
    assert whole.words == left.words + right.words


def test_open_sentence_ends_where_the_next_text_is_gone() -> None:
    joiner = SentenceJoiner()
    left = segment("The lovely")
    right = segment("April came.", 2.0, 4.0)
    assert joiner.take([left], right, overlaps=True) == []
    assert joiner.take([], segment("Late.", 9.0, 10.0), overlaps=False) == [left]
    assert joiner.open is None
