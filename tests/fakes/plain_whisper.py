"""Whisper as the paper has it, in float64 NumPy: one row at a time, no cache, nothing folded."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.checkpoints import Arrays

Values = NDArray[Any]


def encode(arrays: Arrays, mel: Values, n_heads: int) -> Values:
    """Log-mel `(n_mels, n_frames)` to audio features `(n_frames / 2, d_model)`."""
    x = mel.T.astype(np.float64)
    for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
        x = gelu(convolve(arrays, name, x, stride))
    x = x + arrays["encoder.embed_positions.weight"][: len(x)]
    for layer in _layers(arrays, "encoder"):
        normed = norm(arrays, f"{layer}.self_attn_layer_norm", x)
        x = x + _attention(arrays, f"{layer}.self_attn", normed, normed, n_heads)
        x = x + _mlp(arrays, layer, x)
    return norm(arrays, "encoder.layer_norm", x)


def decode(arrays: Arrays, tokens: Values, features: Values, n_heads: int) -> Values:
    """Tokens `(n,)` and audio features `(n_positions, d_model)` to logits `(n, n_vocab)`."""
    table = arrays["decoder.embed_tokens.weight"].astype(np.float64)
    x = table[tokens] + arrays["decoder.embed_positions.weight"][: len(tokens)]
    later = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
    for layer in _layers(arrays, "decoder"):
        normed = norm(arrays, f"{layer}.self_attn_layer_norm", x)
        x = x + _attention(
            arrays, f"{layer}.self_attn", normed, normed, n_heads, mask=later
        )
        normed = norm(arrays, f"{layer}.encoder_attn_layer_norm", x)
        x = x + _attention(arrays, f"{layer}.encoder_attn", normed, features, n_heads)
        x = x + _mlp(arrays, layer, x)
    projection = arrays.get("proj_out.weight", table)
    return norm(arrays, "decoder.layer_norm", x) @ projection.T


def norm(arrays: Arrays, name: str, x: Values) -> Values:
    """Over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    unit = centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-5)
    return unit * arrays[f"{name}.weight"] + arrays[f"{name}.bias"]


def gelu(x: Values) -> Values:
    """The exact one."""
    return x * 0.5 * (1 + np.vectorize(erf)(x / 2**0.5))


def _layers(arrays: Arrays, half: str) -> list[str]:
    n_layers = sum(f"{half}.layers.{i}.fc1.weight" in arrays for i in range(99))
    return [f"{half}.layers.{i}" for i in range(n_layers)]


def convolve(arrays: Arrays, name: str, x: Values, stride: int) -> Values:
    """`(n, n_in)` to `(n / stride, n_out)`, three wide, zeros around it."""
    framed = np.pad(x, ((1, 1), (0, 0)))
    seen = [framed[i : i + 3] for i in range(0, len(x), stride)]
    return (
        np.einsum("nwi,oiw->no", seen, arrays[f"{name}.weight"])
        + arrays[f"{name}.bias"]
    )


def _attention(
    arrays: Arrays,
    name: str,
    x: Values,
    source: Values,
    n_heads: int,
    *,
    mask: Values | float = 0.0,
) -> Values:
    """Of `(n, d_model)` to `(n_keys, d_model)`, and the product behind it."""
    q = _linear(arrays, f"{name}.q_proj", x)
    k, v = (_linear(arrays, f"{name}.{part}_proj", source) for part in "kv")
    size = q.shape[1] // n_heads
    heads = []
    for at in range(0, q.shape[1], size):
        own = slice(at, at + size)
        scores = np.exp(q[:, own] @ k[:, own].T / size**0.5 + mask)
        heads.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, own])
    return _linear(arrays, f"{name}.out_proj", np.concatenate(heads, axis=1))


def _mlp(arrays: Arrays, layer: str, x: Values) -> Values:
    normed = norm(arrays, f"{layer}.final_layer_norm", x)
    return _linear(
        arrays, f"{layer}.fc2", gelu(_linear(arrays, f"{layer}.fc1", normed))
    )


def _linear(arrays: Arrays, name: str, x: Values) -> Values:
    bias = arrays.get(f"{name}.bias", np.zeros(1, np.float32))  # keys have none
    return x @ arrays[f"{name}.weight"].T.astype(np.float64) + bias
