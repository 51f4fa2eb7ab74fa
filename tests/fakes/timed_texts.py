"""Texts of four scripts, spoken with timed words."""

# ruff: noqa: RUF001 - Chinese has full-width commas
from __future__ import annotations

from whisper_hailo.core.types import Segment, Speaker, Word

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
