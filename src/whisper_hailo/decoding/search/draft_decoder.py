"""Speculative decoding: a draft model decodes a few tokens ahead, which the main model verifies.

Source: Leviathan et al. 2023, `assistant_model` of Transformers.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import IntArray
from whisper_hailo.decoding.search.greedy import GreedyChoice

LAST: Final = np.zeros(1, np.int64)
"""Position of a one-token step; constant, so that the decoder binds it once."""
LAST.setflags(write=False)

_USUAL: Final = 0.8
"""Probability that a drafted token is right."""
_FIRST: Final = 4.0
"""Tokens and passes that a recording is believed to begin with."""
_TRIED: Final = 64
"""Tokens of a recording after which a draft model must have been profitable."""
_WORTH: Final = 1.1
"""Least speed-up. Costs go by bytes; where a cache holds one decoder and not two, they are up to a
half higher: `docs/measurements/drafts.md`."""
_LONGEST: Final = 16

_ROWS: Final = {"none": 0.06, "int8": 0.27, "int4": 0.5}
"""Cost of a further token of a pass, by the main model's weights: float ones are read from memory,
whole; unpacking few bits takes as long as multiplying. Measured: `docs/measurements/drafts.md`."""
_ROWS_OF_ARM: Final = {"none": 0.19, "int8": 0.54, "int4": 0.76}
"""For a Cortex-A76, whose kernels compute each row by itself: estimated from instructions and the
Raspberry Pi 5's memory, `docs/measurements/processors.md`."""
_BITS: Final = {"none": 32, "int8": 12, "int4": 10}
"""Cost of a weight in a step, in bits of a float one: those of 8 and 4 bits are unpacked as well as
read, and in 4 bits some products keep 8."""


def draft_cost(model: ModelSpec, assistant: ModelSpec) -> float:
    """Estimate a drafted token's cost from the weights of both and this processor's kernels.

    It is counted in one-token passes of the main model: a step of the draft model, whose weights
    are smaller, and a further token of a pass, which reads all weights anyway.
    """
    rows = _ROWS_OF_ARM if platform.machine() == "aarch64" else _ROWS
    step = _step_bits(assistant) / _step_bits(model)
    return step + rows.get(model.quantization, rows["int4"])


def draft_speed(cost: float, right: float = _USUAL) -> float:
    """Return the speed-up with drafts of the best length, each token right with `right`."""
    lengths = range(_LONGEST + 1)
    return max(sum(right**n for n in range(k + 1)) / (1 + k * cost) for k in lengths)


def is_promising(cost: float) -> bool:
    """Return whether a usual draft model of this cost would pay."""
    return draft_speed(cost) >= _WORTH


def _step_bits(spec: ModelSpec) -> float:
    dims = spec.dims
    layer = 14 * dims.d_model**2  # four products of self-, two of cross-attention, eight of the MLP
    weights = dims.n_decoder_layers * layer + dims.n_vocab * dims.d_model
    return weights * _BITS.get(spec.quantization, _BITS["none"])


@dataclass(slots=True)
class DraftStats:
    """What a draft model has saved in a recording, which decides how far ahead it decodes.

    Attributes:
        cost: of a drafted token.
        always: fixed number of drafted tokens; `None`: as many as pay.
        n_tokens: tokens of text found with it.
        n_passes: passes of the main model for them.
        n_steps: tokens that the draft model decoded.
        n_accepted: those that were right.
    """

    cost: float
    always: int | None = None
    n_tokens: int = 0
    n_passes: int = 0
    n_steps: int = 0
    n_accepted: int = 0

    def is_worth_a_step(self, n_drafted: int, sure: float) -> bool:
        """Return whether to draft another token behind some that are all right with `sure`.

        The best draft ends where the next token's gain for its cost falls to the mean so far.
        """
        if self.always is not None:
            return n_drafted < self.always
        return sure * _USUAL > self.cost * self.speed

    @property
    def speed(self) -> float:
        """Tokens per one-token pass so far, at least 1."""
        return max(1.0, (self.n_tokens + _FIRST) / (self.spent + _FIRST))

    @property
    def spent(self) -> float:
        """Cost of the text so far, in one-token passes."""
        return self.n_passes + self.cost * self.n_steps

    @property
    def is_profitable(self) -> bool:
        """Return whether the text cost less than without drafts, as far as known."""
        if self.always is not None:
            return True
        if self.n_tokens < _TRIED:
            return is_promising(self.cost)
        return self.n_tokens > _WORTH * self.spent


@dataclass(frozen=True, slots=True)
class DraftState:
    """A draft model, and its one-row state after encoding a window; it stays usable."""

    decoder: AnyDecoder
    state: Any
    tally: DraftStats


class DraftDecoder:
    """Drafts tokens, and rewinds to where the text differed."""

    def __init__(self, ahead: DraftState, choose: GreedyChoice, prompt: Sequence[int]) -> None:
        self.tally = ahead.tally
        self._decoder = ahead.decoder
        self._state = ahead.state
        self._choose = choose
        self._prompt = list(prompt)
        self._fed: list[int] = []

    def propose(self, tokens: Sequence[int], most: int) -> tuple[int, ...]:
        """Draft up to `most` tokens that may follow `tokens`."""
        draft: list[int] = []
        sure = 1.0
        waiting = self._catch_up([*self._prompt, *tokens])
        while len(draft) < most and self.tally.is_worth_a_step(len(draft), sure):
            token, probability = self._step(waiting, [*tokens, *draft])
            if token == self._choose.eot:
                break
            sure *= probability
            draft.append(token)
            waiting = [token]
        return tuple(draft)

    def observe(self, n_accepted: int, n_taken: int) -> None:
        """Count the last proposal's right tokens, and those that its pass gave."""
        self.tally.n_passes += 1
        self.tally.n_tokens += n_taken
        self.tally.n_accepted += n_accepted

    def _catch_up(self, text: list[int]) -> list[int]:
        """Rewind to where `text` differs; return the rest of it, at least one token."""
        pairs = zip(self._fed, text[:-1], strict=False)
        n_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if n_same < len(self._fed):
            self._state = self._decoder.rewind(self._state, n_same)
            del self._fed[n_same:]
        return text[n_same:]

    def _step(self, waiting: list[int], generated: list[int]) -> tuple[int, float]:
        """Return the next token by the rules, and its probability."""
        fed: IntArray = np.array([waiting], dtype=np.int64)
        looks = LAST if len(waiting) == 1 else np.array([len(waiting) - 1], dtype=np.int64)
        output, self._state = self._decoder.step(fed, self._state, looks)
        self._fed += waiting
        self.tally.n_steps += 1
        token, logprob = self._choose(output.logits[0, 0], float(output.logsumexp[0, 0]), generated)
        return token, math.exp(logprob)
