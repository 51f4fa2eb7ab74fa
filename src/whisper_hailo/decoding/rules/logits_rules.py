"""Which rules hold at a step, in which order, and what probability is left to the allowed ids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whisper_hailo.core.spec import Dimensions, SpecialTokens
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, FloatArray
from whisper_hailo.decoding.options import Cures, DecodingOptions
from whisper_hailo.decoding.rules.hotwords import HotwordTrie
from whisper_hailo.decoding.rules.time_rules import (
    begin_with_timestamp,
    keep_order,
    keep_pairs,
    prefer_timestamps,
    stay_inside,
)
from whisper_hailo.decoding.rules.token_rules import (
    block_ngrams,
    penalise_repetition,
    suppress,
)

_LARGEST_PART = 0.9


@dataclass(frozen=True, slots=True)
class FilteredLogits:
    """One row of logits after all rules.

    Attributes:
        logits: `(n_vocab,)` float32, -inf where an id is not allowed.
        logsumexp: over the allowed ids, before the repetition penalty, so that
            `raw[t] - logsumexp` is the model's log-probability of t among what it may say.
    """

    logits: FloatArray
    logsumexp: float


class LogitsRules:
    """The rules of a model and its options, applied to one row of logits.

    Args:
        special: control token ids.
        dims: the model's sizes.
        options: what the caller asked for.
        window_s: length of the encoder's window.
        hotwords: phrases to expect.
    """

    def __init__(
        self,
        special: SpecialTokens,
        dims: Dimensions,
        options: DecodingOptions,
        window_s: float | None = None,
        hotwords: HotwordTrie | None = None,
    ) -> None:
        self._hotwords = hotwords
        self._eot = special.eot
        self._cures: Cures = options.cures
        self._ngram = options.limits.no_repeat_ngram
        listed = special.suppress if options.limits.suppress is None else options.limits.suppress
        self._never = np.array(never_sampled(special, listed), dtype=np.int64)
        blank = special.begin_suppress if options.limits.suppress_blank else ()
        first = dict.fromkeys((*self._never.tolist(), *blank))  # each once: their parts are summed
        self._never_first = np.array(list(first), np.int64)
        self._begin = special.timestamp_begin if options.timestamps else None
        latest_s = options.max_initial_timestamp_s
        self._latest = None if latest_s is None else round(latest_s / SECONDS_PER_TIMESTAMP)
        seconds = dims.max_window_s if window_s is None else window_s
        self._last = round(seconds / SECONDS_PER_TIMESTAMP)

    def apply(self, raw: FloatArray, logsumexp: float, generated: Sequence[int]) -> FilteredLogits:
        """Apply all rules to a copy of one row.

        Args:
            raw: `(n_vocab,)` float32, the model's own logits.
            logsumexp: of this row.
            generated: ids generated so far in this window.
        """
        never = self._never if generated else self._never_first
        logits = suppress(raw.copy(), never)
        if self._ngram or self._begin is not None:
            logits = block_ngrams(logits, generated, self._ngram)
            if self._begin is not None:
                logits = self._time_rules(logits, generated, self._begin)
            never = np.flatnonzero(np.isneginf(logits))
        allowed = allowed_logsumexp(logits, raw[never], logsumexp)
        logits = penalise_repetition(logits, generated, self._cures.repetition_penalty)
        if self._hotwords is not None:
            logits = self._hotwords.add_bonus(logits, generated)
        return FilteredLogits(logits, allowed)

    def apply_in_place(
        self, logits: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> tuple[FilteredLogits, FloatArray]:
        """Apply all rules to one row in place, unless other rules need a copy.

        Between two steps the decoder's weights have been read through the processor's cache, and
        what is called then is fetched from memory again: so little is called.

        Args:
            logits: `(n_vocab,)` float32, the model's own; changed.
            logsumexp: of this row.
            generated: ids generated so far in this window.

        Returns:
            the row after the rules, and the model's own logits of the ids that are allowed: the
            same array, unless it was copied.
        """
        if self._ngram or self._begin is not None or self._hotwords is not None:
            return self.apply(logits, logsumexp, generated), logits
        never = self._never if generated else self._never_first
        masked = logits[never]
        logits[never] = -np.inf
        allowed = allowed_logsumexp(logits, masked, logsumexp)
        penalty = self._cures.repetition_penalty
        if penalty == 1.0:
            return FilteredLogits(logits, allowed), logits
        return FilteredLogits(
            penalise_repetition(logits.copy(), generated, penalty), allowed
        ), logits

    def _time_rules(self, logits: FloatArray, generated: Sequence[int], begin: int) -> FloatArray:
        logits = stay_inside(logits, begin, self._last)
        logits = keep_pairs(logits, generated, begin, self._eot)
        logits = keep_order(logits, generated, begin)
        logits = begin_with_timestamp(logits, generated, begin, self._latest)
        return prefer_timestamps(logits, begin)


def allowed_logsumexp(logits: FloatArray, masked: FloatArray, logsumexp: float) -> float:
    """Log-sum-exp of the ids that are not masked.

    Few ids are masked at most steps: taking their part off the known sum needs no pass of
    exponentials over the vocabulary. Where they hold nearly all, little accuracy would be left.

    Args:
        logits: `(n_vocab,)` float32, -inf where an id is masked.
        masked: `(n,)` float32, what the masked ids had, each once.
        logsumexp: of all logits.
    """
    if masked.size < logits.size // 8:
        part = sum([math.exp(value - logsumexp) for value in masked.tolist()])
        if part < _LARGEST_PART:
            return logsumexp + math.log1p(-part)
    allowed = logits[logits > -np.inf].astype(np.float64)
    if not allowed.size:
        return logsumexp
    largest = allowed.max()
    return float(largest + np.log(np.exp(allowed - largest).sum()))


def never_sampled(special: SpecialTokens, listed: tuple[int, ...]) -> tuple[int, ...]:
    """The suppress list and the control tokens that are never part of a transcript."""
    control = (
        special.sot,
        special.sot_lm,
        special.sot_prev,
        special.no_speech,
        special.transcribe,
        special.translate,
        special.no_timestamps,
    )
    return tuple(sorted({*listed, *(i for i in control if i is not None)}))
