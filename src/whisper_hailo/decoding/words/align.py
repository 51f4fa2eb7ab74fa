"""Times and probabilities of words, from the cross-attention of the alignment heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    SECONDS_PER_TIMESTAMP,
    FloatArray,
    IntArray,
    Word,
)
from whisper_hailo.decoding.words.dtw import token_starts
from whisper_hailo.decoding.words.split import split_words
from whisper_hailo.text.tokenizer import Tokenizer

_POSITIONS_PER_S: Final = round(1 / SECONDS_PER_TIMESTAMP)
_SAMPLES_PER_POSITION: Final = SAMPLE_RATE_HZ // _POSITIONS_PER_S


def whole_positions(content_s: float) -> int:
    """Encoder positions that are all audio, by samples: 0.58 / 0.02 is 28.99 in binary."""
    return max(1, round(content_s * SAMPLE_RATE_HZ) // _SAMPLES_PER_POSITION)


def align_words(
    decoder: AnyDecoder,
    state: Any,  # noqa: ANN401 - the decoder's own state type
    tokenizer: Tokenizer,
    *,
    text: Sequence[int],
    prefix: tuple[int, ...],
    content_s: float,
    language: str,
) -> list[Word]:
    """Times and probabilities of the words of one window, in one pass of the decoder.

    Args:
        decoder: an open decoder.
        state: of this window alone, with an empty self-attention cache.
        tokenizer: of the model.
        text: text ids of the window, without timestamps.
        prefix: forced ids of a transcript without timestamps.
        content_s: seconds of audio in the window.
        language: how words are split.

    Source: OpenAI Whisper, `find_alignment`.
    """
    if not text:
        return []
    eot = tokenizer.special.eot
    fed = np.array([[*prefix, *text, eot]], dtype=np.int64)
    looks = np.arange(len(prefix) - 1, len(prefix) - 1 + len(text), dtype=np.int64)
    output, _ = decoder.step(fed, state, looks, alignment=True)
    if output.alignment is None:
        return []
    n_positions = min(output.alignment.shape[-1], whole_positions(content_s))
    # The row of a token is that of the one before it, where the decoder looks for it.
    rows = slice(len(prefix) - 1, len(prefix) + len(text))
    starts = token_starts(output.alignment[0], n_positions, rows)
    probabilities = _text_probabilities(output.logits[0, :, :eot], text)
    words: list[Word] = []
    at = 0
    for word, ids in split_words(tokenizer, text, language):
        after = at + len(ids)
        words.append(
            Word(
                text=word,
                tokens=ids,
                start_s=float(starts[at]) / _POSITIONS_PER_S,
                end_s=float(starts[after]) / _POSITIONS_PER_S,
                probability=float(probabilities[at:after].mean()),
            )
        )
        at = after
    return words


def _text_probabilities(logits: FloatArray, text: Sequence[int]) -> FloatArray:
    """`(n_tokens,)` probability of each text id among all text ids, from `(n_tokens, eot)`."""
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen: IntArray = np.array(text, dtype=np.int64)
    probabilities: FloatArray = exponents[np.arange(len(text)), chosen] / exponents.sum(axis=1)
    return probabilities
