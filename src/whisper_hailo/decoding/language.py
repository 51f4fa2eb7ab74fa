"""Which language is spoken, by the token that the decoder puts behind start-of-transcript."""

from __future__ import annotations

from typing import Any

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.core.spec import SpecialTokens


def detect_languages(
    decoder: AnyDecoder,
    state: Any,  # noqa: ANN401 - the decoder's own state type
    special: SpecialTokens,
) -> tuple[dict[str, float], ...]:
    """Probability of each language, for every row of a started state.

    Args:
        decoder: the decoder that gave the state.
        state: with an empty self-attention cache; it stays usable.
        special: control token ids; English-only models have no languages.

    Returns:
        per row, language code to probability among the languages, likeliest first.

    Source: OpenAI Whisper, `detect_language`: the distribution after start-of-transcript,
    restricted to language ids.
    """
    n_rows = decoder.batch_size(state)
    if not special.languages:
        return ({"en": 1.0},) * n_rows
    tokens = np.full((n_rows, 1), special.sot, dtype=np.int64)
    output, _ = decoder.step(tokens, state, np.array([0], dtype=np.int64))
    ids = np.fromiter(special.languages.values(), dtype=np.int64)
    logits = output.logits[:, 0, ids].astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = weights / weights.sum(axis=1, keepdims=True)
    return tuple(
        {
            code: float(prob)
            for code, prob in sorted(
                zip(special.languages, row, strict=True), key=lambda item: -item[1]
            )
        }
        for row in probs
    )
