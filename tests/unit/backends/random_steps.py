"""Audio features and tokens to try decoders with."""

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.types import FloatArray

NONE = Padding(None)
FULL = Padding(150)
ATOL = 2e-5


def features_of(*shape: int, seed: int = 0) -> FloatArray:
    array: FloatArray = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return array


def ids_of(*rows: list[int]) -> NDArray[np.int64]:
    return np.array(rows, np.int64)


def last_of(n: int) -> NDArray[np.int64]:
    return np.array([n - 1], np.int64)
