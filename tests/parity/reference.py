"""What Transformers computes, in eager float32, for any number of encoder positions."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import WhisperForConditionalGeneration


@torch.no_grad()
def encode(
    model: WhisperForConditionalGeneration, mel: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Encoder features `(batch, n_frames / 2, d_model)` of `mel (batch, n_mels, n_frames)`.

    Transformers' own forward takes 30 s and nothing else, so its layers are called one by one.
    """
    encoder = model.model.encoder
    x = torch.nn.functional.gelu(encoder.conv1(torch.from_numpy(mel)))
    x = torch.nn.functional.gelu(encoder.conv2(x)).permute(0, 2, 1)
    x = x + encoder.embed_positions.weight[: x.shape[1]]
    for layer in encoder.layers:
        out = layer(x, None)
        x = out[0] if isinstance(out, tuple) else out
    features: NDArray[np.float32] = encoder.layer_norm(x).numpy()
    return features


@torch.no_grad()
def logits(
    model: WhisperForConditionalGeneration,
    tokens: NDArray[np.int64],
    features: NDArray[np.float32],
    pad_to: int | None,
) -> NDArray[np.float32]:
    """Logits `(batch, n_tokens, n_vocab)` without a cache, the features padded with real zeros."""
    n_zeros = 0 if pad_to is None else max(0, pad_to - features.shape[1])
    padded = np.pad(features, ((0, 0), (0, n_zeros), (0, 0)))
    hidden = model.model.decoder(
        input_ids=torch.from_numpy(tokens),
        encoder_hidden_states=torch.from_numpy(padded),
        use_cache=False,
    ).last_hidden_state
    result: NDArray[np.float32] = model.proj_out(hidden).numpy()
    return result


def relative_difference(
    got: NDArray[np.float32], expected: NDArray[np.float32]
) -> float:
    """Largest difference over max(1, largest reference value)."""
    return float(np.abs(got - expected).max() / max(1.0, float(np.abs(expected).max())))
