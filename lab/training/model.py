"""Whisper in compact torch, for training: Hugging Face's parameter names, a trimmed vocabulary.

Two things differ from the usual module. Cross-attention takes the number of zero rows that the
encoder output is thought to be padded with (one extra key of score `ln P` whose value is the bias
of `v_proj`). And one channel of the decoder's last norm is constant (`BIAS_CHANNEL`): through it
each row of the tied embedding has a bias of its own, by which untrained ids are shut out for good
when the vocabulary is made whole.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

BIAS_CHANNEL = -1
BIAS_VALUE = 16.0


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes of the network; the defaults are those of `micro`."""

    n_mels: int = 80
    d_model: int = 128
    n_encoder_layers: int = 6
    n_decoder_layers: int = 2
    ffn: int = 512
    head_size: int = 64
    n_audio_ctx: int = 1500
    n_text_ctx: int = 448


def sinusoids(length: int, channels: int) -> Tensor:
    """Returns Whisper's fixed encoder positions, `(length, channels)`: sines, then cosines."""
    step = math.log(10_000) / (channels // 2 - 1)
    scales = torch.exp(-step * torch.arange(channels // 2))
    angles = torch.arange(length)[:, None] * scales[None, :]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _working_precision(x: Tensor) -> Tensor:
    """Casts once what autocast would cast again for each of its uses."""
    return x.bfloat16() if torch.is_autocast_enabled(x.device.type) else x


class Attention(nn.Module):
    """Multi-head attention; keys have no bias, so a zero row has score 0 for every query."""

    no_bias: Tensor

    def __init__(self, sizes: Dimensions) -> None:
        super().__init__()
        width = sizes.d_model
        self.head_size = sizes.head_size
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        self.register_buffer("no_bias", torch.zeros(width), False)

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, width // self.head_size, self.head_size).transpose(
            1, 2
        )

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        causal: bool = False,
        n_padding: int = 0,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """Attends from `x` `(batch, n, d_model)` to itself or `source` `(batch, m, d_model)`.

        The weights `(batch, heads, n, m)`, zero rows left out, are appended to `seen`.
        """
        x = _working_precision(x)
        if source is None:
            weight = torch.cat(
                [self.q_proj.weight, self.k_proj.weight, self.v_proj.weight]
            )
            bias = torch.cat([self.q_proj.bias, self.no_bias, self.v_proj.bias])
            projected = functional.linear(x, weight, bias).chunk(3, dim=-1)
        else:
            projected = self.q_proj(x), self.k_proj(source), self.v_proj(source)
        query, key, value = map(self._heads, projected)
        if n_padding:
            batch, heads, _, size = key.shape
            extra = self.v_proj.bias.to(value.dtype).view(1, heads, 1, size)
            value = torch.cat([value, extra.expand(batch, -1, -1, -1)], dim=2)
        # Written out: on CPUs the backward pass of the fused kernel takes longer than all the rest.
        scores = (query * self.head_size**-0.5) @ key.transpose(2, 3)
        if causal:
            scores = scores + scores.new_full(scores.shape[2:], -torch.inf).triu(1)
        if n_padding:
            scores = functional.pad(scores, (0, 1), value=math.log(n_padding))
        weights = scores.softmax(-1)
        if seen is not None:
            seen.append(
                weights[..., : source.shape[1]] if source is not None else weights
            )
        mixed = weights.to(value.dtype) @ value
        output: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return output


class Layer(nn.Module):
    """One pre-norm block: self-attention, cross-attention in decoders, feed-forward."""

    def __init__(self, sizes: Dimensions, cross: bool) -> None:
        super().__init__()
        self.self_attn = Attention(sizes)
        self.self_attn_layer_norm = nn.LayerNorm(sizes.d_model)
        if cross:
            self.encoder_attn = Attention(sizes)
            self.encoder_attn_layer_norm = nn.LayerNorm(sizes.d_model)
        self.fc1 = nn.Linear(sizes.d_model, sizes.ffn)
        self.fc2 = nn.Linear(sizes.ffn, sizes.d_model)
        self.final_layer_norm = nn.LayerNorm(sizes.d_model)

    def forward(
        self,
        x: Tensor,
        features: Tensor | None = None,
        n_padding: int = 0,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """Returns the new residual stream, `(batch, n, d_model)`; `seen` as in `Attention`."""
        normed = self.self_attn_layer_norm(x)
        x = x + self.self_attn(normed, causal=features is not None)
        if features is not None:
            normed = self.encoder_attn_layer_norm(x)
            x = x + self.encoder_attn(normed, features, n_padding=n_padding, seen=seen)
        wide = functional.gelu(self.fc1(self.final_layer_norm(x)))
        x = x + self.fc2(wide)
        return x


class Encoder(nn.Module):
    """Log-mel to audio features."""

    positions: Tensor

    def __init__(self, sizes: Dimensions) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(sizes.n_mels, sizes.d_model, 3, padding=1)
        self.conv2 = nn.Conv1d(sizes.d_model, sizes.d_model, 3, stride=2, padding=1)
        self.register_buffer(
            "positions", sinusoids(sizes.n_audio_ctx, sizes.d_model), False
        )
        self.layers = nn.ModuleList(
            Layer(sizes, False) for _ in range(sizes.n_encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(sizes.d_model)

    def forward(self, mel: Tensor, first_position: int = 0) -> Tensor:
        """Encodes `mel` `(batch, n_mels, n_frames)` to `(batch, n_frames // 2, d_model)`.

        `first_position` is not 0 only in training: the window is then a crop of a longer one.
        """
        return self.with_middle(mel, first_position)[0]

    def with_middle(
        self, mel: Tensor, first_position: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Returns what `forward` does, and the residual stream after half of the layers."""
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(mel)))).transpose(
            1, 2
        )
        x = x + self.positions[first_position : first_position + x.shape[1]]
        middle = x
        for number, layer in enumerate(self.layers, 1):
            x = layer(x)
            middle = x if 2 * number <= len(self.layers) else middle
        return self.layer_norm(x), middle


class Decoder(nn.Module):
    """Tokens and audio features to logits over the trimmed vocabulary."""

    constant: Tensor

    def __init__(self, sizes: Dimensions, n_kept: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(n_kept, sizes.d_model)
        self.embed_positions = nn.Embedding(sizes.n_text_ctx, sizes.d_model)
        self.layers = nn.ModuleList(
            Layer(sizes, True) for _ in range(sizes.n_decoder_layers)
        )
        self.layer_norm = nn.LayerNorm(sizes.d_model)
        constant = torch.zeros(sizes.d_model)
        constant[BIAS_CHANNEL] = BIAS_VALUE
        self.register_buffer("constant", constant, False)
        nn.init.normal_(self.embed_tokens.weight, std=0.05)
        nn.init.normal_(self.embed_positions.weight, std=0.01)
        with torch.no_grad():
            self.embed_tokens.weight[:, BIAS_CHANNEL] = 0.0

    def last_norm(self) -> tuple[Tensor, Tensor]:
        """Returns gain and bias `(d_model,)` of the last norm, its bias channel made constant."""
        free = self.constant == 0.0
        return (
            self.layer_norm.weight * free,
            self.layer_norm.bias * free + self.constant,
        )

    def forward(
        self,
        tokens: Tensor,
        features: Tensor,
        n_padding: int,
        last_only: bool = False,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """Returns logits `(batch, n_tokens, n_kept)` for `tokens` `(batch, n_tokens)`.

        With `last_only` those of the last token alone, `(batch, 1, n_kept)`. `seen` gets each
        layer's cross-attention, see `Attention`.
        """
        x = self.embed_tokens(tokens) + self.embed_positions.weight[: tokens.shape[1]]
        features = _working_precision(features)
        for layer in self.layers:
            x = layer(x, features, n_padding, seen)
        x = functional.layer_norm(
            x[:, -1:] if last_only else x, x.shape[-1:], *self.last_norm()
        )
        return functional.linear(x, self.embed_tokens.weight)


class Whisper(nn.Module):
    """Encoder and decoder; the two CTC heads are aids of training and are not exported."""

    def __init__(self, sizes: Dimensions, n_kept: int, n_phones: int = 1) -> None:
        super().__init__()
        self.encoder = Encoder(sizes)
        self.decoder = Decoder(sizes, n_kept)
        self.ctc_phones = nn.Linear(sizes.d_model, n_phones + 1)
        self.ctc_tokens = nn.Linear(sizes.d_model, sizes.d_model)
        self.ctc_blank = nn.Linear(sizes.d_model, 1)

    def phone_log_probs(self, middle: Tensor) -> Tensor:
        """Returns `(batch, n, n_phones + 1)` log-probabilities; the last class is blank.

        Args:
            middle: `(batch, n, d_model)` residual stream after half of the encoder's layers.
        """
        logits: Tensor = self.ctc_phones(middle)
        return logits.float().log_softmax(-1)

    def token_log_probs(self, features: Tensor) -> Tensor:
        """Returns `(batch, n // 3, n_kept + 1)` log-probabilities; the last class is blank.

        The classes are the rows of the decoder's embedding: so audio features come to speak the
        decoder's language, and its cross-attention has little left to do but to look.
        Three positions are taken together, 0.06 s: with so many classes time is short.
        """
        features = functional.avg_pool1d(features.transpose(1, 2), 3).transpose(1, 2)
        rows = functional.linear(
            self.ctc_tokens(features), self.decoder.embed_tokens.weight
        )
        return (
            torch.cat([rows, self.ctc_blank(features)], dim=-1).float().log_softmax(-1)
        )
