"""Greedy choices that rounding may flip, so that a test can excuse a difference and count it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding import logits_rules

NEAR_TIE = {"none": 1e-3, "int8": 0.5, "int4": 0.5}
"""Logits closer than this may change places in a pass of more rows or tokens, by decoder weights.

Float32 logits of `micro` move by 4e-5. Decoders of 8- and 4-bit weights also round activations to
8 bits: their logits moved by up to 0.32, the distance of two by up to 0.36.
"""


@contextmanager
def counted_near_ties(quantization: str) -> Iterator[list[float]]:
    """Yield a list of the leads of all greedy choices in the block that are near-ties."""
    close: list[float] = []
    best = logits_rules.choose_token

    def choose(logits: FloatArray, eot: int, eot_boost: float) -> int:
        token = best(logits, eot, eot_boost)
        rivals = logits.copy()
        rivals[eot] += np.float32(eot_boost)
        chosen, rivals[token] = float(rivals[token]), -np.inf
        lead = chosen - float(rivals.max())
        if lead < NEAR_TIE[quantization]:
            close.append(lead)
        return token

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logits_rules, "choose_token", choose)
        yield close
