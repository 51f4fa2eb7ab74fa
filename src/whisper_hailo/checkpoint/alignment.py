"""Which cross-attention heads follow the audio: for word timestamps."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from whisper_hailo.core.dimensions import Dimensions
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.strict_json import MismatchError, decode

logger = logging.getLogger(__name__)

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Listed:
    """What is read of `generation_config.json`."""

    alignment_heads: Pairs | None = None


def alignment_heads(generation: dict[str, Any], dims: Dimensions) -> Pairs:
    """`(layer, head)` pairs in order, from the generation config if it has good ones.

    Without them: all heads of the upper half of the decoder, as in OpenAI's Whisper. Distilled
    checkpoints often carry the list of their teacher, whose layers they do not have.

    Args:
        generation: `generation_config.json`, may be empty.
        dims: the model's sizes.

    Raises:
        ModelError: the list is not made of pairs of numbers.
    """
    try:
        listed = decode(_Listed, generation).alignment_heads
    except MismatchError as error:
        raise ModelError(f"generation_config.json: {error}; fetch the file again") from error
    if listed:
        if all(
            0 <= layer < dims.n_decoder_layers and 0 <= head < dims.n_decoder_heads
            for layer, head in listed
        ):
            return tuple(sorted(set(listed)))
        logger.warning(
            "generation_config.json lists alignment heads that this decoder of %d layers does not "
            "have; using all heads of its upper half",
            dims.n_decoder_layers,
        )
    layers = range(dims.n_decoder_layers // 2, dims.n_decoder_layers)
    return tuple((layer, head) for layer in layers for head in range(dims.n_decoder_heads))
