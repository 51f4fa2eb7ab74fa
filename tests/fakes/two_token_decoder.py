"""A decoder that hesitates between two tokens, and windows that are retried for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fakes.model_sizes import TOY, TOY_TOKENS
from tests.fakes.scripted_decoder import (
    EOT,
    PREFIX,
    ScriptedDecoder,
    State,
)
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions, Thresholds
from whisper_hailo.decoding.search.fallback import decode_with_fallback
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, run_steps
from whisper_hailo.text.tokenizer import Tokenizer


class Letters:
    """Id 0 is `a`, and so on, behind a blank as of Whisper's texts."""

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return " " + "".join(chr(97 + token) for token in ids)


TOKENIZER = Tokenizer(Letters(), TOY_TOKENS)  # type: ignore[arg-type]


@dataclass
class TwoTokenDecoder(ScriptedDecoder):
    """Each row says three tokens of its own, hesitating between two of them, then ends.

    Attributes:
        shares: of each row, the probability of the likelier one.
        no_speech: of each row, the probability of no speech.
        heard: windows whose audio each pass is about.
    """

    shares: Sequence[float] = ()
    no_speech: Mapping[int, float] = field(default_factory=dict)
    heard: list[set[int]] = field(default_factory=list)

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        self.fed.append(tokens.tolist())
        self.heard.append(set(state.rows))
        odds = np.full((len(state.rows), len(positions), TOY.n_vocab), 1e-9)
        for row, of in enumerate(state.rows):
            if state.step == 3:
                odds[row, -1, EOT] = 1.0
            else:
                odds[row, -1, 2 * of] = self.shares[of]
                odds[row, -1, 2 * of + 1] = 1 - self.shares[of]
            if state.step == 0:  # at start-of-transcript, where all else is id 1
                silent = self.no_speech.get(of, 1e-9)
                odds[row, 0, [TOY_TOKENS.no_speech, 1]] = silent, 1 - silent
        logits = np.log(odds).astype(np.float32)
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits, sums), State(state.step + 1, state.rows)


def tried(
    decoder: TwoTokenDecoder,
    temperatures: tuple[float, ...] = (0.0, 0.4, 0.8),
    thresholds: Thresholds | None = None,
    retry_beam_size: int = 1,
) -> tuple[Decoded, ...]:
    """Windows decoded until their mean log-probability is above -0.3."""
    search = SearchOptions(temperatures, retry_beam_size=retry_beam_size, best_of=2)
    options = DecodingOptions(
        search=search,
        thresholds=thresholds or Thresholds(logprob=-0.3),
        max_new_tokens=6,
    )
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(PREFIX, key=row) for row in range(len(decoder.shares))]
    attempts = run_steps(decode_with_fallback(loop, TOKENIZER, decoder.start(), tasks))
    return tuple(attempt.decoded for attempt in attempts)


def two_token_decoder(*shares: float, **named: Any) -> TwoTokenDecoder:
    return TwoTokenDecoder([[0]] * len(shares), shares=shares, **named)
