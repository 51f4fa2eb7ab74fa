"""Rows of logits for searches that a test advances by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.fakes.model_sizes import TOY
from tests.fakes.scripted_decoder import (
    ScriptedDecoder,
    State,
)
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.logits_rules import FilteredLogits

Odds = Mapping[int, float]
"""Probability of some ids; the rest have next to none."""


END = 5
"""End-of-transcript in searches that a test advances by hand."""


def logprobs(odds: Odds, n_vocab: int = 6) -> np.ndarray:
    row = np.full(n_vocab, -30.0, np.float32)
    for token, share in odds.items():
        row[token] = np.log(share)
    return row


def unruled(logits: np.ndarray, logsumexp: float) -> FilteredLogits:
    """Logits that no rule changed."""
    return FilteredLogits(logits, logsumexp, logits.copy())


class OddsTreeDecoder(ScriptedDecoder):
    """A decoder whose every named history of tokens has odds of its own."""

    odds: Mapping[tuple[int, ...], Odds]

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        histories = getattr(state, "rows", ())
        now = [
            () if state.step == 0 else (*before, int(token))
            for before, token in zip(histories, tokens[:, -1], strict=True)
        ]
        rows = [logprobs(self.odds[history], TOY.n_vocab) for history in now]
        logits = np.repeat(np.stack(rows)[:, np.newaxis], len(positions), axis=1)
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits, sums), State(state.step + 1, tuple(now))  # type: ignore[arg-type]

    def start(self) -> State:
        return State(0, ((),))  # type: ignore[arg-type]

    def select(self, state: State, rows: np.ndarray) -> State:
        return State(state.step, tuple(state.rows[int(row)] for row in rows))
