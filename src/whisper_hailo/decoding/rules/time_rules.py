"""Rules of timestamp tokens, one function each, on `(n_vocab,)` float32 logits, changed in place.

Timestamps are the last ids of the vocabulary. They come in pairs: one ends a segment, the next
begins the following one; only the first and the last of a window stand alone.

Source: OpenAI Whisper, `ApplyTimestampRules`; the bound by the window's length is ours, for
windows shorter than the 30 s that the model was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whisper_hailo.core.types import FloatArray


def begin_with_timestamp(
    logits: FloatArray, generated: Sequence[int], begin: int, latest: int | None
) -> FloatArray:
    """The first id is a timestamp, and not a late one.

    Args:
        logits: changed.
        generated: ids generated so far.
        begin: id of `<|0.00|>`.
        latest: steps after `begin` of the last one allowed first; `None` is any.
    """
    if not generated:
        logits[:begin] = -np.inf
        if latest is not None:
            logits[begin + latest + 1 :] = -np.inf
    return logits


def keep_pairs(logits: FloatArray, generated: Sequence[int], begin: int, eot: int) -> FloatArray:
    """After a pair comes text; after a single one its partner, or the end.

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
    """Time never goes back, and no segment is empty.

    The second half of a pair may repeat the first; an end lies after its start. Behind a time no
    other comes than that half: see `keep_pairs`.
    """
    last = next((token for token in reversed(generated) if token >= begin), None)
    if last is not None:
        logits[begin : last if generated[-1] >= begin else last + 1] = -np.inf
    return logits


def stay_inside(logits: FloatArray, begin: int, last: int) -> FloatArray:
    """No timestamp lies more than `last` steps after `begin`: the window's end."""
    logits[begin + last + 1 :] = -np.inf
    return logits


def prefer_timestamps(logits: FloatArray, begin: int) -> FloatArray:
    """When all timestamps together are likelier than any single text id, one of them is taken."""
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
