"""Measures which cross-attention heads tell when a word is said, against the true times.

    python -m lab.training.align_heads CHECKPOINT tests/data/micro [--clips 60]

For every set of decoder heads: the true text is fed, the heads' attention is normalised, smoothed
and averaged as OpenAI Whisper does (`timing.py`), and the cheapest monotonic path through it gives
each word's start. The best set belongs into `generation_config.json`.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from lab.training import whisper_vocabulary as ids
from lab.training.checkpoint import load_checkpoint
from lab.training.evaluate import N_AUDIO_CTX, POSITIONS_PER_S, prompt_of, window
from lab.training.measure import Clips, read_sets
from lab.training.mel import log_mel
from lab.training.model import Attention, Whisper

MEDIAN_WIDTH = 7
Head = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Aligned:
    """One clip: `(n_heads, n_tokens, n_positions)` attention, and where words start.

    Attributes:
        attention: softmax weights over the real positions, tokens of text alone and the end.
        first_tokens: index of each word's first token.
        starts_s: true start of each word.
    """

    attention: np.ndarray
    first_tokens: list[int]
    starts_s: list[float]


def cross_attention(
    attention: Attention, x: Tensor, source: Tensor, n_padding: int
) -> Tensor:
    """Returns softmax weights `(batch, heads, n, m)` over the real positions of `source`."""

    def heads(projected: Tensor) -> Tensor:
        batch, length, _ = projected.shape
        return projected.view(batch, length, -1, attention.head_size).transpose(1, 2)

    query = heads(attention.q_proj(x))
    key = heads(attention.k_proj(source))
    scores = query @ key.transpose(2, 3) * attention.head_size**-0.5
    if n_padding:
        scores = nn.functional.pad(scores, (0, 1), value=float(np.log(n_padding)))
    return scores.softmax(-1)[..., : source.shape[1]]


@torch.no_grad()
def attention_of(
    model: Whisper, tokens: Tensor, features: Tensor, n_padding: int
) -> np.ndarray:
    """Returns all heads' weights `(n_layers * n_heads, n_tokens, n_positions)` of one clip."""
    found: list[Tensor] = []

    def look(module: nn.Module, given: tuple[Any, ...]) -> None:
        assert isinstance(module, Attention)
        found.append(cross_attention(module, given[0], given[1], n_padding))

    hooks = [
        layer.encoder_attn.register_forward_pre_hook(look)
        for layer in model.decoder.layers
    ]
    model.decoder(tokens, features, n_padding)
    for hook in hooks:
        hook.remove()
    return torch.cat([weights[0] for weights in found]).numpy()


def align(
    model: Whisper, tokenizer: Tokenizer, clips: Clips, window_s: float
) -> Iterator[Aligned]:
    """Yields the attention of every clip whose words all have true times."""
    n_padding = max(0, N_AUDIO_CTX - round(POSITIONS_PER_S * window_s))
    prompt = list(prompt_of(clips.task))
    for audio, entry in zip(clips.audio, clips.entries, strict=True):
        words = [word for sentence in entry["sentences"] for word in sentence["words"]]
        if [word[0] for word in words] != entry["text"].split():
            continue
        pieces = [tokenizer.encode(" " + word[0]).ids for word in words]
        first = [sum(map(len, pieces[:k])) for k in range(len(pieces))]
        text = [token for piece in pieces for token in piece]
        features = model.encoder(
            log_mel(torch.from_numpy(window(audio, window_s))[None])
        )
        tokens = torch.tensor([[*prompt, *text, ids.EOT]])
        weights = attention_of(model, tokens, features, n_padding)
        # The weights that choose a token are those of the position before it.
        used = weights[
            :, len(prompt) - 1 : -1, : int(POSITIONS_PER_S * audio.size / 16_000) + 1
        ]
        yield Aligned(used, first, [word[1] for word in words])


def smoothed(attention: np.ndarray) -> np.ndarray:
    """Returns weights standardised over tokens and median-filtered over time."""
    spread = attention.std(axis=1, keepdims=True) + 1e-9
    standard = (attention - attention.mean(axis=1, keepdims=True)) / spread
    half = MEDIAN_WIDTH // 2
    padded = np.pad(standard, ((0, 0), (0, 0), (half, half)), mode="reflect")
    views = np.lib.stride_tricks.sliding_window_view(padded, MEDIAN_WIDTH, axis=2)
    return np.asarray(np.median(views, axis=-1))


def first_positions(gain: np.ndarray) -> np.ndarray:
    """Returns the first position of each token on the best monotonic path.

    Args:
        gain: `(n_tokens, n_positions)`.
    """
    n_tokens, n_positions = gain.shape
    best = np.full((n_tokens + 1, n_positions + 1), -np.inf)
    best[0, 0] = 0.0
    came = np.zeros((n_tokens + 1, n_positions + 1), np.int8)
    for i in range(1, n_tokens + 1):
        for j in range(1, n_positions + 1):
            options = (best[i - 1, j - 1], best[i - 1, j], best[i, j - 1])
            came[i, j] = int(np.argmax(options))
            best[i, j] = gain[i - 1, j - 1] + options[came[i, j]]
    starts = np.zeros(n_tokens, np.int64)
    i = n_tokens
    j = n_positions
    while i > 0 and j > 0:
        starts[i - 1] = j - 1
        step = came[i, j]
        i -= step != 2
        j -= step != 1
    return starts


def start_errors(aligned: list[Aligned], heads: list[int]) -> np.ndarray:
    """Returns the absolute error in seconds of each word's start."""
    errors: list[float] = []
    for given in aligned:
        starts = first_positions(smoothed(given.attention[heads]).mean(axis=0))
        found = starts[given.first_tokens] / POSITIONS_PER_S
        errors += list(np.abs(found - given.starts_s))
    return np.array(errors)


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description="Which heads tell when a word is said."
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("sets", type=Path, help="folder of the frozen test sets")
    parser.add_argument("--set", default="seen")
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, _ = load_checkpoint(options.checkpoint)
    tokenizer = Tokenizer.from_file(str(options.checkpoint / "tokenizer.json"))
    clips = read_sets(options.sets, options.clips)[options.set]
    with torch.no_grad():
        aligned = list(align(model, tokenizer, clips, options.window))
    n_heads = aligned[0].attention.shape[0]
    per_layer = n_heads // len(model.decoder.layers)
    chosen = [
        c for size in range(1, n_heads + 1) for c in combinations(range(n_heads), size)
    ]
    for heads in chosen:
        errors = start_errors(aligned, list(heads))
        entry = {
            "heads": [[head // per_layer, head % per_layer] for head in heads],
            "words": errors.size,
            "median_s": round(float(np.median(errors)), 3),
            "within_0.1_s": round(100 * float((errors <= 0.1).mean()), 1),
            "within_0.2_s": round(100 * float((errors <= 0.2).mean()), 1),
        }
        sys.stdout.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
