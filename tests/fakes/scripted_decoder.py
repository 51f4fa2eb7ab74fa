"""A decoder that follows a script, and rows of logits for searches advanced by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fakes.model_sizes import TOY, TOY_TOKENS, toy_spec
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask

PREFIX = (11, 12, 14, 19)
EOT = TOY_TOKENS.eot
Odds = Mapping[int, float]
"""Probability of some ids; the rest have next to none."""
END = 5
"""End-of-transcript in searches that a test advances by hand."""


@dataclass(frozen=True)
class State:
    step: int
    rows: tuple[int, ...]


@dataclass
class ScriptedDecoder:
    """Gives row r's k-th token of the script the highest logit (4) at the k-th step."""

    scripts: list[list[int]]
    fed: list[list[list[int]]] = field(default_factory=list)
    base: float = 0.0
    spec = toy_spec()

    def start(self) -> State:
        return State(0, tuple(range(len(self.scripts))))

    def batch_size(self, state: State) -> int:
        return len(state.rows)

    def select(self, state: State, rows: np.ndarray) -> State:
        return State(state.step, tuple(state.rows[int(row)] for row in rows))

    def rewind(self, state: State, n_tokens: int) -> State:
        """Without a draft nothing is forgotten."""
        del n_tokens
        return state

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: object
    ) -> tuple[StepOutput, State]:
        self.fed.append(tokens.tolist())
        assert positions.max() < tokens.shape[1], "what is looked at is fed"
        logits = np.full(
            (len(state.rows), len(positions), TOY.n_vocab), self.base, np.float32
        )
        for row, of in enumerate(state.rows):
            script = self.scripts[of]
            logits[row, -1, script[min(state.step, len(script) - 1)]] = self.base + 4.0
        logsumexp = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits=logits, logsumexp=logsumexp), State(
            state.step + 1, state.rows
        )


def decode(
    decoder: ScriptedDecoder,
    options: DecodingOptions | None = None,
    tokens: SpecialTokens = TOY_TOKENS,
    prefix: tuple[int, ...] = PREFIX,
    temperature: float = 0.0,
) -> tuple[Decoded, ...]:
    loop = DecodingLoop(decoder, tokens, options or DecodingOptions())  # type: ignore[arg-type]
    tasks = [DecodingTask(prefix)] * len(decoder.scripts)
    return loop.run(decoder.start(), tasks, temperature)


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
