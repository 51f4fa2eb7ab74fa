"""A tokenizer whose ids are words, and windows of a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fakes.model_sizes import TOY_TOKENS
from whisper_hailo.audio.windows import Window
from whisper_hailo.text.tokenizer import Tokenizer

BEGIN = 20


class Words:
    """Id n is the word `wn`."""

    def decode(self, ids: Any, **_: object) -> str:
        return "".join(f" w{token}" for token in ids)


TOKENIZER = Tokenizer(Words(), TOY_TOKENS)  # type: ignore[arg-type]


def window(number: int, *, needs_words: bool = False) -> Window:
    return Window(np.zeros(16_000, np.float32), float(number), needs_words=needs_words)
