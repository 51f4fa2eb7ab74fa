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
    """The position in a draft while tokens are taken; `n_mismatched` since it last held."""

    tokens: tuple[int, ...]
    at: int = 0
    n_mismatched: int = 0

    def observe(self, token: int) -> None:
        """Advance by the token that was taken."""
        # After a surprise, the token that it seemed to replace may still come: it was put before.
        begin = self.at - 1 if self.n_mismatched else self.at
        ahead = self.tokens[begin : self.at + 1 + _LOOK_AHEAD]
        if token in ahead:
            self.at = begin + ahead.index(token) + 1
            self.n_mismatched = 0
        else:
            self.at += 1 if self.n_mismatched == 0 else 0
            self.n_mismatched += 1

    def left(self) -> tuple[int, ...]:
        """Return the expected rest of the draft; nothing after two mismatches."""
        return self.tokens[self.at :] if self.n_mismatched < 2 else ()

    def proposal(self) -> tuple[int, ...]:
        """Return what to try next: all that is left, or little of it after a mismatch."""
        return self.left()[:_GUESS] if self.n_mismatched else self.left()


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

    def __init__(self, rules: LogitsRules, budget: int, draft: Draft, n_vocab: int) -> None:
        self._rules = rules
        self._eot = rules.eot
        self._budget = budget
        self._horizon = draft.horizon
        self._goes_on = draft.goes_on

        def is_usable(token: int) -> bool:
            return token != rules.eot and 0 <= token < n_vocab

        usable = takewhile(is_usable, draft.tokens[: max(0, budget - 1)])
        self._cursor = DraftCursor(tuple(map(int, usable)))
        self._tokens = list(self._cursor.tokens[: draft.n_fixed])
        self._cursor.at = self.n_fixed = len(self._tokens)
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
        return DecoderInput([0], np.array([fed], dtype=np.int64), keep=len(self._tokens) - 1)

    def finish(self) -> list[SearchResult]:
        chosen = self._logprobs[:-1] if self._done and not self._guess else self._logprobs
        n_fixed = len(self._tokens) - len(chosen)
        hypothesis = Hypothesis(tuple(self._tokens), sum(self._logprobs), self._done, n_fixed)
        drafted = Drafted(
            probabilities=(1.0,) * n_fixed + tuple(map(math.exp, chosen)),
            n_fixed=n_fixed,
            n_passes=self._n_passes,
            guess=self._guess,
        )
        return [SearchResult((hypothesis,), drafted)]

    def _propose(self) -> tuple[int, ...]:
        """Return what to verify after the last token."""
        self._expected = self._cursor.left()
        most = max(0, min(MAX_TOKENS_PER_PASS, self._budget - 1 - len(self._tokens)))
        return self._cursor.proposal()[:most]

    def _follow(self, output: StepOutput) -> None:
        """Take tokens while they match the draft, and one more."""
        expected, logits = self._expected, output.logits[0]
        # Lists, for the weights have just driven NumPy's functions out of the processor's cache.
        logsumexp = output.logsumexp[0].tolist()
        places: list[int] = []  # the encoder position that each row attends to most
        if self.aligns and output.alignment is not None:
            attention = output.alignment[0][:, -len(logits) :].sum(axis=0)
            places = attention.argmax(axis=1).tolist()
        for row, (own, total) in enumerate(zip(logits, logsumexp, strict=True)):
            wanted = expected[row] if row < len(expected) else None
            if self._goes_on and len(self._tokens) == self.n_fixed:
                own[self._eot] = -np.inf
            token, logprob = self._rules.choose(own, total, self._tokens)
            is_guess = self._horizon is not None and bool(places) and places[row] >= self._horizon
            if token != self._eot and is_guess:
                self._guess = expected[row:] if token == wanted else (token,)
                self._done = True
                return
            self._logprobs.append(logprob)
            if token == self._eot:
                self._done = True
                return
            self._tokens.append(token)
            self._cursor.observe(token)
            if token != wanted:
                return
