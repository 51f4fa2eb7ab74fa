"""Audio features and tokens to try decoders with."""

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import SIGNLESS_ZERO
from whisper_hailo.core.types import FloatArray

NONE = Padding(None)
FULL = Padding(150)
ATOL = 2e-5


def values_of_codes(codes: NDArray[np.uint8], scale: FloatArray) -> FloatArray:
    """Return keys or values of the audio `(batch, heads, n_keys, head_size)` in float32."""
    floats = codes.astype(np.float32) - SIGNLESS_ZERO
    if floats.ndim == 5:  # keys come in blocks
        batch, heads, _, size, _ = floats.shape
        floats = floats.transpose(0, 1, 2, 4, 3).reshape(batch, heads, -1, size)
    values: FloatArray = floats * scale.transpose(0, 2, 1, 3)
    return values


def features_of(*shape: int, seed: int = 0) -> FloatArray:
    array: FloatArray = (
        np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    )
    return array


def ids_of(*rows: list[int]) -> NDArray[np.int64]:
    return np.array(rows, np.int64)


def last_of(n: int) -> NDArray[np.int64]:
    return np.array([n - 1], np.int64)
