"""A tokenizer whose ids are words, and words and texts of four scripts with their times."""

# ruff: noqa: RUF001 - Chinese has full-width commas
from __future__ import annotations

from typing import Any

import numpy as np

from tests.fakes.model_sizes import TOY_TOKENS
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import Segment, Speaker, Word
from whisper_hailo.text.tokenizer import Tokenizer

BEGIN = 20
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


class Words:
    """Id n is the word `wn`."""

    def decode(self, ids: Any, **_: object) -> str:
        return "".join(f" w{token}" for token in ids)


TOKENIZER = Tokenizer(Words(), TOY_TOKENS)  # type: ignore[arg-type]


def window(number: int, *, needs_words: bool = False) -> Window:
    return Window(np.zeros(16_000, np.float32), float(number), needs_words=needs_words)


def word(
    text: str,
    tokens: tuple[int, ...],
    start_s: float = 0.0,
    end_s: float = 0.0,
    probability: float = 0.0,
) -> Word:
    return Word(start_s, end_s, text, probability, tokens)


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
