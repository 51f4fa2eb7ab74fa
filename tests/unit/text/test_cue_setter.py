"""Readable cues: where they break, how long they last, and that they come while segments do."""

# ruff: noqa: RUF001 - Chinese has full-width commas

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisper_hailo.core.types import Segment, Speaker, Word
from whisper_hailo.text.break_points import (
    BOUND,
    CLAUSE,
    CONJUNCTION,
    NEUTRAL,
    PREPOSITION,
    SENTENCE,
    find_break_cost,
    split_units,
)
from whisper_hailo.text.cue_layout import (
    CHINESE,
    JAPANESE,
    KOREAN,
    LATIN,
    CueLimits,
    find_limits,
)
from whisper_hailo.text.cue_setter import CueSetter
from whisper_hailo.text.cue_times import GAP_S, time_cue
from whisper_hailo.text.function_words import FUNCTION_WORDS
from whisper_hailo.text.subtitles import Cue, Layout

ENGLISH = (
    "The invention of movable types changed the world, and it spread over Europe in a few years. "
    "Printers in Mainz, Venice and Paris produced more books than all scribes before them had "
    "written. It was Johannes Gutenberg who made the first of them with 42 lines on a page."
)
CHINESE_TEXT = (
    "今天的天气非常好，我们一起去公园散步吧。"
    "他在2024年买了13064365845号的房子，价格是一百万元。"
)
JAPANESE_TEXT = (
    "今日はとても天気が良いので、公園へ散歩に行きましょう。"
    "明日は雨が降るかもしれません。"
)
THAI_TEXT = "วันนี้อากาศดีมากเราไปเดินเล่นที่สวนสาธารณะกันเถอะ พรุ่งนี้ฝนอาจจะตกหนักมากกว่าวันนี้"


def speak(
    text: str, language: str = "en", start_s: float = 0.0, word_s: float = 0.4,
    speaker: Speaker | None = None,
) -> Segment:  # fmt: skip
    """Return a segment with a word, or without spaces a character, every `word_s`."""
    parts = [f" {word}" for word in text.split()]
    if language in ("zh", "ja", "th"):
        parts = list(text)
    words = tuple(
        Word(start_s + index * word_s, start_s + (index + 0.9) * word_s, part, 0.9)
        for index, part in enumerate(parts)
    )
    return Segment(
        start_s, words[-1].end_s, text, (), -0.1, 0.0,
        words=words, language=language, speaker=speaker,
    )  # fmt: skip


def set_cues(*segments: Segment, has_labels: bool = False) -> list[Cue]:
    setter = CueSetter(has_labels=has_labels)
    cues = [cue for segment in segments for cue in setter.write(segment)]
    return [*cues, *setter.finish()]


def lines_of(cues: Sequence[Cue]) -> list[str]:
    return [line for cue in cues for line in cue.text.split("\n")]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("Good morning.", LATIN),
        ("Доброе утро.", LATIN),
        ("สวัสดี", LATIN),
        ("你好，世界", CHINESE),
        ("こんにちは世界", JAPANESE),
        ("안녕하세요", KOREAN),
        ("你好 whisper and other English words", LATIN),
        ("", LATIN),
    ],
)
def test_find_limits_follow_the_script(text: str, limits: CueLimits) -> None:
    assert find_limits(text) == limits


@pytest.mark.parametrize(
    ("left", "right", "cost"),
    [
        ("end.", "The", SENTENCE),
        ('end."', "The", SENTENCE),
        ("world,", "and", CLAUSE),
        ("world", "and", CONJUNCTION),
        ("lines", "on", PREPOSITION),
        ("old", "house", NEUTRAL),
        ("the", "house", BOUND),
        ("of", "paper", BOUND),
        ("Dr.", "Watson", BOUND),
        ("J.", "Bach", BOUND),
        ("I.", "Then", SENTENCE),
        ("Johannes", "Gutenberg", BOUND),
        ("42", "lines", BOUND),
    ],
)
def test_find_break_cost_ranks_places(left: str, right: str, cost: float) -> None:
    assert find_break_cost(left, right, FUNCTION_WORDS["en"]) == cost


@pytest.mark.parametrize(
    ("text", "language", "width"),
    [
        (ENGLISH, "en", 42),
        (CHINESE_TEXT, "zh", 16),
        (JAPANESE_TEXT, "ja", 16),
        (THAI_TEXT, "th", 42),
    ],
)
def test_cues_fit_the_lines_of_their_script(
    text: str, language: str, width: int
) -> None:
    cues = set_cues(speak(text, language, word_s=0.3))
    limits = find_limits(text)
    assert limits.line_width == width
    assert all(limits.width(line) <= width for line in lines_of(cues))
    assert all(cue.text.count("\n") <= 1 for cue in cues)
    whole = "".join("".join(line.split()) for line in lines_of(cues))
    assert whole == "".join(text.split())


def test_cues_end_with_sentences_and_clauses() -> None:
    cues = set_cues(speak(ENGLISH))
    assert all(cue.text.endswith((",", ".")) or "\n" in cue.text for cue in cues)
    assert sum(cue.text.endswith((",", ".")) for cue in cues) >= 3


def test_lines_keep_bound_words_together() -> None:
    lines = lines_of(set_cues(speak(ENGLISH)))
    for pair in ("Johannes Gutenberg", "42 lines", "the world", "a page"):
        assert any(pair in line for line in lines), pair


def test_numbers_without_spaces_are_whole() -> None:
    lines = lines_of(set_cues(speak(CHINESE_TEXT, "zh")))
    for number in ("2024", "13064365845"):
        assert any(number in line for line in lines)


def test_phrases_of_budoux_are_whole() -> None:
    japanese = [
        unit.text for unit in split_units(speak(JAPANESE_TEXT, "ja").words, "ja")
    ]
    assert "公園へ" in japanese
    thai = [unit.text for unit in split_units(speak(THAI_TEXT, "th").words, "th")]
    assert 1 < len(thai) < len(THAI_TEXT) / 2
    lines = lines_of(set_cues(speak(JAPANESE_TEXT, "ja")))
    assert any("公園へ" in line for line in lines)


def test_phrases_of_traditional_chinese_are_whole() -> None:
    text = "以投資者利益最大化為出發點"
    phrases = [unit.text for unit in split_units(speak(text, "zh").words, "zh")]
    assert "".join(phrases) == text
    assert "出發點" in phrases


def test_lower_line_is_longer_where_breaks_are_equal() -> None:
    (cue,) = set_cues(
        speak("one two three four five six seven eight nine ten", word_s=0.35)
    )
    upper, lower = cue.text.split("\n")
    assert len(upper) <= len(lower)


def test_long_latin_word_is_whole_and_alone() -> None:
    word = "x" * 60
    assert word in lines_of(set_cues(speak(f"see {word} there")))


def test_long_unit_without_spaces_is_split_at_the_width() -> None:
    """Burmese has no phrases here; a text of one character has no good place either."""
    lines = lines_of(set_cues(speak("啊" * 50, "zh", word_s=0.2)))
    assert all(len(line) <= 16 for line in lines)
    assert "".join(lines) == "啊" * 50


def test_text_without_word_times_is_spread() -> None:
    segment = replace(speak(CHINESE_TEXT, "zh"), words=())
    lines = lines_of(set_cues(segment, replace(segment, start_s=21.0, end_s=40.0)))
    assert "".join(lines) == CHINESE_TEXT * 2


def test_translation_from_chinese_is_set_as_english() -> None:
    words = tuple(replace(word) for word in speak(ENGLISH).words)
    translated = replace(speak(ENGLISH), language="zh", words=words)
    assert lines_of(set_cues(translated)) == lines_of(set_cues(speak(ENGLISH)))


def test_line_ends_within_words_are_spaces() -> None:
    segment = Segment(
        0.0, 2.0, "a\n\nb", (), 0.0, 0.0, words=(Word(0.0, 2.0, " a\n\nb", 0.9),)
    )
    assert [cue.text for cue in set_cues(segment)] == ["a b"]


def test_cue_is_shown_as_long_as_it_takes_to_read() -> None:
    (cue,) = set_cues(speak("Yes.", word_s=0.2))
    assert cue.end_s - cue.start_s == pytest.approx(5 / 6)


def test_time_cue_short_gap_is_closed() -> None:
    _, end_s = time_cue(0.0, 2.0, reading_s=1.0, next_start_s=2.4)
    assert end_s == pytest.approx(2.4 - GAP_S)
    _, end_s = time_cue(0.0, 2.0, reading_s=1.0, next_start_s=4.0)
    assert end_s == 2.0


def test_time_cue_hurried_one_appears_early() -> None:
    start_s, end_s = time_cue(
        2.0, 2.5, reading_s=1.5, previous_end_s=0.0, next_start_s=3.0
    )
    assert (start_s, end_s) == (pytest.approx(1.7), pytest.approx(3.0 - GAP_S))


def test_time_cue_word_that_lasts_is_cut() -> None:
    assert time_cue(0.0, 30.0, reading_s=1.0) == (0.0, 7.0)


def test_cue_is_one_speakers() -> None:
    """Speakers are numbers, names, or unknown."""
    said = [
        speak("Yes indeed.", start_s=2.0 * n, speaker=who)
        for n, who in enumerate((0, "B", None))
    ]
    cues = set_cues(*said)
    assert [(cue.text, cue.speaker) for cue in cues] == [
        ("Yes indeed.", 0), ("Yes indeed.", "B"), ("Yes indeed.", None),
    ]  # fmt: skip


def test_cue_is_one_languages() -> None:
    cues = set_cues(speak("Good morning"), speak("guten Morgen", "de", start_s=1.0))
    assert [cue.text for cue in cues] == ["Good morning", "guten Morgen"]


def test_label_takes_its_room() -> None:
    cues = set_cues(speak(ENGLISH, speaker=0), has_labels=True)
    assert all(len(line) <= 42 - len("Speaker 1: ") for line in lines_of(cues))


def test_speakers_at_once_never_overlap() -> None:
    cues = set_cues(
        speak(ENGLISH[:80], speaker=0),
        speak("No, no, no.", start_s=2.0, speaker=1),
        speak("But yes.", start_s=2.5, speaker=0),
    )
    assert all(cue.end_s - cue.start_s >= 0.5 - 1e-9 for cue in cues)
    assert all(a.end_s <= b.start_s for a, b in pairwise(cues))


def test_long_pause_sets_what_was_said() -> None:
    setter = CueSetter()
    assert list(setter.write(speak("Good morning."))) == []
    cues = list(setter.write(speak("And good night.", start_s=10.0)))
    assert [cue.text for cue in cues] == ["Good morning."]
    assert [cue.text for cue in setter.finish()] == ["And good night."]
    assert list(setter.finish()) == []


@pytest.mark.parametrize(
    ("text", "most_s"),
    [(ENGLISH, 90.0), (ENGLISH.replace(".", "").replace(",", ""), 130.0)],
)
def test_speech_without_pause_waits_for_a_minute_or_two(
    text: str, most_s: float
) -> None:
    """Finished sentences are set after a minute, text without sentences after two."""
    setter = CueSetter()
    shown_s = 0.0
    for index, word in enumerate((text + " ").split() * 8):
        segment = speak(word, start_s=index * 0.4)
        for cue in setter.write(segment):
            shown_s = cue.end_s
        assert segment.end_s - shown_s < most_s
    assert shown_s > 50.0


WORDS = st.lists(
    st.tuples(
        st.text("ab中ก1. ,", min_size=1, max_size=9),
        st.floats(0.0, 3.0),
        st.floats(-0.3, 4.0),
        st.sampled_from([None, None, None, 0, "Ann"]),
        st.sampled_from(["en", "en", "zh", "th", ""]),
    ),
    max_size=60,
)


@settings(max_examples=50, deadline=None)  # the first text loads a parser
@given(WORDS)
def test_random_words_are_all_shown_and_never_overlap(
    said: list[tuple[str, float, float, Speaker | None, str]],
) -> None:
    segments = []
    at_s = 0.0
    for text, length_s, pause_s, speaker, language in said:
        start_s = max(0.0, at_s + pause_s)
        at_s = start_s + length_s
        words = (Word(start_s, at_s, f" {text}", 0.9),)
        segments.append(
            Segment(start_s, at_s, text, (), 0.0, 0.0,
                    words=words, language=language, speaker=speaker)
        )  # fmt: skip
    cues = set_cues(*segments)
    shown = "".join("".join(cue.text.split()) for cue in cues)
    assert shown == "".join("".join(text.split()) for text, *_ in said)
    times = [edge for cue in cues for edge in (cue.start_s, cue.end_s)]
    assert times == sorted(times)
    assert all(0.5 - 1e-6 <= cue.end_s - cue.start_s <= 7.0 + 1e-6 for cue in cues)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5))
def test_streaming_gives_the_cues_of_the_whole(n_words: int, n_repeats: int) -> None:
    words = speak(" ".join([ENGLISH] * n_repeats)).words
    whole = Segment(0.0, 1.0, "x", (), 0.0, 0.0, words=words, language="en")
    parts = [
        replace(whole, words=words[i : i + n_words])
        for i in range(0, len(words), n_words)
    ]
    assert set_cues(*parts) == set_cues(whole)


@pytest.mark.parametrize(
    ("text", "language", "width", "count"),
    [
        (ENGLISH, "en", 42, 2),
        (ENGLISH, "en", 20, 2),
        (ENGLISH, "en", 37, 1),
        (CHINESE_TEXT, "zh", 12, 2),
        (JAPANESE_TEXT, "ja", 10, 1),
        (THAI_TEXT, "th", 30, 2),
    ],
)
def test_cue_setter_keeps_limits_that_are_given(
    text: str, language: str, width: int, count: int
) -> None:
    """In characters of the script; a number or word that is wider has a line of its own."""
    layout = Layout(max_line_width=width, max_line_count=count)
    setter = CueSetter(layout)
    cues = [*setter.write(speak(text, language)), *setter.finish()]
    lines = [line for cue in cues for line in cue.text.split("\n")]
    limits = find_limits(text)
    assert all(limits.width(line) <= width for line in lines)
    assert max(len(cue.text.split("\n")) for cue in cues) <= count
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("layout", "is_readable"),
    [
        (Layout(), True),
        (Layout(max_line_width=42, max_line_count=2), True),
        (Layout(max_line_width=42, max_line_count=1), True),
        (Layout(max_line_width=42, max_line_count=3), False),
        (Layout(max_line_width=42), False),
        (Layout(max_words_per_line=4), False),
        (Layout(highlight_words=True), False),
        (Layout("segments", max_line_width=42, max_line_count=2), False),
    ],
)
def test_layout_of_two_lines_is_set_for_reading(
    layout: Layout, is_readable: bool
) -> None:
    """Others fill lines word by word, or follow segments, as in OpenAI Whisper."""
    assert layout.is_readable is is_readable


@pytest.mark.parametrize(
    ("pause_s", "texts"),
    [
        (2.2, ["perhaps the exception\nof rhythm is destroyed."]),
        (2.5, ["perhaps the exception of rhythm is", "destroyed."]),
    ],
)
def test_cue_setter_leaves_no_word_alone_behind_a_pause(
    pause_s: float, texts: list[str]
) -> None:
    """Slow speakers pause within a clause; only a long pause ends a cue anyway."""
    first = speak("perhaps the exception of rhythm is", word_s=0.5)
    last = speak("destroyed.", start_s=first.end_s + pause_s)
    setter = CueSetter()
    cues = [*setter.write(first), *setter.write(last), *setter.finish()]
    assert [cue.text for cue in cues] == texts
