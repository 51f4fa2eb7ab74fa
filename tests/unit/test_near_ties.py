"""The counter of near-ties, on decoders whose choices are close by construction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.fakes.hashed_decoder import EOT, PREFIX, HashedDecoder, run
from tests.fakes.model_sizes import TOY, toy_spec
from tests.near_ties import counted_near_ties
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions


@dataclass
class Close(HashedDecoder):
    """Token 1 always leads token 2 by a fixed distance; the end comes fourth."""

    behind: float = 0.0

    def logits(self, history: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[[1, 2]] = 5.0, 5.0 - self.behind
        logits[EOT] = 9.0 if len(history) - len(PREFIX) >= 3 else 0.0
        return logits


@pytest.mark.parametrize(
    ("quantization", "behind", "n_ties"),
    [("none", 9e-4, 3), ("none", 1.1e-3, 0), ("int8", 0.49, 3), ("int4", 0.51, 0)],
)
def test_near_ties_are_counted(quantization: str, behind: float, n_ties: int) -> None:
    close = Close(behind=behind)
    close.spec = replace(toy_spec(), quantization=quantization)
    with counted_near_ties(quantization) as ties:
        run(close, DecodingOptions(), [1, 1])
    assert len(ties) == n_ties


def test_near_ties_count_the_boost_of_the_end() -> None:
    boosted = DecodingOptions(anti_repetition=AntiRepetition(eot_boost=4.9995))
    with counted_near_ties("none") as ties:
        run(Close(behind=3.0), boosted, [1, 1])
    assert len(ties) == 2, "the end may not come first"
