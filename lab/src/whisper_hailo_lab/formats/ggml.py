"""Model files of whisper.cpp, written from checkpoints.

Layout (whisper.cpp, `models/convert-h5-to-ggml.py` and `whisper_model_load`): magic, eleven sizes,
mel filters, the ordinary tokens as bytes, then every array with its name. There are no control
tokens: whisper.cpp derives their ids from the size of the vocabulary.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from whisper_hailo.audio.log_mel import mel_filters
from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.text.tokenizer import BYTES_BY_LETTER, TOKENIZER_FILE

_LAYER: Final = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)$")

_IN_LAYER: Final = {
    "self_attn.q_proj": "attn.query",
    "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.k_proj": "cross_attn.key",
    "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "final_layer_norm": "mlp_ln",
}

_OTHERS: Final = {
    "encoder.embed_positions.weight": "encoder.positional_embedding",
    "encoder.layer_norm.weight": "encoder.ln_post.weight",
    "encoder.layer_norm.bias": "encoder.ln_post.bias",
    "decoder.embed_positions.weight": "decoder.positional_embedding",
    "decoder.embed_tokens.weight": "decoder.token_embedding.weight",
    "decoder.layer_norm.weight": "decoder.ln.weight",
    "decoder.layer_norm.bias": "decoder.ln.bias",
}


def openai_name(name: str) -> str:
    """Return the name of an array in OpenAI's checkpoints.

    Args:
        name: name in Hugging Face's checkpoints, without the leading `model.`.
    """
    if name in _OTHERS:
        return _OTHERS[name]
    match = _LAYER.fullmatch(name)
    if match is None:
        # The two convolutions have the same names in both.
        return name
    half, index, part, kind = match.groups()
    return f"{half}.blocks.{index}.{_IN_LAYER[part]}.{kind}"


MAGIC: Final = 0x67676D6C

# Types of an array.
F32: Final = 0
F16: Final = 1

FILE_TYPE: Final = 1
"""Type of a file of 16-bit matrices in its header."""


def write_ggml(checkpoint: Path, out: Path) -> None:
    """Write a ggml file like those that whisper.cpp publishes.

    Args:
        checkpoint: directory in Hugging Face's layout, with its `tokenizer.json`.
        out: file to write. Matrices have 16 bits, vectors and positions 32, as in whisper.cpp's own
            tool.
    """
    opened = Checkpoint(checkpoint)
    config = opened.config
    tokens = read_ordinary_tokens(checkpoint / TOKENIZER_FILE)
    with out.open("wb") as file:
        file.write(struct.pack("<I", MAGIC))
        file.write(struct.pack("<11i", *_header_sizes(config.dims), FILE_TYPE))
        filters = mel_filters(config.dims.n_mels).astype("<f4")
        file.write(struct.pack("<2i", *filters.shape))
        file.write(filters.tobytes())
        file.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            file.write(struct.pack("<i", len(token)) + token)
        shapes = expected_shapes(config.dims, config.encoder_ffn, config.decoder_ffn)
        for name in shapes:
            _write_array(file, openai_name(name), opened.read(name))


def read_ordinary_tokens(tokenizer: Path) -> list[bytes]:
    """Return the bytes of the tokens below the control tokens, in the order of their ids.

    Raises:
        ModelError: the file is unreadable, or an id has no token.
    """
    try:
        vocabulary: dict[str, int] = json.loads(tokenizer.read_bytes())["model"][
            "vocab"
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{display_path(tokenizer)} is not a readable tokenizer.json ({error}); give a "
            "checkpoint "
            "that has one"
        ) from error
    ordinary = {
        index: text for text, index in vocabulary.items() if not text.startswith("<|")
    }
    if sorted(ordinary) != list(range(len(ordinary))):
        raise ModelError(
            f"{display_path(tokenizer)} has gaps in its ids; whisper.cpp cannot hold it"
        )
    texts = [ordinary[index] for index in range(len(ordinary))]
    return [bytes(BYTES_BY_LETTER[letter] for letter in text) for text in texts]


def _header_sizes(dims: Dimensions) -> tuple[int, ...]:
    return (
        dims.n_vocab,
        dims.n_audio_ctx,
        dims.d_model,
        dims.n_encoder_heads,
        dims.n_encoder_layers,
        dims.n_text_ctx,
        dims.d_model,
        dims.n_decoder_heads,
        dims.n_decoder_layers,
        dims.n_mels,
    )


def _write_array(file: BinaryIO, name: str, array: AnyArray) -> None:
    """Write name, shape with the fastest axis first, and values of an array."""
    if name.startswith("encoder.conv") and array.ndim == 1:
        # Biases of convolutions are columns there.
        array = array[:, np.newaxis]
    is_vector = array.ndim == 1 or name.endswith(("bias", "positional_embedding"))
    kind = F32 if is_vector else F16
    content = np.ascontiguousarray(array, dtype="<f4" if is_vector else "<f2").tobytes()
    encoded = name.encode("ascii")
    file.write(struct.pack("<3i", array.ndim, len(encoded), kind))
    file.write(struct.pack(f"<{array.ndim}i", *reversed(array.shape)))
    file.write(encoded)
    file.write(content)
