"""Draft verification: one pass for the part that still holds, then decoding from there.

A live caption decodes a growing buffer several times a second; most of its text does not change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Drafted
from whisper_hailo.decoding.logits_rules import LogitsRules
from whisper_hailo.decoding.search.hypothesis import (
    DecoderInput,
    Hypothesis,
    Search,
    SearchResult,
)

_LOOK_AHEAD: Final = 6
"""Most dropped tokens of a draft that are bridged."""

_GUESS: Final = 8
"""Tokens tried after a difference, before the draft is known to hold again."""


@dataclass(slots=True)
class DraftCursor:
    """The position in a draft while tokens are taken.

    Attributes:
        position: index of the expected token.
        n_mismatched: tokens taken since the draft last held.
    """

    tokens: tuple[int, ...]
    position: int = 0
    n_mismatched: int = 0

    def observe(self, token: int) -> None:
        """Advance by the token that was taken."""
        begin = self.position
        if self.n_mismatched:
            # After a surprise, the token that it seemed to replace may still come: it was put
            # before.
            begin -= 1
        ahead = self.tokens[begin : self.position + 1 + _LOOK_AHEAD]
        if token in ahead:
            self.position = begin + ahead.index(token) + 1
            self.n_mismatched = 0
            return
        if self.n_mismatched == 0:
            self.position += (
                1  # at first a surprise seems to replace the expected token
            )
        self.n_mismatched += 1

    def rest(self) -> tuple[int, ...]:
        """Return the expected rest of the draft; nothing after two mismatches."""
        return self.tokens[self.position :] if self.n_mismatched < 2 else ()

    def proposal(self) -> tuple[int, ...]:
        """Return what to try next: all of the rest, or little of it after a mismatch."""
        return self.rest()[:_GUESS] if self.n_mismatched else self.rest()


MAX_TOKENS_PER_PASS: Final = 32
"""Tokens of a draft per pass: a runaway hypothesis would take a row of logits for each of its
tokens, and the memory of the largest pass is not given back."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The expected start of a text.

    Attributes:
        tokens: of the previous hypothesis, up to end-of-transcript or an id that the model lacks.
        n_fixed: settled tokens (text that was shown as final), which are not decoded again.
        horizon: the text ends before the first token for which the decoder attends to this encoder
            position or a later one; `None` for complete text, and for decoders without alignment.
        goes_on: speech follows the settled tokens: end-of-transcript may not come there.
    """

    tokens: tuple[int, ...] = ()
    n_fixed: int = 0
    horizon: int | None = None
    goes_on: bool = False


class DraftSearch(Search):
    """Greedy decoding of one window that starts from a draft, such as the previous hypothesis.

    The draft is fed with the prompt, the greedy rules are applied to all of its positions in one
    pass, and the matching part is kept. At the first difference the cache is rewound, and the rest
    of the draft is tried again after it. The tokens are those of decoding from scratch, except
    where two logits lie within the rounding of kernels for many tokens.

    The text of live audio may be held back where it is a guess: a model that has heard half a
    sentence attends to the very end of the audio while it makes up the rest. What was held back is
    returned too, so that it takes no pass of its own when more audio confirms it.

    Source: greedy speculative decoding (Leviathan et al. 2023; Stern et al. 2018); holding back as
    AlignAtt does (Papi et al. 2023).
    """

    def __init__(
        self, rules: LogitsRules, budget: int, draft: Draft, n_vocab: int
    ) -> None:
        self._rules = rules
        self._eot = rules.eot
        self._budget = budget
        self._horizon = draft.horizon
        self._goes_on = draft.goes_on

        def is_usable(token: int) -> bool:
            return token != rules.eot and 0 <= token < n_vocab

        # One token less than the budget: the pass that verifies a draft gives one more.
        usable = takewhile(is_usable, draft.tokens[: max(0, budget - 1)])
        drafted = tuple(int(token) for token in usable)
        self._tokens = list(drafted[: draft.n_fixed])
        self.n_fixed = len(self._tokens)
        self._cursor = DraftCursor(drafted, position=self.n_fixed)
        self._expected: tuple[int, ...] = ()
        self.opening = (*self._tokens, *self._propose())
        self._logprobs: list[float] = []
        self._guess: tuple[int, ...] = ()
        self._done = False
        self._n_passes = 0
        self.aligns = draft.horizon is not None

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Take what one pass confirms of the draft, and one token more; see `Search`."""
        self._n_passes += 1
        self._follow(output)
        if self._done or len(self._tokens) >= self._budget:
            return None
        fed = [self._tokens[-1], *self._propose()]
        return DecoderInput(
            rows=[0],
            tokens=np.array([fed], dtype=np.int64),
            keep=len(self._tokens) - 1,
        )

    def finish(self) -> list[SearchResult]:
        """Return the one hypothesis, with what became of the draft."""
        chosen = self._logprobs
        if self._done and not self._guess:
            chosen = chosen[:-1]  # the last one is that of end-of-transcript
        n_fixed = len(self._tokens) - len(chosen)
        hypothesis = Hypothesis(
            tokens=tuple(self._tokens),
            sum_logprob=sum(self._logprobs),
            done=self._done,
            n_fixed=n_fixed,
        )
        probabilities = [1.0] * n_fixed
        probabilities += [math.exp(logprob) for logprob in chosen]
        drafted = Drafted(
            probabilities=tuple(probabilities),
            n_fixed=n_fixed,
            n_passes=self._n_passes,
            guess=self._guess,
        )
        return [SearchResult((hypothesis,), drafted)]

    def _propose(self) -> tuple[int, ...]:
        """Return what to verify after the last token."""
        self._expected = self._cursor.rest()
        n_left = self._budget - 1 - len(self._tokens)
        n_most = max(0, min(MAX_TOKENS_PER_PASS, n_left))
        return self._cursor.proposal()[:n_most]

    def _follow(self, output: StepOutput) -> None:
        """Take tokens while they match the draft, and one more."""
        expected = self._expected
        logits = output.logits[0]
        # Lists, for the weights have just driven NumPy's functions out of the processor's cache.
        logsumexps = output.logsumexp[0].tolist()
        positions = self._attended_positions(output, len(logits))
        for row, (row_logits, logsumexp) in enumerate(
            zip(logits, logsumexps, strict=True)
        ):
            expected_token = expected[row] if row < len(expected) else None
            if self._goes_on and len(self._tokens) == self.n_fixed:
                row_logits[self._eot] = -np.inf
            token, logprob = self._rules.choose(row_logits, logsumexp, self._tokens)
            if token != self._eot and self._is_guess(positions, row):
                self._guess = expected[row:] if token == expected_token else (token,)
                self._done = True
                return
            self._logprobs.append(logprob)
            if token == self._eot:
                self._done = True
                return
            self._tokens.append(token)
            self._cursor.observe(token)
            if token != expected_token:
                return

    def _attended_positions(self, output: StepOutput, n_rows: int) -> list[int]:
        """Return the encoder position that each of the last rows attends to most, if known."""
        if not self.aligns or output.alignment is None:
            return []
        attention = output.alignment[0][:, -n_rows:].sum(axis=0)
        positions: list[int] = attention.argmax(axis=1).tolist()
        return positions

    def _is_guess(self, positions: list[int], row: int) -> bool:
        """Return whether a row attends to audio that is held back."""
        return (
            self._horizon is not None
            and bool(positions)
            and positions[row] >= self._horizon
        )
