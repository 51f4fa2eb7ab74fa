"""From tokens to timed segments, and words where nobody can align them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY_TOKENS
from tests.fakes.words import BEGIN, TOKENIZER, window
from whisper_hailo.audio.windows import PackedPiece, Window
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, Thresholds
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.segments import (
    assemble_segments,
    round_times,
    spread_words,
)


def at(seconds: float) -> int:
    return BEGIN + round(seconds * 50)


def test_spread_words_spreads_by_letters() -> None:
    """Of `a four letters`, with a blank before each: 2, 5 and 8 of 15 letters in 3 s."""

    class Words:
        def decode(self, ids: Any, **_: object) -> str:
            return "".join((" a", " four", " letters")[token] for token in ids)

    segment = Segment(10.0, 13.0, "a four letters", (0, 1, 2), -0.1, 0.0)
    tokenizer = Tokenizer(Words(), TOY_TOKENS)  # type: ignore[arg-type]
    words = spread_words([segment], tokenizer)[0].words
    assert [word.text for word in words] == [" a", " four", " letters"]
    assert {word.probability for word in words} == {0.0}, "nothing is known of it"
    edges = [10.0, 10.4, 11.4, 13.0]
    assert [word.start_s for word in words] == pytest.approx(edges[:-1])
    assert [word.end_s for word in words] == pytest.approx(edges[1:])


def test_spread_words_of_one_character_spans_the_segment() -> None:
    class Letters:
        def decode(self, ids: Any, **_: object) -> str:
            return "".join(chr(0x4E00 + token) for token in ids)

    letters = Tokenizer(Letters(), TOY_TOKENS)  # type: ignore[arg-type]
    segment = Segment(1.0, 2.0, "x", (3,), -0.1, 0.0, language="zh")
    (heard,) = spread_words([segment], letters)
    ((start_s, end_s),) = [(word.start_s, word.end_s) for word in heard.words]
    assert start_s == 1.0
    assert end_s == 2.0
    pair = replace(segment, text="xy", tokens=(3, 4))
    (spread,) = spread_words([pair], letters)
    assert [(word.start_s, word.tokens) for word in spread.words] == [
        (1.0, (3,)),
        (1.5, (4,)),
    ]
    nothing = replace(segment, text="", tokens=())
    assert spread_words([nothing], letters)[0].words == ()


def test_spread_words_keeps_tokens_without_timestamps() -> None:
    segment = Segment(
        0.0, 2.0, "w1 w2", (BEGIN, 1, 2, BEGIN + 100), -0.1, 0.0, language="en"
    )
    words = spread_words([segment], TOKENIZER)[0].words
    assert [(word.text, word.tokens) for word in words] == [
        (" w1", (1,)),
        (" w2", (2,)),
    ]
    assert [(word.start_s, word.end_s) for word in words] == [(0.0, 1.0), (1.0, 2.0)]


def test_assemble_segments_bounds_times_by_the_audio() -> None:
    """A window of 1.5 s at 40 s, in which a model trained on 30 s writes a time behind the end."""
    audio = Window(np.zeros(24_000, np.float32), 40.0, is_sought=True)
    tokens = (at(0.0), 1, at(0.5), at(0.6), 2, at(2.0), at(2.0), 3)
    decoded = Decoded(
        tokens, -0.3, 0.2, runaway=True, temperature=0.4, compression_ratio=1.5
    )
    heard = assemble_segments(
        audio, decoded, "de", TOKENIZER, DecodingOptions(timestamps=True)
    )
    first, second = heard.segments
    assert first.start_s == 40.0
    assert first.end_s == 40.5
    assert first.text == "w1"
    assert second.start_s == pytest.approx(40.6)
    assert second.end_s == 41.5
    assert heard.end_s == 41.5
    assert second.avg_logprob == -0.3
    assert second.no_speech_prob == 0.2
    assert second.runaway
    assert second.temperature == 0.4
    assert second.compression_ratio == 1.5
    assert second.language == "de"
    assert second.window_start_s == 40.0


def test_assemble_segments_keeps_rest_unless_sought() -> None:
    """Up to the end of the window; where they seek the next one begins with it."""
    tokens = (at(0.0), 1, at(0.5), at(0.6), 2)
    decoded = Decoded(tokens, -0.3, 0.2, runaway=False)
    options = DecodingOptions(timestamps=True)
    unsought = assemble_segments(window(4), decoded, "en", TOKENIZER, options)
    assert [
        (segment.start_s, segment.end_s, segment.text) for segment in unsought.segments
    ] == [
        (4.0, 4.5, "w1"),
        (pytest.approx(4.6), 5.0, "w2"),
    ]
    sought = replace(window(4), is_sought=True)
    seeking = assemble_segments(sought, decoded, "en", TOKENIZER, options)
    assert [segment.text for segment in seeking.segments] == ["w1"]
    assert seeking.advance_s == 0.5
    assert unsought.advance_s == 1.0


def test_assemble_segments_behind_the_audio_ends_there() -> None:
    tokens = (at(0.0), 1, at(0.5), at(1.2), 2, at(1.4))
    decoded = Decoded(tokens, -0.3, 0.2, runaway=False)
    heard = assemble_segments(
        window(4), decoded, "en", TOKENIZER, DecodingOptions(timestamps=True)
    )
    assert [(segment.start_s, segment.end_s) for segment in heard.segments] == [
        (4.0, 4.5),
        (5.0, 5.0),
    ]


def test_assemble_segments_strips_text() -> None:
    class Padded:
        def decode(self, ids: Any, **_: object) -> str:
            return "".join(f" {token}\n" for token in ids)

    padded = Tokenizer(Padded(), TOY_TOKENS)  # type: ignore[arg-type]
    decoded = Decoded((1, 2), -0.1, 0.0, runaway=False)
    (segment,) = assemble_segments(
        window(4), decoded, "en", padded, DecodingOptions()
    ).segments
    assert segment.text == "1\n 2"


def test_assemble_segments_of_marks_alone_has_none() -> None:
    class Marks:
        def decode(self, ids: Any, **_: object) -> str:
            return "".join(" …" for _ in ids)

    marks = Tokenizer(Marks(), TOY_TOKENS)  # type: ignore[arg-type]
    decoded = Decoded((1, 2), -0.1, 0.0, runaway=False)
    result = assemble_segments(window(4), decoded, "en", marks, DecodingOptions())
    assert result.segments == ()


def test_assemble_segments_locates_packed_pieces() -> None:
    """One ends where a stretch does; the next one begins with the next stretch."""
    pieces = (PackedPiece(0.0, 5.0, 1.0), PackedPiece(1.0, 70.0, 1.0))
    audio = Window(np.zeros(32_000, np.float32), 5.0, pieces)
    tokens = (at(0.0), 1, at(1.0), at(1.0), 2, at(1.5))
    decoded = Decoded(tokens, -0.3, 0.2, runaway=False)
    heard = assemble_segments(
        audio, decoded, "en", TOKENIZER, DecodingOptions(timestamps=True)
    )
    assert [(segment.start_s, segment.end_s) for segment in heard.segments] == [
        (5.0, 6.0),
        (70.0, 70.5),
    ]


def test_assemble_segments_of_silence_has_no_segments() -> None:
    options = DecodingOptions(timestamps=True)
    silent = Decoded((at(0.0), 1, at(0.5)), -2.0, 0.9, runaway=False)
    heard = assemble_segments(window(4), silent, "en", TOKENIZER, options)
    assert heard.segments == ()
    assert heard.silent
    assert heard.end_s is None
    for thresholds in (Thresholds(no_speech=None), Thresholds(no_speech=0.95)):
        heard = assemble_segments(
            window(4), silent, "en", TOKENIZER, replace(options, thresholds=thresholds)
        )
        assert [segment.text for segment in heard.segments] == ["w1"]
        assert not heard.silent
    empty = Decoded((at(0.0), at(0.5)), -0.1, 0.0, runaway=False)
    heard = assemble_segments(
        replace(window(4), is_sought=True), empty, "en", TOKENIZER, options
    )
    assert heard.segments == ()
    assert not heard.silent
    assert heard.end_s == 4.0 + 0.0  # one pair: a segment that ends where it begins
    heard = assemble_segments(window(4), empty, "en", TOKENIZER, options)
    assert heard.segments == ()
    assert not heard.silent
    assert heard.end_s == 4.5, "its last time"
    made_up = assemble_segments(
        window(4), replace(silent, made_up=True), "en", TOKENIZER, options
    )
    assert made_up.segments == ()
    assert made_up.silent


def test_assemble_segments_without_timestamps_gives_one() -> None:
    heard = assemble_segments(
        window(4), Decoded((1, 2), -0.1, 0.0, False), "en", TOKENIZER, DecodingOptions()
    )
    (segment,) = heard.segments
    assert segment.start_s == 4.0
    assert segment.end_s == 5.0
    assert segment.text == "w1 w2"
    assert heard.advance_s == 1.0
    assert not heard.ends_alone
    # Of an engine that writes them anyway.
    tokens = (at(0.0), 1, at(0.5), at(0.5), 2, at(1.0))
    heard = assemble_segments(
        window(4), Decoded(tokens, -0.1, 0.0, False), "en", TOKENIZER, DecodingOptions()
    )
    assert [(segment.start_s, segment.end_s) for segment in heard.segments] == [
        (4.0, 5.0)
    ]


@pytest.mark.parametrize(
    ("last", "alone"), [((at(0.5),), True), ((at(0.5), at(0.5)), False)]
)
def test_assemble_segments_with_single_end_ends_alone(
    last: tuple[int, ...], *, alone: bool
) -> None:
    decoded = Decoded((at(0.0), 1, *last), -0.1, 0.0, runaway=False)
    heard = assemble_segments(
        window(4), decoded, "en", TOKENIZER, DecodingOptions(timestamps=True)
    )
    assert heard.ends_alone is alone


def test_round_times_rounds_to_0_1_ms() -> None:
    third = 1 / 3
    said = replace(Segment(third, 2 * third, "a", (), 0.0, 0.0), window_start_s=third)
    assert round_times(said).start_s == 0.3333
    assert round_times(said).end_s == 0.6667
    assert round_times(said).window_start_s == 0.3333
    (spoken,) = round_times(
        replace(said, words=(Word(third, 2 * third, " a", third, (1,)),))
    ).words
    assert spoken == Word(0.3333, 0.6667, " a", third, (1,))
