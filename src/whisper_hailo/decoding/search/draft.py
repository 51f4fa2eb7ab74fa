"""Verify a draft instead of decoding again: one pass for what still holds, then on from there.

A live caption decodes a growing buffer several times a second, and most of its text does not
change. So the text before is fed as a draft together with the prefix, all of its positions are
looked at in one pass, the greedy rules are applied to each exactly as the loop would, and the part
that they confirm is kept. Where they differ, the cache is rewound to the first difference, and what
is left of the draft is tried again behind it.

The tokens are those of decoding from scratch. One thing may differ: kernels that take many tokens
at once round differently from those that take one, as those for batches do, so that two logits
closer together than `near_tie` says may change places; how many choices were that close is counted.

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
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.rules.book import RuleBook
from whisper_hailo.decoding.rules.logits import choose, lead
from whisper_hailo.decoding.search.guide import Guide
from whisper_hailo.decoding.search.hypothesis import near_tie

_AT_ONCE: Final = 32
"""Tokens of a draft that are looked at in one pass: a hypothesis that ran away would take a row of
logits for each of its tokens, and the memory of the largest pass is not given back."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """The tokens of one buffer and what they cost.

    Attributes:
        decoded: tokens, mean log-probability and so on; ids that were taken for granted do not
            count in the mean.
        probabilities: of each token among those allowed at its step; 1 where taken for granted.
        passes: decoder passes.
        n_fed: tokens fed in all passes together.
        n_accepted: ids of the draft that were confirmed, those taken for granted not counted.
        near_ties: choices whose two best logits lay within `near_tie` of the decoder.
        guess: ids at which the text was held back; empty where it ends with end-of-transcript. They
            often come true, so the draft of the next buffer does well to end with them.
    """

    decoded: Decoded
    probabilities: tuple[float, ...]
    passes: int
    n_fed: int
    n_accepted: int
    near_ties: int
    guess: tuple[int, ...] = ()

    @property
    def held_back(self) -> bool:
        """The text ends where it became a guess."""
        return bool(self.guess)


@dataclass(frozen=True, slots=True)
class _Chosen:
    token: int
    logprob: float
    tied: bool


@dataclass(frozen=True, slots=True)
class _Look:
    """What one pass says of the positions that were looked at.

    Attributes:
        logits: `(K, n_vocab)` float32.
        logsumexp: of each row.
        guesses: of each row: the token chosen there is a guess at what is still to be said.
    """

    logits: FloatArray
    logsumexp: Sequence[float]
    guesses: Sequence[bool]


class DraftLoop:
    """Greedy decoding of one window that starts from a draft.

    Args:
        decoder: an open decoder.
        special: its control token ids.
        options: what the caller asked for.
        window_s: length of the encoder's window; `None` is the full context.
    """

    def __init__(
        self,
        decoder: AnyDecoder,
        special: SpecialTokens,
        options: DecodingOptions,
        window_s: float | None = None,
    ) -> None:
        self._decoder = decoder
        self._special = special
        self._options = options
        self._near_tie = near_tie(decoder.spec.quantization)
        self._rules = RuleBook(special, decoder.spec.dims, options, window_s)

    def run(
        self,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        prefix: Sequence[int],
        draft: Sequence[int] = (),
        n_fixed: int = 0,
        *,
        content_s: float | None = None,
        horizon: int | None = None,
    ) -> Drafted:
        """Decode the first row of a started state.

        Args:
            state: from `Decoder.start`, of one row, with an empty self-attention cache.
            prefix: forced ids, ending where the model takes over.
            draft: ids that the text may begin with; anything from end-of-transcript on, and ids
                that the model does not have, are left out.
            n_fixed: so many of the draft's ids are taken for granted (text that was shown as
                settled), and only what follows is decoded.
            content_s: seconds of audio in the window, for the limit of tokens per second.
            horizon: the text ends before the first token at whose choice the decoder looks at this
                encoder position or a later one; `None` for a text that is complete, and for
                decoders that do not tell where they look.

        Raises:
            ModelError: the decoder's weights are not finite.
        """
        budget = self._options.budget(self._decoder.spec.dims, len(prefix), content_s)
        guide = Guide(tuple(self._usable(draft, budget - 1)))
        work = _Work(list(guide.tokens[:n_fixed]), guide)
        guide.at = len(work.tokens)
        start = len(prefix)  # tokens in the cache before the first one of the text
        draft = guide.left()
        fed = [*prefix, *work.tokens, *draft[:_AT_ONCE]]
        looks = [prefix.index(self._special.sot), *range(start + guide.at - 1, len(fed))]
        look, state = self._step(work, fed, state, looks, horizon)
        no_speech = self._no_speech_prob(look)
        # Settled text is no silence; without any, row 1 is the prompt's end.
        ends = guide.at == 0 and int(look.logits[1].argmax()) == self._special.eot
        self._follow(work, look, 1, draft, budget)
        while not work.done and len(work.tokens) < budget:
            state = self._decoder.rewind(state, start + len(work.tokens) - 1)
            draft = guide.left()
            most = min(_AT_ONCE, budget - 1 - len(work.tokens))
            fed = [work.tokens[-1], *guide.proposal()[:most]]
            look, state = self._step(work, fed, state, range(len(fed)), horizon)
            self._follow(work, look, 0, draft, budget)
        return work.result(no_speech, ends)

    def _usable(self, draft: Sequence[int], most: int) -> Iterator[int]:
        """The draft's ids up to its end, an unknown id, or the budget."""
        for token in draft[: max(0, most)]:
            if token == self._special.eot or not 0 <= token < self._decoder.spec.dims.n_vocab:
                return
            yield int(token)

    def _step(
        self,
        work: _Work,
        fed: Sequence[int],
        state: Any,  # noqa: ANN401 - the decoder's own state type
        looks: Sequence[int],
        horizon: int | None,
    ) -> tuple[_Look, Any]:
        tokens, positions = np.array([fed], dtype=np.int64), np.array(looks, dtype=np.int64)
        output, state = self._decoder.step(tokens, state, positions, alignment=horizon is not None)
        # Lists, for the weights have just driven NumPy's functions out of the processor's cache.
        logsumexp = output.logsumexp[0].tolist()
        if not all(map(math.isfinite, logsumexp)):
            raise ModelError(
                "the decoder gives values that are no numbers; the checkpoint's weights are broken"
            )
        work.passes += 1
        work.n_fed += len(fed)
        guesses = [False] * len(logsumexp)
        if horizon is not None and output.alignment is not None:
            weights = output.alignment[0][:, positions].sum(axis=0)
            guesses = [place >= horizon for place in weights.argmax(axis=-1).tolist()]
        return _Look(output.logits[0], logsumexp, guesses), state

    def _follow(
        self, work: _Work, look: _Look, first: int, draft: Sequence[int], budget: int
    ) -> None:
        """Take tokens from one pass for as long as they are the draft's, and one more.

        Args:
            work: the buffer.
            look: at the draft's beginning; how much of it was fed, the number of rows tells.
            first: the row that gives the draft's first token.
            draft: all that is left of it, so that no more is lost than was not confirmed.
            budget: most tokens of the buffer.
        """
        for index, row in enumerate(range(first, len(look.logits))):
            expected = draft[index] if index < len(draft) else None
            chosen = self._choose(look.logits[row], look.logsumexp[row], work.tokens)
            if look.guesses[row] and chosen.token != self._special.eot:
                work.hold_back(draft[index:] if chosen.token == expected else (chosen.token,))
                return
            work.take(chosen, self._special.eot)
            work.n_accepted += chosen.token == expected
            if work.done or len(work.tokens) >= budget:
                return
            work.guide.see(chosen.token)
            if chosen.token != expected:
                return

    def _choose(self, raw: FloatArray, logsumexp: float, generated: Sequence[int]) -> _Chosen:
        """One step of the greedy loop, and whether its choice was a close one; uses the row up."""
        eot, boost = self._special.eot, self._options.cures.eot_boost
        ruled, raw = self._rules.apply_in_place(raw, logsumexp, generated)
        token = choose(ruled.logits, eot, boost)
        logprob = float(raw[token]) - ruled.logsumexp
        margin = lead(ruled.logits, token, eot, boost)
        return _Chosen(token, logprob, tied=margin < self._near_tie)

    def _no_speech_prob(self, look: _Look) -> float:
        """Probability of the no-speech id at start-of-transcript."""
        if self._special.no_speech is None:
            return 0.0
        logit = look.logits[0, self._special.no_speech]
        return float(np.exp(logit - np.float32(look.logsumexp[0])))  # to the bit as in the loop


@dataclass(slots=True)
class _Work:
    """One buffer on its way."""

    tokens: list[int]
    guide: Guide
    logprobs: list[float] = field(default_factory=list)
    done: bool = False
    guess: tuple[int, ...] = ()
    passes: int = 0
    n_fed: int = 0
    n_accepted: int = 0
    near_ties: int = 0

    def take(self, chosen: _Chosen, eot: int) -> None:
        """Note a choice."""
        self.logprobs.append(chosen.logprob)
        self.near_ties += chosen.tied
        self.done = chosen.token == eot
        if not self.done:
            self.tokens.append(chosen.token)

    def hold_back(self, guess: Sequence[int]) -> None:
        """End before ids that are no more than a guess."""
        self.guess, self.done = tuple(guess), True

    def result(self, no_speech_prob: float, ends_at_once: bool) -> Drafted:
        """What became of it."""
        ended = self.done and not self.guess
        chosen = self.logprobs[:-1] if ended else self.logprobs
        n_fixed = len(self.tokens) - len(chosen)
        return Drafted(
            decoded=Decoded(
                tokens=tuple(self.tokens),
                avg_logprob=sum(self.logprobs) / (len(chosen) + 1),
                no_speech_prob=no_speech_prob,
                runaway=not self.done,
                ends_at_once=ends_at_once,
            ),
            probabilities=(1.0,) * n_fixed + tuple(map(math.exp, chosen)),
            passes=self.passes,
            n_fed=self.n_fed,
            n_accepted=self.n_accepted,
            near_ties=self.near_ties,
            guess=self.guess,
        )
