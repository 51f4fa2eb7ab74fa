"""Which cross-attention heads follow the audio: for word timestamps."""

from __future__ import annotations

import logging
from typing import Any

from whisper_hailo.core.dimensions import Dimensions
from whisper_hailo.core.errors import ModelError

logger = logging.getLogger(__name__)

Pairs = tuple[tuple[int, int], ...]


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
    listed = generation.get("alignment_heads")
    if isinstance(listed, list) and listed:
        try:
            pairs = {(int(layer), int(head)) for layer, head in listed}
        except (TypeError, ValueError) as error:
            raise ModelError(
                "generation_config.json has alignment_heads that are no pairs of layer and head "
                f"({error}); fetch the file again"
            ) from error
        if all(
            0 <= layer < dims.n_decoder_layers and 0 <= head < dims.n_decoder_heads
            for layer, head in pairs
        ):
            return tuple(sorted(pairs))
        logger.warning(
            "generation_config.json lists alignment heads that this decoder of %d layers does not "
            "have; using all heads of its upper half",
            dims.n_decoder_layers,
        )
    layers = range(dims.n_decoder_layers // 2, dims.n_decoder_layers)
    return tuple((layer, head) for layer in layers for head in range(dims.n_decoder_heads))
