"""Logits rules: which tokens may come next, and what probability is left to the allowed ones.

Each rule is one function on `(n_vocab,)` float32 logits, which it changes in place and returns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions, SpecialTokens
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import Tokenizer

START_BONUS: Final = 1.0
CONTINUE_BONUS: Final = 2.0
"""In logits; measured in docs/decoding.md."""

MAX_PHRASES: Final = 2000


class HotwordTrie:
    """Hotword phrases as a trie of token ids, which get a bonus where they match.

    Unlike a prompt with a list of names, it leaves audio alone in which none is said
    (docs/decoding.md). Greedy decoding cannot take a bonus back, so starting a phrase earns little.

    Source: contextual biasing by shallow fusion with a prefix tree (Zhao et al. 2019).
    """

    def __init__(self, phrases: Iterable[Sequence[int]]) -> None:
        self._root: dict[int, Any] = {}
        self._longest = 0
        for phrase in phrases:
            node = self._root
            for token in phrase:
                node = node.setdefault(token, {})
            self._longest = max(self._longest, len(phrase))
        self._starts = np.array(sorted(self._root), dtype=np.int64)

    def add_bonus(self, logits: FloatArray, generated: Sequence[int]) -> FloatArray:
        """Add a bonus to tokens that start or continue a phrase; `logits` are changed."""
        following: set[int] = set()
        for length in range(1, min(self._longest, len(generated) + 1)):
            node = self._root
            for token in generated[-length:]:
                node = node.get(token, {})
            following.update(node)
        starts, continuing = self._starts, list(following)
        if continuing:
            starts = np.setdiff1d(starts, continuing, assume_unique=True)
            logits[continuing] += np.float32(CONTINUE_BONUS)
        logits[starts] += np.float32(START_BONUS)
        return logits


def build_hotword_trie(text: str, tokenizer: Tokenizer) -> HotwordTrie:
    """Return the trie of phrases (see `split_hotwords`), each as given and capitalised."""
    phrases = split_hotwords(text)
    if len(phrases) > MAX_PHRASES:
        raise OptionError(
            f"--hotwords has {len(phrases)} phrases, at most {MAX_PHRASES} are taken; shorten it"
        )
    spellings = dict.fromkeys(
        spelling for phrase in phrases for spelling in (phrase, phrase[:1].upper() + phrase[1:])
    )
    return HotwordTrie([tokenizer.encode_plain("--hotwords", each) for each in spellings])


def split_hotwords(text: str) -> list[str]:
    """Split a list at commas, semicolons and line ends; a list without any, at spaces."""
    phrases = [phrase.strip() for phrase in re.split(r"[,;\n]", text)]
    return [phrase for phrase in phrases if phrase] if len(phrases) > 1 else text.split()


def begin_with_timestamp(
    logits: FloatArray, generated: Sequence[int], begin: int, latest: int | None
) -> FloatArray:
    """Require a timestamp as the first id, not later than `latest` steps after `begin`."""
    if not generated:
        logits[:begin] = -np.inf
        if latest is not None:
            logits[begin + latest + 1 :] = -np.inf
    return logits


def keep_pairs(logits: FloatArray, generated: Sequence[int], begin: int, eot: int) -> FloatArray:
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
    if last is not None:
        logits[begin : last if generated[-1] >= begin else last + 1] = -np.inf
    return logits


def prefer_timestamps(logits: FloatArray, begin: int) -> FloatArray:
    """Require a timestamp when all of them together are likelier than any text id."""
    times, text = logits[begin:], logits[:begin]
    best_time, best_text = times.max(), text.max()
    # A sum of n terms is at most n times its largest: mostly that settles it without a sum, and
    # always where no time is possible.
    if best_time + np.log(times.size) <= best_text:
        return logits
    together = best_time + np.log(np.exp(times - best_time).sum())
    if together > best_text:
        text[:] = -np.inf
    return logits


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
    picked = logits[ids]  # before any is changed: an id that comes again is set to the same
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
    begun = tuple(generated[len(generated) - n + 1 :])
    for end in range(n - 1, len(generated)):
        if tuple(generated[end - n + 1 : end]) == begun:
            logits[generated[end]] = -np.inf
    return logits


_LARGEST_PART = 0.9


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

    Timestamps are the last ids of the vocabulary. They come in pairs: one ends a segment, the next
    starts the following one; only the first and the last of a window are single.

    Source: OpenAI Whisper's `ApplyTimestampRules`, `SuppressTokens` and `SuppressBlank`; the bound
    by the window's length is ours, for windows shorter than the 30 s that it was trained on.
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
        self.eot = special.eot
        self._eot_boost = options.anti_repetition.eot_boost
        self._penalty = options.anti_repetition.repetition_penalty
        self._ngram = options.limits.no_repeat_ngram
        listed = special.suppress if options.limits.suppress is None else options.limits.suppress
        # Each once, for their parts are summed; no transcript has these control tokens.
        tasks = (special.transcribe, special.translate, special.no_timestamps)
        starts = (special.sot, special.sot_lm, special.sot_prev, special.no_speech)
        never = sorted({*listed, *(token for token in (*starts, *tasks) if token is not None)})
        blank = special.begin_suppress if options.limits.suppress_blank else ()
        self._never = np.array(never, dtype=np.int64)
        self._never_first = np.array(list(dict.fromkeys((*never, *blank))), np.int64)
        self._begin = special.timestamp_begin if options.timestamps else None
        latest_s = options.max_initial_timestamp_s
        self._latest = None if latest_s is None else round(latest_s / SECONDS_PER_TIMESTAMP)
        seconds = dims.max_window_s if window_s is None else window_s
        self._last = round(seconds / SECONDS_PER_TIMESTAMP)

    def apply(self, raw: FloatArray, logsumexp: float, generated: Sequence[int]) -> FilteredLogits:
        """Apply all rules to a copy of one row `(n_vocab,)` float32, whose log-sum-exp is given."""
        never = self._never if generated else self._never_first
        logits = raw.copy()
        logits[never] = -np.inf
        if self._ngram or self._begin is not None:
            logits = block_ngrams(logits, generated, self._ngram)
            if (begin := self._begin) is not None:
                logits[begin + self._last + 1 :] = -np.inf  # behind the window's end
                logits = keep_pairs(logits, generated, begin, self.eot)
                logits = keep_order(logits, generated, begin)
                logits = begin_with_timestamp(logits, generated, begin, self._latest)
                logits = prefer_timestamps(logits, begin)
            never = np.flatnonzero(np.isneginf(logits))
        allowed = allowed_logsumexp(logits, raw[never], logsumexp)
        logits = penalise_repetition(logits, generated, self._penalty)
        if self._hotwords is not None:
            logits = self._hotwords.add_bonus(logits, generated)
        return FilteredLogits(logits, allowed, raw)

    def apply_in_place(
        self, logits: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> FilteredLogits:
        """Apply all rules to one row in place, unless a rule needs a copy.

        The decoder's weights have just evicted NumPy's functions from the processor's cache, so
        this calls as few as possible.
        """
        if self._ngram or self._begin is not None or self._hotwords is not None:
            return self.apply(logits, logsumexp, generated)
        never = self._never if generated else self._never_first
        masked = logits[never]
        logits[never] = -np.inf
        allowed = allowed_logsumexp(logits, masked, logsumexp)
        raw = logits if self._penalty == 1.0 else logits.copy()
        return FilteredLogits(penalise_repetition(logits, generated, self._penalty), allowed, raw)

    def choose(
        self, raw: FloatArray, logsumexp: float, generated: Sequence[int]
    ) -> tuple[int, float]:
        """Return the best id by the rules and its log-probability; `raw` may be changed."""
        ruled = self.apply_in_place(raw, logsumexp, generated)
        token = choose_token(ruled.logits, self.eot, self._eot_boost)
        return token, ruled.logprob(token)


def allowed_logsumexp(logits: FloatArray, masked: FloatArray, logsumexp: float) -> float:
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
