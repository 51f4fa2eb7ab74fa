"""Small checkpoints with random weights, of Transformers and CTranslate2, without either."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from whisper_hailo.checkpoint.checkpoint import expected_shapes
from whisper_hailo.core.spec import Dimensions

TOY = Dimensions(
    n_mels=80,
    n_audio_ctx=150,
    d_model=64,
    n_encoder_layers=1,
    n_encoder_heads=1,
    n_decoder_layers=2,
    n_decoder_heads=2,
    n_text_ctx=64,
    n_vocab=200,
)
"""Enough layers and heads to go wrong, small enough for milliseconds."""
TOY_FFN = 128
Arrays = dict[str, NDArray[np.float32]]
HEAD: Final = (6, "WhisperSpec", 3)
TYPES: Final = [np.dtype(t) for t in ("f4", "i1", "i2", "i4", "f2", ml_dtypes.bfloat16)]
SETTINGS: Final = {
    "suppress_ids": [1, 2, 7],
    "suppress_ids_begin": [3, 160],
    "lang_ids": [162, 163],
    "alignment_heads": [[0, 1], [1, 0]],
}
_ATTENTION: Final = {"self_attention": "self_attn", "attention": "encoder_attn"}
Variables = dict[str, Any]


def config_of(dims: Dimensions, ffn: int = TOY_FFN) -> dict[str, object]:
    """`config.json` of a checkpoint, as Transformers writes it."""
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "activation_function": "gelu",
        "scale_embedding": False,
        "num_mel_bins": dims.n_mels,
        "max_source_positions": dims.n_audio_ctx,
        "max_target_positions": dims.n_text_ctx,
        "d_model": dims.d_model,
        "encoder_layers": dims.n_encoder_layers,
        "encoder_attention_heads": dims.n_encoder_heads,
        "encoder_ffn_dim": ffn,
        "decoder_layers": dims.n_decoder_layers,
        "decoder_attention_heads": dims.n_decoder_heads,
        "decoder_ffn_dim": ffn,
        "vocab_size": dims.n_vocab,
        "decoder_start_token_id": 11,
        "eos_token_id": 10,
        "bos_token_id": 10,
        "pad_token_id": 10,
    }


def random_arrays(dims: Dimensions = TOY, ffn: int = TOY_FFN, seed: int = 0) -> Arrays:
    """Weights that keep activations of order one, biases and norms that matter.

    The legacy generator's stream is frozen, so goldens made from these weights stay valid.
    """
    rng = np.random.RandomState(seed)
    arrays: Arrays = {}
    for name, shape in expected_shapes(dims, ffn, ffn).items():
        noise = rng.standard_normal(shape).astype(np.float32)
        if name.endswith("layer_norm.weight"):
            arrays[name] = 1 + 0.2 * noise
        elif len(shape) == 1:
            arrays[name] = 0.1 * noise
        else:
            arrays[name] = noise / np.float32(np.prod(shape[1:])) ** 0.5
    return arrays


def write_checkpoint(
    directory: Path,
    arrays: Arrays | None = None,
    *,
    config: dict[str, object] | None = None,
    dtype: str = "float32",
    prefix: str = "model.",
    n_shards: int = 1,
) -> Path:
    """Write a checkpoint directory; `arrays` default to `random_arrays()`."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config_of(TOY) if config is None else config)
    (directory / "config.json").write_text(text)
    stored = {
        (name if name == "proj_out.weight" else prefix + name): array.astype(dtype)
        for name, array in (random_arrays() if arrays is None else arrays).items()
    }
    if n_shards == 1:
        save_file(stored, directory / "model.safetensors")
        return directory
    weight_map = {}
    for shard in range(n_shards):
        file = f"model-{shard + 1:05}-of-{n_shards:05}.safetensors"
        part = {name: stored[name] for name in sorted(stored)[shard::n_shards]}
        save_file(part, directory / file)
        weight_map |= dict.fromkeys(part, file)
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (directory / "model.safetensors.index.json").write_text(index)
    return directory


def text(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def variable(name: str, value: Any) -> bytes:
    array = np.asarray(value)
    raw = array.tobytes()
    return (
        text(name)
        + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        + struct.pack("<BI", TYPES.index(array.dtype), len(raw))
        + raw
    )


def model_bytes(
    variables: Mapping[str, Any],
    aliases: Mapping[str, str] | None = None,
    head: tuple[int, str, int] = HEAD,
) -> bytes:
    """A whole `model.bin`."""
    aliases = {
        "decoder/projection/weight": "decoder/embeddings/weight",
        **(aliases or {}),
    }
    aliases = {alias: name for alias, name in aliases.items() if alias not in variables}
    return b"".join(
        (
            struct.pack("<I", head[0]) + text(head[1]) + struct.pack("<I", head[2]),
            struct.pack("<I", len(variables)),
            *(variable(name, value) for name, value in sorted(variables.items())),
            struct.pack("<I", len(aliases)),
            *(text(alias) + text(name) for alias, name in aliases.items()),
        )
    )


def variables_of(
    arrays: Arrays, dims: Dimensions = TOY, dtype: str = "float32"
) -> Variables:
    """The arrays of a checkpoint as CTranslate2 names, joins and stores them.

    Args:
        arrays: by Hugging Face's names.
        dims: for the numbers of heads and layers.
        dtype: of floats; `int8` and `int16` quantise weights and keep the others in float32.
    """
    names: Variables = {
        "encoder/position_encodings/encodings": arrays[
            "encoder.embed_positions.weight"
        ],
        "decoder/position_encodings/encodings": arrays[
            "decoder.embed_positions.weight"
        ],
        "decoder/embeddings/weight": arrays["decoder.embed_tokens.weight"],
    }
    for conv in ("conv1", "conv2"):
        names |= {
            f"encoder/{conv}/{k}": arrays[f"encoder.{conv}.{k}"]
            for k in ("weight", "bias")
        }
    for part, n_layers in (
        ("encoder", dims.n_encoder_layers),
        ("decoder", dims.n_decoder_layers),
    ):
        names |= _norm(arrays, f"{part}/layer_norm", f"{part}.layer_norm")
        for index in range(n_layers):
            names |= _layer(arrays, f"{part}/layer_{index}", f"{part}.layers.{index}")
    floats = "float32" if dtype.startswith("int") else dtype
    stored = {name: value.astype(floats) for name, value in names.items()}
    if dtype.startswith("int"):
        for name in [name for name in names if name.endswith("weight")]:
            stored |= _quantized(name, names[name], dtype)
    return {
        **stored,
        "encoder/num_heads": np.int16(dims.n_encoder_heads),
        "decoder/num_heads": np.int16(dims.n_decoder_heads),
        "decoder/activation": np.int8(3),
        "decoder/pre_norm": np.int8(1),
        "decoder/scale_embeddings": np.int8(0),
    }


def _layer(arrays: Arrays, to: str, of: str) -> Variables:
    found: Variables = {}
    for theirs, ours in _ATTENTION.items():
        base = f"{of}.{ours}"
        if f"{base}.q_proj.weight" not in arrays:
            continue
        groups = ("qkv", ("out",)) if ours == "self_attn" else ("q", "kv", ("out",))
        for number, group in enumerate(groups):
            parts = [f"{base}.{part}_proj" for part in group]
            found[f"{to}/{theirs}/linear_{number}/weight"] = np.concatenate(
                [arrays[f"{part}.weight"] for part in parts]
            )
            found[f"{to}/{theirs}/linear_{number}/bias"] = np.concatenate(
                [
                    arrays.get(
                        f"{part}.bias",
                        np.zeros(len(arrays[f"{part}.weight"]), np.float32),
                    )
                    for part in parts
                ]
            )
        found |= _norm(arrays, f"{to}/{theirs}/layer_norm", f"{base}_layer_norm")
    for number in (0, 1):
        for kind in ("weight", "bias"):
            found[f"{to}/ffn/linear_{number}/{kind}"] = arrays[
                f"{of}.fc{number + 1}.{kind}"
            ]
    return found | _norm(arrays, f"{to}/ffn/layer_norm", f"{of}.final_layer_norm")


def _norm(arrays: Arrays, to: str, of: str) -> Variables:
    return {f"{to}/gamma": arrays[f"{of}.weight"], f"{to}/beta": arrays[f"{of}.bias"]}


def _quantized(name: str, value: Any, dtype: str) -> Variables:
    """As CTranslate2's `model_spec.py`: int8 by rows, int16 by the largest of all."""
    rows = np.abs(value.reshape(len(value), -1))
    if dtype == "int16":
        scale = np.float32(2**10 / rows.max())
        return {name: np.rint(value * scale).astype(np.int16), f"{name}_scale": scale}
    scales = (127 / rows.max(axis=1)).astype(np.float32)
    wide = scales.reshape(-1, *[1] * (value.ndim - 1))
    return {name: np.rint(value * wide).astype(np.int8), f"{name}_scale": scales}


def write_ctranslate2(
    directory: Path,
    variables: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a directory; the toy's random weights in float32 are what it has without others."""
    directory.mkdir(parents=True, exist_ok=True)
    given = variables_of(random_arrays()) if variables is None else variables
    (directory / "model.bin").write_bytes(model_bytes(given))
    (directory / "config.json").write_text(
        json.dumps(settings or SETTINGS), encoding="utf-8"
    )
    return directory
