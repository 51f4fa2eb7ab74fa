"""A CTranslate2 model directory, written from a checkpoint through its specification, not torch.

    python -m whisper_hailo_lab.formats.ctranslate2 CHECKPOINT OUT [TYPE]

It runs where `ctranslate2` is installed, which may be another environment.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.text.tokenizer import TOKENIZER_FILE

COPIED: Final = (TOKENIZER_FILE, "preprocessor_config.json")
N_WORDS: Final = 2


def write_ctranslate2(checkpoint: Path, out: Path, quantization: str = "float32") -> None:
    """Write `model.bin`, its configuration and what faster-whisper reads beside them.

    Args:
        checkpoint: directory in Hugging Face's layout, with its `tokenizer.json`.
        out: folder to write into; it must not exist.
        quantization: how weights are stored, such as `int8`.
    """
    from ctranslate2.specs.whisper_spec import WhisperSpec

    opened = Checkpoint(checkpoint)
    dims = opened.config.dims
    spec = WhisperSpec(
        dims.n_encoder_layers, dims.n_encoder_heads, dims.n_decoder_layers, dims.n_decoder_heads
    )
    _fill_encoder(spec.encoder, opened)
    _fill_decoder(spec.decoder, opened)
    spec.register_vocabulary(vocabulary(checkpoint / TOKENIZER_FILE, dims.n_vocab))
    _configure(spec.config, opened.generation_config(), dims.n_decoder_layers)
    spec.validate()
    spec.optimize(quantization=quantization)
    out.mkdir(parents=True)
    spec.save(str(out))
    for name in COPIED:
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, out / name)


def vocabulary(tokenizer: Path, n_vocab: int) -> list[str]:
    """Every token's text in the order of the ids, control tokens by their real names.

    Raises:
        ModelError: unreadable, or ids that nothing names.
    """
    try:
        raw = json.loads(tokenizer.read_bytes())
        names = {int(i): str(text) for text, i in raw["model"]["vocab"].items()}
        names |= {int(t["id"]): str(t["content"]) for t in raw.get("added_tokens", [])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{display_path(tokenizer)} is no readable tokenizer.json ({error}); give a checkpoint "
            "that has one"
        ) from error
    known = [names[i] for i in range(n_vocab) if i in names]
    if known != [names.get(i) for i in range(len(known))]:
        raise ModelError(
            f"{display_path(tokenizer)} has gaps in its ids; use the checkpoint's own tokenizer"
        )
    # Early tokenizer files leave the timestamps out; they always come last.
    return known + [f"<|{i * 0.02:.2f}|>" for i in range(n_vocab - len(known))]


def _configure(config: Any, generation: dict[str, Any], n_layers: int) -> None:  # noqa: ANN401
    config.suppress_ids = generation.get("suppress_tokens") or []
    config.suppress_ids_begin = generation.get("begin_suppress_tokens") or []
    config.lang_ids = sorted((generation.get("lang_to_id") or {}).values())
    heads = generation.get("alignment_heads") or [[n_layers - 1, 0]]
    config.alignment_heads = [tuple(head) for head in heads]


def _fill_encoder(spec: Any, opened: Checkpoint) -> None:  # noqa: ANN401 - a package without types
    for name in ("conv1", "conv2"):
        _weights(getattr(spec, name), opened, f"encoder.{name}")
    spec.position_encodings.encodings = opened.read("encoder.embed_positions.weight")
    _norm(spec.layer_norm, opened, "encoder.layer_norm")
    for index, layer in enumerate(spec.layer):
        base = f"encoder.layers.{index}"
        _self_attention(layer.self_attention, opened, base)
        _mlp(layer.ffn, opened, base)


def _fill_decoder(spec: Any, opened: Checkpoint) -> None:  # noqa: ANN401 - a package without types
    spec.embeddings.weight = opened.read("decoder.embed_tokens.weight")
    spec.projection.weight = opened.read(opened.projection_name)
    spec.position_encodings.encodings = opened.read("decoder.embed_positions.weight")
    _norm(spec.layer_norm, opened, "decoder.layer_norm")
    for index, layer in enumerate(spec.layer):
        base = f"decoder.layers.{index}"
        _self_attention(layer.self_attention, opened, base)
        cross = f"{base}.encoder_attn"
        linear = layer.attention.linear
        _weights(linear[0], opened, f"{cross}.q_proj")
        _joined(linear[1], opened, [f"{cross}.k_proj", f"{cross}.v_proj"])
        _weights(linear[2], opened, f"{cross}.out_proj")
        _norm(layer.attention.layer_norm, opened, f"{cross}_layer_norm")
        _mlp(layer.ffn, opened, base)


def _self_attention(spec: Any, opened: Checkpoint, base: str) -> None:  # noqa: ANN401
    own = f"{base}.self_attn"
    _joined(spec.linear[0], opened, [f"{own}.{part}_proj" for part in "qkv"])
    _weights(spec.linear[1], opened, f"{own}.out_proj")
    _norm(spec.layer_norm, opened, f"{own}_layer_norm")


def _mlp(spec: Any, opened: Checkpoint, base: str) -> None:  # noqa: ANN401
    _weights(spec.linear_0, opened, f"{base}.fc1")
    _weights(spec.linear_1, opened, f"{base}.fc2")
    _norm(spec.layer_norm, opened, f"{base}.final_layer_norm")


def _weights(spec: Any, opened: Checkpoint, name: str) -> None:  # noqa: ANN401
    spec.weight = opened.read(f"{name}.weight")
    spec.bias = opened.read(f"{name}.bias")


def _joined(spec: Any, opened: Checkpoint, names: list[str]) -> None:  # noqa: ANN401
    """Several products as one; Whisper's keys have no bias, which is a bias of zero."""
    weights = [opened.read(f"{name}.weight") for name in names]
    biases = [
        np.zeros(weight.shape[0], np.float32)
        if name.endswith("k_proj")
        else opened.read(f"{name}.bias")
        for name, weight in zip(names, weights, strict=True)
    ]
    spec.weight = np.concatenate(weights)
    spec.bias = np.concatenate(biases)


def _norm(spec: Any, opened: Checkpoint, name: str) -> None:  # noqa: ANN401
    spec.gamma = opened.read(f"{name}.weight")
    spec.beta = opened.read(f"{name}.bias")


if __name__ == "__main__":
    if not N_WORDS <= len(sys.argv) - 1 <= N_WORDS + 1:
        sys.exit("usage: python -m whisper_hailo_lab.formats.ctranslate2 CHECKPOINT OUT [TYPE]")
    write_ctranslate2(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
