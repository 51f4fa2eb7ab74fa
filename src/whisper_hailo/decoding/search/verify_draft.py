"""Verify a draft instead of decoding again: one pass for what still holds, then on from there.

A live caption decodes a growing buffer several times a second, and most of its text does not
change. So the text before is fed as a draft together with the prompt, all of its positions are
looked at in one pass, the greedy rules are applied to each exactly as for one token at a time, and
the part that they confirm is kept. Where they differ, the cache is rewound to the first difference,
and what is left of the draft is tried again behind it.

The tokens are those of decoding from scratch. One thing may differ: kernels that take many tokens
at once round differently from those that take one, as those for batches do, so that two logits
that lie within rounding of each other may change places.

The text of audio that goes on may be held back where it is no more than a guess: when the decoder
chooses a token it looks at the place in the audio where that is said, and a model that has heard
half a sentence looks at the very end while it makes the rest up. What was held back is told, too:
when more audio shows that it was right, the word takes no pass of its own.

Source: greedy speculative decoding (Leviathan et al. 2023; Stern et al. 2018, blockwise parallel
decoding) with the previous hypothesis in place of a draft model; holding back as AlignAtt does
(Papi et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Drafted
from whisper_hailo.decoding.search.draft_decoder import DraftDecoder
from whisper_hailo.decoding.search.greedy import GreedyChoice
from whisper_hailo.decoding.search.hypothesis import DecoderInput, Hypothesis, SearchResult

_LOOK_AHEAD: Final = 6
"""How many dropped tokens of a draft are bridged."""

_GUESS: Final = 8
"""Tokens tried behind a difference before anything shows that the draft holds again."""


@dataclass(slots=True)
class DraftCursor:
    """Where in a draft the decoding is.

    Attributes:
        tokens: the draft.
        at: where in it the next token is expected.
        n_mismatched: tokens taken since the draft last held.
    """

    tokens: tuple[int, ...]
    at: int = 0
    n_mismatched: int = 0

    def observe(self, token: int) -> None:
        """Note the token that was taken."""
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
        """What of the draft is still expected: nothing after two surprises."""
        return self.tokens[self.at :] if self.n_mismatched < 2 else ()

    def proposal(self) -> tuple[int, ...]:
        """What to try next: all that is left, little of it after a surprise."""
        return self.left() if self.n_mismatched == 0 else self.left()[:_GUESS]


_AT_ONCE: Final = 32
"""Tokens of a draft that are looked at in one pass: a hypothesis that ran away would take a row of
logits for each of its tokens, and the memory of the largest pass is not given back."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a text is expected to begin with.

    Attributes:
        tokens: of the hypothesis before; anything from end-of-transcript on, and ids that the model
            does not have, are left out.
        n_fixed: so many of them are settled (text that was shown as such): they are taken for
            granted, and only what follows is decoded.
        horizon: the text ends before the first token at whose choice the decoder looks at this
            encoder position or a later one; `None` for a text that is complete, and for decoders
            that do not tell where they look.
        goes_on: something is said behind the settled tokens: end-of-transcript cannot come there.
    """

    tokens: tuple[int, ...] = ()
    n_fixed: int = 0
    horizon: int | None = None
    goes_on: bool = False


class DraftSearch:
    """Greedy decoding of one window that starts from a draft.

    Args:
        choice: takes one token.
        budget: most tokens of the window.
        draft: what the text may begin with.
        n_vocab: ids that the model has.
        assistant: says what may come where the draft does not.
    """

    def __init__(
        self,
        choice: GreedyChoice,
        budget: int,
        draft: Draft,
        n_vocab: int,
        assistant: DraftDecoder | None = None,
    ) -> None:
        self._assistant = assistant
        self._choose = choice
        self._eot = choice.eot
        self._budget = budget
        self._horizon = draft.horizon
        self._goes_on = draft.goes_on
        self._cursor = DraftCursor(tuple(self._usable(draft.tokens[: max(0, budget - 1)], n_vocab)))
        self._tokens = list(self._cursor.tokens[: draft.n_fixed])
        self._cursor.at = self.n_fixed = len(self._tokens)
        self._expected: tuple[int, ...] = ()
        self.opening = (*self._tokens, *self._propose(self._cursor.left()))
        self._logprobs: list[float] = []
        self._guess: tuple[int, ...] = ()
        self._done = False
        self._n_fed = len(self.opening)
        self._n_passes = self._n_accepted = 0

    @property
    def aligns(self) -> bool:
        """Where the decoder looks decides what is held back."""
        return self._horizon is not None

    def advance(self, output: StepOutput) -> DecoderInput | None:
        """Take what one pass confirms of the draft, and one token more; see `Search`."""
        self._n_passes += 1
        before, accepted = len(self._tokens), self._n_accepted
        self._follow(output)
        if self._asked is not None:
            n_taken = len(self._tokens) - before + self._done
            self._asked.observe(self._n_accepted - accepted, n_taken, output.logits.shape[1])
        if self._done or len(self._tokens) >= self._budget:
            return None
        fed = [self._tokens[-1], *self._propose(self._cursor.proposal())]
        self._n_fed += len(fed)
        return DecoderInput([0], np.array([fed], dtype=np.int64), keep=len(self._tokens) - 1)

    def finish(self) -> list[SearchResult]:
        """The one hypothesis, and what the draft saved."""
        ended = self._done and not self._guess
        chosen = self._logprobs[:-1] if ended else self._logprobs
        n_fixed = len(self._tokens) - len(chosen)
        hypothesis = Hypothesis(tuple(self._tokens), sum(self._logprobs), self._done, n_fixed)
        drafted = Drafted(
            probabilities=(1.0,) * n_fixed + tuple(map(math.exp, chosen)),
            n_fixed=n_fixed,
            n_passes=self._n_passes,
            n_fed=self._n_fed,
            n_accepted=self._n_accepted,
            guess=self._guess,
        )
        return [SearchResult((hypothesis,), drafted)]

    def _propose(self, guided: tuple[int, ...]) -> tuple[int, ...]:
        """What is looked at next behind the last token, and expected there."""
        most = max(0, min(_AT_ONCE, self._budget - 1 - len(self._tokens)))
        self._expected = self._cursor.left()
        self._asked = None if guided else self._assistant
        if self._asked is None:
            return guided[:most]
        self._expected = self._asked.propose(self._tokens, most)
        return self._expected

    def _usable(self, tokens: Sequence[int], n_vocab: int) -> Iterator[int]:
        """The draft's ids up to its end or to an unknown id."""
        for token in tokens:
            if token == self._eot or not 0 <= token < n_vocab:
                return
            yield int(token)

    def _follow(self, output: StepOutput) -> None:
        """Take tokens for as long as they are the draft's, and one more."""
        expected, logits = self._expected, output.logits[0]
        # Lists, for the weights have just driven NumPy's functions out of the processor's cache.
        logsumexp, guesses = output.logsumexp[0].tolist(), self._guesses(output)
        for row, (own, total) in enumerate(zip(logits, logsumexp, strict=True)):
            wanted = expected[row] if row < len(expected) else None
            if self._goes_on and len(self._tokens) == self.n_fixed:
                own[self._eot] = -np.inf
            token, logprob = self._choose(own, total, self._tokens)
            if guesses[row] and token != self._eot:
                self._guess = expected[row:] if token == wanted else (token,)
                self._done = True
                return
            self._logprobs.append(logprob)
            self._n_accepted += token == wanted
            if token == self._eot:
                self._done = True
                return
            self._tokens.append(token)
            self._cursor.observe(token)
            if token != wanted:
                return

    def _guesses(self, output: StepOutput) -> Sequence[bool]:
        """Of each row: the token chosen there is a guess at what is still to be said."""
        n_rows = output.logits.shape[1]
        if self._horizon is None or output.alignment is None:
            return [False] * n_rows
        places = output.alignment[0][:, -n_rows:].sum(axis=0).argmax(axis=1)
        return [place >= self._horizon for place in places.tolist()]
