"""Segments and results."""

from __future__ import annotations

import pytest

from whisper_hailo.core.types import (
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    SECONDS_PER_TIMESTAMP,
    BufferText,
    BufferWord,
    Segment,
    Settings,
    Timings,
    Transcript,
)


def transcript(language: str, *texts: str) -> Transcript:
    parts = tuple(Segment(0.0, 1.0, one, (), 0.0, 0.0) for one in texts)
    settings = Settings("m", "e", "d", 30.0, 1.0, 1500, 1.0, 0.0, "none", 0)
    return Transcript("x", 1.0, language, "transcribe", parts, Timings(), settings)


def test_segment_unmeasured_fields_have_neutral_defaults() -> None:
    made = transcript("en", "a")
    assert (made.text, made.language_probs) == ("a", {})
    (one,) = made.segments
    assert (one.runaway, one.temperature, one.compression_ratio, one.words) == (
        False,
        0,
        0,
        (),
    )
    assert (one.language, one.speaker, one.window_start_s) == ("", None, 0.0)
    assert made.timings == Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    settings = made.settings
    assert (settings.reasons, settings.windows, settings.search) == (
        (),
        "consecutive",
        "greedy",
    )
    assert (settings.timestamps, settings.batch_size) == (False, 1)
    assert not settings.trim_window


@pytest.mark.parametrize(
    ("language", "text"), [("en", "a b"), ("ja", "ab"), ("yue", "ab"), ("de", "a b")]
)
def test_transcript_text_joins_as_language_is_written(language: str, text: str) -> None:
    assert transcript(language, "a", "", "b").text == text


def test_constants_match_whisper() -> None:
    assert (SAMPLE_RATE_HZ, FRAMES_PER_SECOND, SECONDS_PER_TIMESTAMP) == (
        16_000,
        100,
        0.02,
    )
    assert transcript("en").text == ""


def test_buffer_text_joins_words_and_tokens() -> None:
    words = (BufferWord(" Good", (1, 2)), BufferWord(" day", (3,)), BufferWord("."))
    text = BufferText(words)
    assert (text.text, text.tokens) == ("Good day.", (1, 2, 3))
    assert (text.language, text.passes) == ("en", 0)
    assert (text.runaway, text.guess, text.translation) == (False, (), None)
    assert text.timings == Timings()
