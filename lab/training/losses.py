"""What a step is to make small: the decoder's cross-entropy, and three aids of training."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

POSITION_S = 0.02
GUIDED_HEADS = ((0, 1), (1, 0))
"""Decoder layer and head, of those that learn to look where a word is said."""
EDGE_S = 0.06
"""A head may look this much beside a word."""


class Losses(NamedTuple):
    """Cross-entropy of the decoder's tokens; of CTC: phones, what is said; of where heads look."""

    tokens: Tensor
    phones: Tensor
    said: Tensor
    looking: Tensor


def ctc_loss(log_probs: Tensor, targets: list[list[int]]) -> Tensor:
    """Returns the CTC loss per target, given `(batch, n, n_classes)`; the last class is blank."""
    lengths = torch.tensor([len(line) for line in targets])
    flat = torch.tensor(
        [row for line in targets for row in line], device=log_probs.device
    )
    inputs = torch.full_like(lengths, log_probs.shape[1])
    blank = log_probs.shape[-1] - 1
    return functional.ctc_loss(
        log_probs.transpose(0, 1),
        flat,
        inputs,
        lengths,
        blank,
        reduction="sum",
        zero_infinity=True,
    ) / max(1, flat.numel())


def looking_loss(seen: list[Tensor], spans: Tensor) -> Tensor:
    """Returns how little the guided heads look where each target is heard, per target.

    Args:
        seen: cross-attention `(batch, heads, n_tokens, n_positions)` of each decoder layer.
        spans: `(batch, n_tokens, 2)` seconds, see `Batch`.
    """
    known = spans[..., 1] > spans[..., 0]
    times_s = (torch.arange(seen[0].shape[-1], device=spans.device) + 0.5) * POSITION_S
    inside = (times_s >= spans[..., :1] - EDGE_S) & (times_s <= spans[..., 1:] + EDGE_S)
    losses = [
        -(seen[min(layer, len(seen) - 1)][:, head].float() * inside)
        .sum(-1)[known]
        .clamp(min=1e-4)
        .log()
        for layer, head in GUIDED_HEADS
    ]
    return torch.stack(losses).sum() / max(1, int(known.sum()) * len(GUIDED_HEADS))


def resting_loss(seen: list[Tensor], heard: Tensor, ends: Tensor) -> Tensor:
    """Returns how little all heads look at zero rows where text ends, per end and head.

    Args:
        seen: as in `looking_loss`; what is missing to 1 went to the zero rows at the end.
        heard: `(batch, n_positions)` bool, which rows are not zeros themselves.
        ends: `(batch, n_tokens)` bool, where the target is the end of the text.
    """
    losses = [
        -(1 - (weights.float() * heard[:, None, None]).sum(-1))
        .transpose(1, 2)[ends]
        .clamp(min=1e-4)
        .log()
        for weights in seen
    ]
    return torch.stack(losses).mean()
