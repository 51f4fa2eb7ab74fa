"""What a text itself tells about whether it was made up."""

from __future__ import annotations

import zlib


def compression_ratio(text: str) -> float:
    """UTF-8 bytes by zlib bytes: text that repeats itself compresses well.

    Source: OpenAI Whisper, where a ratio above 2.4 marks a repetition.
    """
    raw = text.encode("utf-8")
    return len(raw) / len(zlib.compress(raw))
