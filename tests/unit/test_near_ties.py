"""The counter of near-ties, on decoders with close choices."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY, toy_spec
from tests.fakes.scripted_decoder import EOT, PREFIX, HashedDecoder, run
from tests.near_ties import counted_near_ties
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions


@dataclass
class CloseDecoder(HashedDecoder):
    """Token 1 always leads token 2 by a fixed distance; the end comes fourth."""

    distance: float = 0.0

    def logits(self, history: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[[1, 2]] = 5.0, 5.0 - self.distance
        logits[EOT] = 9.0 if len(history) - len(PREFIX) >= 3 else 0.0
        return logits


@pytest.mark.parametrize(
    ("quantization", "distance", "n_ties"),
    [("none", 9e-4, 3), ("none", 1.1e-3, 0), ("int8", 0.49, 3), ("int4", 0.51, 0)],
)
def test_counted_near_ties_follow_the_quantization(
    quantization: str, distance: float, n_ties: int
) -> None:
    decoder = CloseDecoder(distance=distance)
    decoder.spec = replace(toy_spec(), quantization=quantization)
    with counted_near_ties(quantization) as ties:
        run(decoder, DecodingOptions(), [1, 1])
    assert len(ties) == n_ties


def test_counted_near_ties_include_the_eot_boost() -> None:
    boosted = DecodingOptions(anti_repetition=AntiRepetition(eot_boost=4.9995))
    with counted_near_ties("none") as ties:
        run(CloseDecoder(distance=3.0), boosted, [1, 1])
    assert len(ties) == 2, "the end is suppressed at the first token"
