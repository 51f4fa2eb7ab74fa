"""The output of a step for decoders whose graphs give nothing but logits."""

from __future__ import annotations

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import FloatArray


def output_of_logits(logits: FloatArray) -> StepOutput:
    """Return the step's output for logits `(batch, K, n_vocab)` float32, without alignment."""
    return StepOutput(logits, logsumexp(logits))


def logsumexp(logits: FloatArray) -> FloatArray:
    """Return the natural log of the sum of exponentials over the last axis, `(batch, K)` float32.

    The largest logit is taken out of the sum first, since the exponential of one may overflow.
    """
    largest = logits.max(axis=-1, keepdims=True)
    total = np.exp(logits - largest).sum(axis=-1, dtype=np.float64)
    sums: FloatArray = (largest[..., 0] + np.log(total)).astype(np.float32)
    return sums
