"""Readable cues: where they break, how long they last, and when they are complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.words import (
    CHINESE_TEXT,
    ENGLISH,
    JAPANESE_TEXT,
    THAI_TEXT,
    speak,
)
from whisper_hailo.core.types import Segment, Speaker, Word
from whisper_hailo.text.cue_layout import (
    find_limits,
)
from whisper_hailo.text.cue_setter import CueSetter
from whisper_hailo.text.subtitles import Cue, Layout


def set_cues(*segments: Segment, has_labels: bool = False) -> list[Cue]:
    setter = CueSetter(has_labels=has_labels)
    cues = [cue for segment in segments for cue in setter.write(segment)]
    return [*cues, *setter.finish()]


def lines_of(cues: Sequence[Cue]) -> list[str]:
    return [line for cue in cues for line in cue.text.split("\n")]


@pytest.mark.parametrize(
    ("text", "language", "width"),
    [
        (ENGLISH, "en", 42),
        (CHINESE_TEXT, "zh", 16),
        (JAPANESE_TEXT, "ja", 16),
        (THAI_TEXT, "th", 42),
    ],
)
def test_cue_setter_cues_fit_the_script_s_lines(
    text: str, language: str, width: int
) -> None:
    cues = set_cues(speak(text, language, word_s=0.3))
    limits = find_limits(text)
    assert limits.line_width == width
    assert all(limits.width(line) <= width for line in lines_of(cues))
    assert all(cue.text.count("\n") <= 1 for cue in cues)
    whole = "".join("".join(line.split()) for line in lines_of(cues))
    assert whole == "".join(text.split())


def test_cue_setter_cues_end_with_clauses() -> None:
    cues = set_cues(speak(ENGLISH))
    assert all(cue.text.endswith((",", ".")) or "\n" in cue.text for cue in cues)
    assert sum(cue.text.endswith((",", ".")) for cue in cues) >= 3


def test_cue_setter_lines_keep_bound_words_together() -> None:
    lines = lines_of(set_cues(speak(ENGLISH)))
    for pair in ("Johannes Gutenberg", "42 lines", "the world", "a page"):
        assert any(pair in line for line in lines), pair


def test_cue_setter_keeps_numbers_in_chinese_whole() -> None:
    lines = lines_of(set_cues(speak(CHINESE_TEXT, "zh")))
    for number in ("2024", "13064365845"):
        assert any(number in line for line in lines)


def test_cue_setter_equal_breaks_make_lower_line_longer() -> None:
    (cue,) = set_cues(
        speak("one two three four five six seven eight nine ten", word_s=0.35)
    )
    upper, lower = cue.text.split("\n")
    assert len(upper) <= len(lower)


def test_cue_setter_long_word_has_its_own_line() -> None:
    word = "x" * 60
    assert word in lines_of(set_cues(speak(f"see {word} there")))


def test_cue_setter_long_chinese_unit_is_split() -> None:
    """BudouX finds no phrase in a repeated character."""
    lines = lines_of(set_cues(speak("啊" * 50, "zh", word_s=0.2)))
    assert all(len(line) <= 16 for line in lines)
    assert "".join(lines) == "啊" * 50


def test_cue_setter_spreads_text_without_word_times() -> None:
    segment = replace(speak(CHINESE_TEXT, "zh"), words=())
    lines = lines_of(set_cues(segment, replace(segment, start_s=21.0, end_s=40.0)))
    assert "".join(lines) == CHINESE_TEXT * 2


def test_cue_setter_english_translation_is_set_as_english() -> None:
    words = tuple(replace(word) for word in speak(ENGLISH).words)
    translated = replace(speak(ENGLISH), language="zh", words=words)
    assert lines_of(set_cues(translated)) == lines_of(set_cues(speak(ENGLISH)))


def test_cue_setter_line_ends_within_words_become_spaces() -> None:
    segment = Segment(
        0.0, 2.0, "a\n\nb", (), 0.0, 0.0, words=(Word(0.0, 2.0, " a\n\nb", 0.9),)
    )
    assert [cue.text for cue in set_cues(segment)] == ["a b"]


def test_cue_setter_short_cue_lasts_five_sixths_of_a_second() -> None:
    (cue,) = set_cues(speak("Yes.", word_s=0.2))
    assert cue.end_s - cue.start_s == pytest.approx(5 / 6)


def test_cue_setter_cue_has_one_speaker() -> None:
    """Speakers are numbers, names, or unknown."""
    segments = [
        speak("Yes indeed.", start_s=2.0 * n, speaker=who)
        for n, who in enumerate((0, "B", None))
    ]
    cues = set_cues(*segments)
    assert [(cue.text, cue.speaker) for cue in cues] == [
        ("Yes indeed.", 0),
        ("Yes indeed.", "B"),
        ("Yes indeed.", None),
    ]


def test_cue_setter_cue_has_one_language() -> None:
    cues = set_cues(speak("Good morning"), speak("guten Morgen", "de", start_s=1.0))
    assert [cue.text for cue in cues] == ["Good morning", "guten Morgen"]


def test_cue_setter_labels_shorten_lines() -> None:
    cues = set_cues(speak(ENGLISH, speaker=0), has_labels=True)
    assert all(len(line) <= 42 - len("Speaker 1: ") for line in lines_of(cues))


def test_cue_setter_overlapping_speakers_get_successive_cues() -> None:
    cues = set_cues(
        speak(ENGLISH[:80], speaker=0),
        speak("No, no, no.", start_s=2.0, speaker=1),
        speak("But yes.", start_s=2.5, speaker=0),
    )
    assert all(cue.end_s - cue.start_s >= 0.5 - 1e-9 for cue in cues)
    assert all(a.end_s <= b.start_s for a, b in pairwise(cues))


def test_cue_setter_long_pause_completes_cues() -> None:
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
def test_cue_setter_speech_without_pause_waits_two_minutes(
    text: str, most_s: float
) -> None:
    """Complete sentences are set after a minute, text without sentences after two."""
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
def test_cue_setter_random_words_are_shown_in_order(
    segments: list[tuple[str, float, float, Speaker | None, str]],
) -> None:
    segments = []
    at_s = 0.0
    for text, length_s, pause_s, speaker, language in segments:
        start_s = max(0.0, at_s + pause_s)
        at_s = start_s + length_s
        words = (Word(start_s, at_s, f" {text}", 0.9),)
        segments.append(
            Segment(
                start_s,
                at_s,
                text,
                (),
                0.0,
                0.0,
                words=words,
                language=language,
                speaker=speaker,
            )
        )
    cues = set_cues(*segments)
    shown = "".join("".join(cue.text.split()) for cue in cues)
    assert shown == "".join("".join(text.split()) for text, *_ in segments)
    times = [edge for cue in cues for edge in (cue.start_s, cue.end_s)]
    assert times == sorted(times)
    assert all(0.5 - 1e-6 <= cue.end_s - cue.start_s <= 7.0 + 1e-6 for cue in cues)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5))
def test_cue_setter_segment_by_segment_equals_the_whole(
    n_words: int, n_repeats: int
) -> None:
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
def test_cue_setter_keeps_given_limits(
    text: str, language: str, width: int, count: int
) -> None:
    """Widths are in characters of the script."""
    layout = Layout(max_line_width=width, max_line_count=count)
    setter = CueSetter(layout)
    cues = [*setter.write(speak(text, language)), *setter.finish()]
    lines = [line for cue in cues for line in cue.text.split("\n")]
    limits = find_limits(text)
    assert all(limits.width(line) <= width for line in lines)
    assert max(len(cue.text.split("\n")) for cue in cues) <= count
    assert "".join("".join(lines).split()) == "".join(text.split())


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
