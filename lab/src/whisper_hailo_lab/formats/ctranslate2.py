"""CTranslate2 model directories, written from checkpoints without torch.

    python -m whisper_hailo_lab.formats.ctranslate2 CHECKPOINT OUT

It runs in an environment that has `ctranslate2`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.text.tokenizer import TOKENIZER_FILE

COPIED: Final = (TOKENIZER_FILE, "preprocessor_config.json")
USAGE: Final = "usage: python -m whisper_hailo_lab.formats.ctranslate2 CHECKPOINT OUT"


def write_ctranslate2(checkpoint: Path, out: Path) -> None:
    """Write `model.bin`, its configuration, and the files that faster-whisper reads with them.

    Args:
        checkpoint: directory in Hugging Face's layout, with its `tokenizer.json`.
        out: folder to write into; it must not exist.
    """
    from ctranslate2.specs.whisper_spec import WhisperSpec

    opened = Checkpoint(checkpoint)
    dims = opened.config.dims
    spec = WhisperSpec(
        dims.n_encoder_layers,
        dims.n_encoder_heads,
        dims.n_decoder_layers,
        dims.n_decoder_heads,
    )
    _fill_encoder(spec.encoder, opened)
    _fill_decoder(spec.decoder, opened)
    spec.register_vocabulary(read_vocabulary(checkpoint / TOKENIZER_FILE, dims.n_vocab))
    _fill_config(spec.config, opened)
    spec.validate()
    spec.optimize(quantization="float32")
    out.mkdir(parents=True)
    spec.save(str(out))
    for name in COPIED:
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, out / name)


def read_vocabulary(tokenizer: Path, n_vocab: int) -> list[str]:
    """Return the text of every token in the order of the ids, control tokens by their names.

    Raises:
        ModelError: the file is unreadable, or an id has no token.
    """
    try:
        raw = json.loads(tokenizer.read_bytes())
        vocabulary = raw["model"]["vocab"]
        tokens = {int(index): str(text) for text, index in vocabulary.items()}
        for added in raw.get("added_tokens", []):
            tokens[int(added["id"])] = str(added["content"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{display_path(tokenizer)} is not a readable tokenizer.json ({error}); give a "
            "checkpoint "
            "that has one"
        ) from error
    known = [tokens[index] for index in range(n_vocab) if index in tokens]
    if known != [tokens.get(index) for index in range(len(known))]:
        raise ModelError(
            f"{display_path(tokenizer)} has gaps in its ids; use the checkpoint's own tokenizer"
        )
    # Early tokenizer files lack the timestamps, which are always the last tokens.
    for index in range(n_vocab - len(known)):
        known.append(f"<|{index * 0.02:.2f}|>")
    return known


def _fill_config(config: Any, opened: Checkpoint) -> None:  # noqa: ANN401
    generation = opened.generation_config()
    config.suppress_ids = generation.get("suppress_tokens") or []
    config.suppress_ids_begin = generation.get("begin_suppress_tokens") or []
    tokenizer = opened.directory / TOKENIZER_FILE
    tokens = read_special_tokens(opened.directory, tokenizer)
    config.lang_ids = sorted(tokens.languages.values())
    last_layer = opened.config.dims.n_decoder_layers - 1
    heads = generation.get("alignment_heads") or [[last_layer, 0]]
    config.alignment_heads = [tuple(head) for head in heads]


def _fill_encoder(spec: Any, opened: Checkpoint) -> None:  # noqa: ANN401 - a package without types
    for name in ("conv1", "conv2"):
        _fill_linear(getattr(spec, name), opened, f"encoder.{name}")
    spec.position_encodings.encodings = opened.read("encoder.embed_positions.weight")
    _fill_norm(spec.layer_norm, opened, "encoder.layer_norm")
    for index, layer in enumerate(spec.layer):
        base = f"encoder.layers.{index}"
        _fill_self_attention(layer.self_attention, opened, base)
        _fill_feed_forward(layer.ffn, opened, base)


def _fill_decoder(spec: Any, opened: Checkpoint) -> None:  # noqa: ANN401 - a package without types
    spec.embeddings.weight = opened.read("decoder.embed_tokens.weight")
    spec.projection.weight = opened.read(opened.projection_name)
    spec.position_encodings.encodings = opened.read("decoder.embed_positions.weight")
    _fill_norm(spec.layer_norm, opened, "decoder.layer_norm")
    for index, layer in enumerate(spec.layer):
        base = f"decoder.layers.{index}"
        _fill_self_attention(layer.self_attention, opened, base)
        cross = f"{base}.encoder_attn"
        linear = layer.attention.linear
        _fill_linear(linear[0], opened, f"{cross}.q_proj")
        _fill_joined(linear[1], opened, [f"{cross}.k_proj", f"{cross}.v_proj"])
        _fill_linear(linear[2], opened, f"{cross}.out_proj")
        _fill_norm(layer.attention.layer_norm, opened, f"{cross}_layer_norm")
        _fill_feed_forward(layer.ffn, opened, base)


def _fill_self_attention(spec: Any, opened: Checkpoint, base: str) -> None:  # noqa: ANN401
    own = f"{base}.self_attn"
    projections = [f"{own}.q_proj", f"{own}.k_proj", f"{own}.v_proj"]
    _fill_joined(spec.linear[0], opened, projections)
    _fill_linear(spec.linear[1], opened, f"{own}.out_proj")
    _fill_norm(spec.layer_norm, opened, f"{own}_layer_norm")


def _fill_feed_forward(spec: Any, opened: Checkpoint, base: str) -> None:  # noqa: ANN401
    _fill_linear(spec.linear_0, opened, f"{base}.fc1")
    _fill_linear(spec.linear_1, opened, f"{base}.fc2")
    _fill_norm(spec.layer_norm, opened, f"{base}.final_layer_norm")


def _fill_linear(spec: Any, opened: Checkpoint, name: str) -> None:  # noqa: ANN401
    spec.weight = opened.read(f"{name}.weight")
    spec.bias = opened.read(f"{name}.bias")


def _fill_joined(spec: Any, opened: Checkpoint, names: list[str]) -> None:  # noqa: ANN401
    """Fill one linear layer with several, one after the other."""
    weights = []
    biases = []
    for name in names:
        weight = opened.read(f"{name}.weight")
        weights.append(weight)
        if name.endswith("k_proj"):
            # The keys of Whisper have no bias.
            biases.append(np.zeros(weight.shape[0], np.float32))
        else:
            biases.append(opened.read(f"{name}.bias"))
    spec.weight = np.concatenate(weights)
    spec.bias = np.concatenate(biases)


def _fill_norm(spec: Any, opened: Checkpoint, name: str) -> None:  # noqa: ANN401
    spec.gamma = opened.read(f"{name}.weight")
    spec.beta = opened.read(f"{name}.bias")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(USAGE)
    write_ctranslate2(Path(sys.argv[1]), Path(sys.argv[2]))
