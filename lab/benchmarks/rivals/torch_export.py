"""A Whisper checkpoint through `torch.onnx.export`, as the usual way does it.

Runs in an environment of its own with torch, transformers, onnx and onnxscript:
`python torch_export.py CHECKPOINT OUT WINDOW_S LENGTH [--dynamo] [--cached]`.

Without `--cached` an encoder of the window and a decoder of fixed length come out; with it also
what decodes with a cache: the encoder of 30 s, the first step of the decoder and its further ones.
All sizes are fixed, which is the quickest to export.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import WhisperForConditionalGeneration
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

FULL_WINDOW_S = 30
N_PAST = 4


class Encoder(torch.nn.Module):
    """Transformers' encoder on a short window; its own forward insists on 30 s."""

    def __init__(self, model: WhisperForConditionalGeneration) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.gelu(self.encoder.conv1(mel))
        x = torch.nn.functional.gelu(self.encoder.conv2(x)).permute(0, 2, 1)
        x = x + self.encoder.embed_positions.weight[: x.shape[1]]
        for layer in self.encoder.layers:
            out = layer(x, None)
            x = out[0] if isinstance(out, tuple) else out
        return self.encoder.layer_norm(x)


class Decoder(torch.nn.Module):
    """Transformers' decoder without a cache."""

    def __init__(self, model: WhisperForConditionalGeneration) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return self.logits(tokens, features, None, tokens.shape[1])

    def logits(
        self,
        tokens: torch.Tensor,
        features: torch.Tensor,
        cache: EncoderDecoderCache | None,
        n_seen: int,
    ) -> torch.Tensor:
        hidden = self.model.model.decoder(
            input_ids=tokens,
            # Without a mask Transformers looks for packed sequences, which no exporter can trace.
            attention_mask=torch.ones((1, n_seen), dtype=torch.int64),
            encoder_hidden_states=features,
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        return self.model.proj_out(hidden)


class FirstStep(Decoder):
    """The first tokens: logits, and every layer's keys and values, own and cross."""

    def forward(self, tokens: torch.Tensor, features: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        logits = self.logits(tokens, features, cache, tokens.shape[1])
        return (logits, *_arrays(cache.self_attention_cache), *_arrays(cache.cross_attention_cache))


class NextStep(Decoder):
    """One more token: logits, and every layer's longer own keys and values."""

    def forward(
        self, tokens: torch.Tensor, features: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        half = len(past) // 2
        cache = EncoderDecoderCache(_cache(past[:half]), _cache(past[half:]))
        logits = self.logits(tokens, features, cache, past[0].shape[2] + 1)
        return (logits, *_arrays(cache.self_attention_cache))


def _cache(arrays: tuple[torch.Tensor, ...]) -> DynamicCache:
    cache = DynamicCache()
    for i in range(len(arrays) // 2):
        cache.update(arrays[2 * i], arrays[2 * i + 1], i)
    return cache


def _arrays(cache: DynamicCache) -> Iterator[torch.Tensor]:
    for layer in cache.layers:
        yield layer.keys
        yield layer.values


Graph = tuple[str, torch.nn.Module, tuple[torch.Tensor, ...]]


def fixed_graphs(
    model: WhisperForConditionalGeneration, window_s: int, length: int
) -> Iterator[Graph]:
    """Encoder and decoder of fixed sizes."""
    mel = torch.zeros(1, model.config.num_mel_bins, 100 * window_s)
    features = torch.zeros(1, 50 * window_s, model.config.d_model)
    yield "encoder", Encoder(model), (mel,)
    yield "decoder", Decoder(model), (torch.zeros(1, length, dtype=torch.int64), features)


def cached_graphs(model: WhisperForConditionalGeneration) -> Iterator[Graph]:
    """What decodes with a cache."""
    config = model.config
    mel = torch.zeros(1, config.num_mel_bins, 100 * FULL_WINDOW_S)
    features = torch.zeros(1, 50 * FULL_WINDOW_S, config.d_model)
    tokens = torch.zeros(1, N_PAST, dtype=torch.int64)
    yield "encoder_30s", Encoder(model), (mel,)
    yield "decoder_first", FirstStep(model), (tokens, features)
    heads = config.decoder_attention_heads
    sizes = [N_PAST] * 2 * config.decoder_layers + [features.shape[1]] * 2 * config.decoder_layers
    past = [torch.zeros(1, heads, n, config.d_model // heads) for n in sizes]
    yield "decoder_next", NextStep(model), (tokens[:, :1], features, *past)


def main() -> None:
    checkpoint, out = sys.argv[1], Path(sys.argv[2])
    window_s, length = int(sys.argv[3]), int(sys.argv[4])
    dynamo = "--dynamo" in sys.argv
    model = WhisperForConditionalGeneration.from_pretrained(
        checkpoint, attn_implementation="eager"
    ).eval()
    graphs = list(fixed_graphs(model, window_s, length))
    graphs += cached_graphs(model) if "--cached" in sys.argv else ()
    out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        for name, half, inputs in graphs:
            path = str(out / f"{name}.onnx")
            torch.onnx.export(half, inputs, path, opset_version=17, dynamo=dynamo)


if __name__ == "__main__":
    main()
