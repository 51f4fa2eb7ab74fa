"""Greedy decoding of the training-time model, a batch of windows at once, without a cache."""

import numpy as np
import torch
from torch import Tensor

from training import whisper_vocabulary as ids
from training.kept_tokens import PREFIX, KeptTokens
from training.mel import log_mel
from training.model import Whisper

SAMPLE_RATE_HZ = 16_000


def window(audio: np.ndarray, window_s: float) -> np.ndarray:
    """Returns `audio` `(n_samples,)` int16 or float as float32, zero-padded or cut to a window."""
    samples = audio.astype(np.float32) / (32768 if audio.dtype == np.int16 else 1)
    size = int(window_s * SAMPLE_RATE_HZ)
    return np.pad(samples[:size], (0, max(0, size - samples.size)))


@torch.no_grad()
def greedy(
    model: Whisper, kept: KeptTokens, audio: Tensor, n_padding: int, max_tokens: int = 120
) -> tuple[list[list[int]], list[float]]:
    """Decodes windows `(batch, n_samples)` float32 with `n_padding` zero rows.

    Returns:
        Text tokens (Whisper's ids) of each window, and each window's probability of no speech.
    """
    features = model.encoder(log_mel(audio))
    prefix = kept.rows(list(PREFIX))
    eot, no_speech = kept.rows([ids.EOT, ids.NO_SPEECH])
    tokens = torch.tensor([prefix] * len(audio))
    done = torch.zeros(len(audio), dtype=torch.bool)
    no_speech_probs: list[float] = []
    while tokens.shape[1] < len(prefix) + max_tokens and not done.all():
        if not no_speech_probs:
            at_sot = model.decoder(tokens[:, :1], features, n_padding)[:, 0]
            no_speech_probs = at_sot.softmax(-1)[:, no_speech].tolist()
        logits = model.decoder(tokens, features, n_padding, last_only=True)
        chosen = logits[:, -1].argmax(-1).masked_fill(done, eot)
        done |= chosen == eot
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
    texts = [
        [kept.ids[row] for row in line if row != eot] for line in tokens[:, len(prefix) :].tolist()
    ]
    return texts, no_speech_probs
