"""A small model decodes a few tokens ahead of a large one, which then looks at all of them at once.

What the large one would have said itself is taken, and the first token that it would not have said
is its own: so the text is the large model's, whatever the small one says, and only time is won.

Costs are counted in passes of the large model over one token. A pass reads all of its weights,
however few tokens are fed, so a further token costs a fraction of one (`Costs.row`), and so does a
token of the small model (`Costs.step`), whose weights are a fraction of the large one's.

Source: Leviathan et al. 2023, `assistant_model` of Transformers.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import IntArray
from whisper_hailo.decoding.search.greedy import GreedyChoice

_LAST: Final = np.zeros(1, np.int64)
_LAST.setflags(write=False)

_USUALLY: Final = 4.0
"""Tokens for which an assistant is believed to know how sure it is, before there are any."""
_USUAL: Final = 0.8
"""What an assistant's token is believed to be right with until then."""
_TRIED: Final = 64
"""Tokens of a recording after which an assistant must have paid."""
_WORTH: Final = 1.1
"""Tokens for the cost of a pass of one that drafts must bring. Costs go by bytes; where a cache
holds one decoder and not two, they are up to a half higher: `docs/measurements/drafts.md`."""
_LONGEST: Final = 16

_ROWS: Final = {"none": 0.06, "int8": 0.27, "int4": 0.5}
"""What a further token of a pass costs, by the large model's weights: float ones are read from
memory, whole; to unpack few bits takes as long as to multiply. Measured:
`docs/measurements/drafts.md`."""
_ROWS_OF_ARM: Final = {"none": 0.19, "int8": 0.54, "int4": 0.76}
"""Of a Cortex-A76, whose kernels compute each row by itself: reckoned from instructions and the
Raspberry Pi 5's memory, `docs/measurements/processors.md`."""
_BITS: Final = {"none": 32, "int8": 12, "int4": 10}
"""What a weight costs a step, in bits of a float one: those of 8 and 4 bits are unpacked as well as
read, and in 4 bits some products keep 8."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What drafting costs, in passes of the large model over one token.

    Attributes:
        step: one token of the small model.
        row: one more token in a pass of the large one.
    """

    step: float
    row: float

    @classmethod
    def of(cls, model: ModelSpec, assistant: ModelSpec) -> Costs:
        """By what the weights of each cost a step, and this processor's kernels a row."""
        step = _step_bits(assistant) / _step_bits(model)
        rows = _ROWS_OF_ARM if platform.machine() == "aarch64" else _ROWS
        return cls(step, rows.get(model.quantization, rows["int4"]))

    def gain(self, right: float = _USUAL) -> float:
        """Tokens for the cost of a pass of one, with drafts of the best length.

        Args:
            right: probability of each drafted token, if all before it are right.
        """
        each = self.step + self.row
        lengths = range(_LONGEST + 1)
        return max(sum(right**n for n in range(k + 1)) / (1 + k * each) for k in lengths)

    @property
    def is_promising(self) -> bool:
        """Whether an assistant as good as most is worth its place."""
        return self.gain() >= _WORTH


def _step_bits(spec: ModelSpec) -> float:
    dims = spec.dims
    layer = 14 * dims.d_model**2  # four products of self-, two of cross-attention, eight of the MLP
    weights = dims.n_decoder_layers * layer + dims.n_vocab * dims.d_model
    return weights * _BITS.get(spec.quantization, _BITS["none"])


@dataclass(slots=True)
class DraftStats:
    """What an assistant has brought a recording, and so how far ahead it is to decode.

    Attributes:
        costs: of drafting.
        always: so many tokens are decoded ahead whatever comes of it; `None`: as many as pay.
        n_tokens: tokens of text that were found with it.
        n_passes: passes of the large model for them.
        n_fed: tokens that these looked at.
        n_steps: tokens that the assistant decoded for them.
        likely: sum of their probabilities, as the assistant has them.
        n_accepted: those that were looked at and right.
        expected: how many it had thought would be.
    """

    costs: Costs
    always: int | None = None
    n_tokens: int = 0
    n_passes: int = 0
    n_fed: int = 0
    n_steps: int = 0
    likely: float = 0.0
    n_accepted: int = 0
    expected: float = 0.0

    @property
    def trust(self) -> float:
        """How often it is right where it says that it is sure: 1 is as often as it says."""
        return min(1.0, (self.n_accepted + _USUALLY) / (self.expected + _USUALLY))

    def is_worth_a_row(self, sure: float) -> bool:
        """Whether a token is to be looked at.

        Args:
            sure: probability that it and all before it are right, as the assistant says.
        """
        return self.always is not None or sure * self.trust > self.costs.row * self.speed

    def is_worth_a_step(self, n_drafted: int, sure: float) -> bool:
        """Whether another token is to be decoded, which will be as likely as others were.

        Args:
            n_drafted: tokens that are drafted already.
            sure: probability that they are right, as the assistant says.
        """
        if self.always is not None:
            return n_drafted < self.always
        likely = (self.likely + _USUALLY * _USUAL) / (self.n_steps + _USUALLY)
        return sure * likely * self.trust > (self.costs.row + self.costs.step) * self.speed

    @property
    def speed(self) -> float:
        """Tokens for the cost of a pass of one token, so far; alone it is 1.

        What is drafted must bring more of them than the same time otherwise would: the best draft
        ends where the next token's gain for its cost falls to the mean of all.
        """
        return max(1.0, (self.n_tokens + _USUALLY) / (self.spent + _USUALLY))

    @property
    def spent(self) -> float:
        """Passes of one token that the text would have cost the same."""
        rows = self.n_fed - self.n_passes
        return self.n_passes + self.costs.row * rows + self.costs.step * self.n_steps

    @property
    def is_profitable(self) -> bool:
        """Whether the text took less than it would have taken alone, as far as can be told."""
        if self.always is not None:
            return True
        if self.n_tokens < _TRIED:
            return self.costs.is_promising
        return self.n_tokens > _WORTH * self.spent


@dataclass(frozen=True, slots=True)
class DraftState:
    """A small model that has heard a window.

    Attributes:
        decoder: open, of the same vocabulary.
        state: from its `start`, of one row; it stays usable.
        tally: of the recording.
    """

    decoder: AnyDecoder
    state: Any
    tally: DraftStats


class DraftDecoder:
    """Decodes ahead, and goes back to where the text went another way.

    Args:
        ahead: the small model.
        choose: takes a token by the rules of the text.
        prompt: forced ids, as the large model is fed them.
    """

    def __init__(self, ahead: DraftState, choose: GreedyChoice, prompt: Sequence[int]) -> None:
        self.tally = ahead.tally
        self._decoder = ahead.decoder
        self._state = ahead.state
        self._choose = choose
        self._prompt = list(prompt)
        self._fed: list[int] = []
        self._sure: list[float] = []

    def propose(self, tokens: Sequence[int], most: int) -> tuple[int, ...]:
        """What may come next.

        Args:
            tokens: behind the prompt, so far.
            most: so many at most.
        """
        draft: list[int] = []
        self._sure = []
        sure = 1.0
        waiting = self._catch_up([*self._prompt, *tokens])
        while len(draft) < most and self.tally.is_worth_a_step(len(draft), sure):
            token, probability = self._step(waiting, [*tokens, *draft])
            sure *= probability
            if token == self._choose.eot or not self.tally.is_worth_a_row(sure):
                break
            draft.append(token)
            self._sure.append(sure)
            waiting = [token]
        return tuple(draft)

    def observe(self, n_accepted: int, n_taken: int, n_fed: int) -> None:
        """Note what became of what was proposed last.

        Args:
            n_accepted: tokens of it that were right.
            n_taken: tokens that the pass gave.
            n_fed: tokens that the pass looked at.
        """
        tally = self.tally
        tally.n_passes += 1
        tally.n_fed += n_fed
        tally.n_tokens += n_taken
        tally.n_accepted += n_accepted
        tally.expected += sum(self._sure)

    def _catch_up(self, text: list[int]) -> list[int]:
        """Forget what was not said; returns what was said since, at least one token."""
        n_same = 0
        for own, said in zip(self._fed, text[:-1], strict=False):
            if own != said:
                break
            n_same += 1
        if n_same < len(self._fed):
            self._state = self._decoder.rewind(self._state, n_same)
            del self._fed[n_same:]
        return text[n_same:]

    def _step(self, waiting: list[int], generated: list[int]) -> tuple[int, float]:
        """The next token by the rules, and its probability."""
        fed: IntArray = np.array([waiting], dtype=np.int64)
        looks = _LAST if len(waiting) == 1 else np.array([len(waiting) - 1], dtype=np.int64)
        output, self._state = self._decoder.step(fed, self._state, looks)
        self._fed += waiting
        self.tally.n_steps += 1
        token, logprob = self._choose(output.logits[0, 0], float(output.logsumexp[0, 0]), generated)
        probability = math.exp(logprob)
        self.tally.likely += probability
        return token, probability
