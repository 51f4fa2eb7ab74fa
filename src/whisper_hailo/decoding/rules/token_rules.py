"""Logits rules, one function each. All of them take and give `(n_vocab,)` float32 logits.

They change the array they are given and return it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from whisper_hailo.core.types import FloatArray, IntArray


def suppress(logits: FloatArray, ids: IntArray) -> FloatArray:
    """Make ids impossible.

    Args:
        logits: `(n_vocab,)` float32.
        ids: `(n,)` int64 ids to suppress.
    """
    logits[ids] = -np.inf
    return logits


def penalise_repetition(
    logits: FloatArray, generated: Collection[int], penalty: float
) -> FloatArray:
    """Make ids generated before less likely.

    A positive logit is divided by the penalty and any other multiplied by it, so that the id always
    becomes less likely (dividing a negative logit would do the opposite). Each id counts once,
    however often it was generated; forced ids and the prompt do not count.

    Args:
        logits: `(n_vocab,)` float32.
        generated: ids generated so far.
        penalty: p >= 1; 1 changes nothing.

    Source: CTRL (Keskar et al. 2019) with the sign rule of Transformers.
    """
    if penalty == 1.0:
        return logits
    ids = np.fromiter(generated, dtype=np.int64)
    picked = logits[ids]  # before any is changed: an id that comes again is set to the same
    logits[ids] = np.where(picked > 0, picked / penalty, picked * penalty)
    return logits


def choose(logits: FloatArray, eot: int, eot_boost: float) -> int:
    """Greedy choice with an early way out.

    When the best logit leads end-of-transcript by less than the boost, end-of-transcript is taken.

    Args:
        logits: `(n_vocab,)` float32, after all other rules.
        eot: id of end-of-transcript.
        eot_boost: threshold in logits; 0 is off.
    """
    best = int(logits.argmax())
    if eot_boost > 0.0 and logits[best] - logits[eot] < eot_boost:
        return eot
    return best


def end_lead(logits: FloatArray, eot: int, eot_boost: float) -> float:
    """How far end-of-transcript, with its boost, leads all others, in logits.

    Above 0 `choose` takes it.

    Args:
        logits: `(n_vocab,)` float32, after all other rules; they are left as they are.
        eot: id of end-of-transcript.
        eot_boost: as in `choose`.
    """
    end = logits[eot]
    logits[eot] = -np.inf
    best = logits.max()
    logits[eot] = end
    return float(end) + eot_boost - float(best)


def block_ngrams(logits: FloatArray, generated: Sequence[int], n: int) -> FloatArray:
    """Make ids impossible that would complete a run of `n` ids that was there before.

    Args:
        logits: `(n_vocab,)` float32.
        generated: ids generated so far, in order.
        n: length of the run; 0 is off, 1 lets no id come twice.

    Source: Paulus et al. 2017, as Transformers' `no_repeat_ngram_size`.
    """
    if n == 0:
        return logits
    begun = tuple(generated[len(generated) - n + 1 :])
    for end in range(n - 1, len(generated)):
        if tuple(generated[end - n + 1 : end]) == begun:
            logits[generated[end]] = -np.inf
    return logits
