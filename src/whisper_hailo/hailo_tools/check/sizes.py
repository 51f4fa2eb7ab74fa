"""How large a section's weights are, and what little is known of how they fit a chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from onnx import TensorProto

from whisper_hailo.hailo_tools.check.graph import OnnxGraph
from whisper_hailo.hailo_tools.check.section import Section

FLOATS: Final = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)

TINY_ENCODER_WEIGHTS: Final = 7_824_388
"""Weights of the one build whose size on a chip is known: tiny's encoder, 10 s, positions and
all, in 9 contexts on a Hailo-8L (the original study's own compilation)."""

TINY_ENCODER_CONTEXTS: Final = 9


@dataclass(frozen=True, slots=True)
class WeightSizes:
    """Weights of a section.

    Attributes:
        count: how many numbers.
        contexts: estimate of how many times the chip would have to be reloaded within one run,
            `None` where nothing is known to estimate from.
    """

    count: int
    contexts: int | None

    def nbytes(self, bits: int) -> int:
        """Bytes at 4, 8 or 16 bits each, without scales."""
        return self.count * bits // 8


def weight_sizes(graph: OnnxGraph, section: Section, arch: str) -> WeightSizes:
    """Count the weights between start and end, each once.

    The estimate scales the one known build by the number of weights. Window, activations and the
    compiler's search matter too, so it is a hint at the order of magnitude and no more.
    """
    names = {name for index in section.nodes for name in graph.nodes[index].input}
    stored = (graph.weights[name] for name in names if name in graph.weights)
    count = sum(_count(tensor.shape) for tensor in stored if tensor.dtype in FLOATS)
    if arch != "hailo8l":
        return WeightSizes(count, None)
    scaled = TINY_ENCODER_CONTEXTS * count / TINY_ENCODER_WEIGHTS
    return WeightSizes(count, max(1, round(scaled)))


def _count(shape: tuple[int | None, ...] | None) -> int:
    return int(np.prod([axis or 0 for axis in shape or ()], dtype=np.int64))
