"""Logits rules: which tokens may come next, and what probability is left to the allowed ones.

Each rule is one function on `(n_vocab,)` float32 logits, which it changes in place and returns. It
comes into force in one of the two lists that `LogitsRules` builds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.core.spec import Dimensions, SpecialTokens
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, FloatArray
from whisper_hailo.decoding.hotwords import HotwordTrie
from whisper_hailo.decoding.options import DecodingOptions, TokenLimits

Rule: TypeAlias = Callable[[FloatArray, Sequence[int]], FloatArray]
"""A rule as it is applied: to logits `(n_vocab,)`, after the ids generated so far."""


def begin_with_timestamp(
    logits: FloatArray, generated: Sequence[int], begin: int, latest: int | None
) -> FloatArray:
    """Require a timestamp as the first id, not later than `latest` steps after `begin`."""
    if not generated:
        logits[:begin] = -np.inf
        if latest is not None:
            logits[begin + latest + 1 :] = -np.inf
    return logits


def keep_pairs(
    logits: FloatArray, generated: Sequence[int], begin: int, eot: int
) -> FloatArray:
    """Require text after a pair; after a single timestamp its partner or the end.

    The first timestamp of a window counts as the second half of a pair.
    """
    if not generated or generated[-1] < begin:
        return logits
    if len(generated) < 2 or generated[-2] >= begin:
        logits[begin:] = -np.inf
    else:
        logits[:eot] = -np.inf
    return logits


def keep_order(logits: FloatArray, generated: Sequence[int], begin: int) -> FloatArray:
    """Forbid times that go back, and empty segments.

    The second half of a pair may repeat the first; an end is later than its start.
    """
    last = next((token for token in reversed(generated) if token >= begin), None)
    if last is None:
        return logits
    earliest = last if generated[-1] >= begin else last + 1
    logits[begin:earliest] = -np.inf
    return logits


def prefer_timestamps(logits: FloatArray, begin: int) -> FloatArray:
    """Require a timestamp when all of them together are likelier than any text id."""
    text = logits[:begin]
    times = logits[begin:]
    best_text = text.max()
    best_time = times.max()
    # A sum of n terms is at most n times its largest: mostly that settles it without a sum, and
    # always where no time is possible.
    if best_time + np.log(times.size) <= best_text:
        return logits
    together = best_time + np.log(np.exp(times - best_time).sum())
    if together > best_text:
        text[:] = -np.inf
    return logits


@dataclass(frozen=True, slots=True)
class TimestampRules:
    """The rules of timestamps, applied in order.

    Timestamps are the last ids of the vocabulary. They come in pairs: one ends a segment, the next
    starts the following one; only the first and the last of a window are single.

    Attributes:
        begin: id of the first timestamp, `<|0.00|>`.
        eot: id of end-of-transcript.
        latest: steps from `begin` that the first one may be late; `None` for any.
        last: steps from `begin` to the end of the window.

    Source: OpenAI Whisper's `ApplyTimestampRules`; the bound by the window's length is ours, for
    windows shorter than the 30 s that it was trained on.
    """

    begin: int
    eot: int
    latest: int | None
    last: int

    def apply(self, logits: FloatArray, generated: Sequence[int]) -> FloatArray:
        """Apply all of them to one row."""
        logits[self.begin + self.last + 1 :] = -np.inf
        logits = keep_pairs(logits, generated, self.begin, self.eot)
        logits = keep_order(logits, generated, self.begin)
        logits = begin_with_timestamp(logits, generated, self.begin, self.latest)
        # Last: only times and texts that are still possible are compared.
        return prefer_timestamps(logits, self.begin)


def penalise_repetition(
    logits: FloatArray, generated: Collection[int], penalty: float
) -> FloatArray:
    """Make ids generated before less likely; forced ids and the prompt do not count.

    A positive logit is divided by the penalty and any other multiplied by it.

    Source: CTRL (Keskar et al. 2019) with the sign rule of Transformers.
    """
    if penalty == 1.0:
        return logits
    ids = np.fromiter(generated, dtype=np.int64)
    # Before any is changed: an id that comes again is set to the same.
    picked = logits[ids]
    logits[ids] = np.where(picked > 0, picked / penalty, picked * penalty)
    return logits


def choose_token(logits: FloatArray, eot: int, eot_boost: float) -> int:
    """Return the best id, or end-of-transcript if the best leads it by less than the boost."""
    best = int(logits.argmax())
    if eot_boost > 0.0 and logits[best] - logits[eot] < eot_boost:
        return eot
    return best


def end_lead(logits: FloatArray, eot: int, eot_boost: float) -> float:
    """Return by how many logits end-of-transcript with its boost leads all other ids."""
    end = logits[eot]
    logits[eot] = -np.inf
    best = logits.max()
    logits[eot] = end
    return float(end) + eot_boost - float(best)


def block_ngrams(logits: FloatArray, generated: Sequence[int], n: int) -> FloatArray:
    """Make ids impossible that would repeat a run of `n` ids; 0 is off, 1 forbids any repeated id.

    Source: Paulus et al. 2017, as Transformers' `no_repeat_ngram_size`.
    """
    if n == 0:
        return logits
    opening = tuple(generated[len(generated) - n + 1 :])
    for end in range(n - 1, len(generated)):
        if tuple(generated[end - n + 1 : end]) == opening:
            logits[generated[end]] = -np.inf
    return logits


_LARGEST_PART: Final = 0.9
"""Of the sum, up to which the masked part is subtracted: beyond it, rounding would show."""


@dataclass(frozen=True, slots=True)
class FilteredLogits:
    """One row of logits `(n_vocab,)` after all rules, -inf where an id is not allowed.

    Attributes:
        logsumexp: over the allowed ids, before the repetition penalty.
        raw: the model's own logits, at least those of the allowed ids.
    """

    logits: FloatArray
    logsumexp: float
    raw: FloatArray

    def logprob(self, token: int) -> float:
        """Return the model's log-probability of an id among the allowed ones."""
        return float(self.raw[token]) - self.logsumexp


class LogitsRules:
    """Applies the rules of a model and its options, in order, to one row of logits.

    Source: OpenAI Whisper's `ApplyTimestampRules`, `SuppressTokens` and `SuppressBlank`.
    """

    def __init__(
        self,
        special: SpecialTokens,
        dims: Dimensions,
        options: DecodingOptions,
        window_s: float | None = None,
        hotwords: HotwordTrie | None = None,
    ) -> None:
        limits = options.limits
        self.eot = special.eot
        self._eot_boost = options.anti_repetition.eot_boost
        never = _suppressed(special, limits)
        blank = special.begin_suppress if limits.suppress_blank else ()
        # Each id once, in both: their parts of the sum are added up.
        self._never = np.array(never, dtype=np.int64)
        self._never_first = np.array(
            list(dict.fromkeys((*never, *blank))), dtype=np.int64
        )
        self._forbidding: list[Rule] = []
        """Rules that forbid ids: which ones is known only when they were applied."""
        if limits.no_repeat_ngram:
            self._forbidding.append(partial(block_ngrams, n=limits.no_repeat_ngram))
        if options.timestamps and special.timestamp_begin is not None:
            latest_s = options.max_initial_timestamp_s
            end_s = dims.max_window_s if window_s is None else window_s
            timestamps = TimestampRules(
                special.timestamp_begin,
                special.eot,
                latest=None
                if latest_s is None
                else round(latest_s / SECONDS_PER_TIMESTAMP),
                last=round(end_s / SECONDS_PER_TIMESTAMP),
            )
            self._forbidding.append(timestamps.apply)
        self._weighting: list[Rule] = []
        """Rules that change how likely an id is chosen, but not its probability."""
        penalty = options.anti_repetition.repetition_penalty
        if penalty != 1.0:
            self._weighting.append(partial(penalise_repetition, penalty=penalty))
        if hotwords is not None:
            self._weighting.append(hotwords.add_bonus)

    def apply(
        self, raw: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> FilteredLogits:
        """Apply all rules to a copy of one row `(n_vocab,)` float32, whose log-sum-exp is given."""
        never = self._never if generated else self._never_first
        logits = raw.copy()
        logits[never] = -np.inf
        for rule in self._forbidding:
            logits = rule(logits, generated)
        if self._forbidding:
            never = np.flatnonzero(np.isneginf(logits))
        allowed = allowed_logsumexp(logits, raw[never], logsumexp)
        for rule in self._weighting:
            logits = rule(logits, generated)
        return FilteredLogits(logits, allowed, raw)

    def apply_in_place(
        self, logits: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> FilteredLogits:
        """Apply all rules to one row in place, unless a rule needs a copy.

        The decoder's weights have just evicted NumPy's functions from the processor's cache, so
        this calls as few as possible.
        """
        if self._forbidding:  # the logits of what they forbid are needed, too
            return self.apply(logits, logsumexp, generated)
        never = self._never if generated else self._never_first
        masked = logits[never]
        logits[never] = -np.inf
        allowed = allowed_logsumexp(logits, masked, logsumexp)
        raw = logits.copy() if self._weighting else logits
        for rule in self._weighting:
            logits = rule(logits, generated)
        return FilteredLogits(logits, allowed, raw)

    def choose(
        self, raw: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> tuple[int, float]:
        """Return the best id by the rules and its log-probability; `raw` may be changed."""
        ruled = self.apply_in_place(raw, logsumexp, generated)
        token = choose_token(ruled.logits, self.eot, self._eot_boost)
        return token, ruled.logprob(token)


def _suppressed(special: SpecialTokens, limits: TokenLimits) -> list[int]:
    """Return the ids that no text may hold, in order: those listed, and control tokens."""
    listed = special.suppress if limits.suppress is None else limits.suppress
    control = (
        special.sot,
        special.sot_lm,
        special.sot_prev,
        special.no_speech,
        special.transcribe,
        special.translate,
        special.no_timestamps,
    )
    return sorted({*listed, *(token for token in control if token is not None)})


def allowed_logsumexp(
    logits: FloatArray, masked: FloatArray, logsumexp: float
) -> float:
    """Return the log-sum-exp of `(n_vocab,)` logits without those `masked`, each of them once.

    Few ids are masked at most steps: subtracting them from the known sum needs no exponentials of
    the whole vocabulary. Where they hold nearly all of the sum, that would be inaccurate.
    """
    if masked.size < logits.size // 8:
        part = float(np.exp(masked.astype(np.float64) - logsumexp).sum())
        if part < _LARGEST_PART:
            return logsumexp + math.log1p(-part)
    allowed = logits[logits > -np.inf].astype(np.float64)
    if not allowed.size:
        return logsumexp
    largest = allowed.max()
    return float(largest + np.log(np.exp(allowed - largest).sum()))
