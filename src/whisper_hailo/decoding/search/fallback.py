"""Decoding with a schedule of temperatures: doubtful text is tried again, hotter each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.option_groups import Thresholds
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.text import compression_ratio
from whisper_hailo.text.tokenizer import Tokenizer


def decode_with_fallback(
    loop: DecodingLoop,
    decoder: AnyDecoder,
    tokenizer: Tokenizer,
    options: DecodingOptions,
    *,
    state: Any,  # noqa: ANN401 - the decoder's own state type
    tasks: Sequence[DecodingTask],
) -> tuple[Decoded, ...]:
    """Decode windows at rising temperatures until each passes the thresholds.

    Only the windows that failed are tried again. Where every temperature fails, the likeliest text
    that does not repeat itself is taken. Audio that goes on is decoded once.

    Args:
        loop: of this decoder and these options.
        decoder: an open decoder.
        tokenizer: of the model, for the compression ratio.
        options: temperatures and thresholds.
        state: from `Decoder.start`, one row per task.
        tasks: the windows.

    Source: OpenAI Whisper, `decode_with_fallback`, which takes the last temperature's text; that
    the likeliest is taken is faster-whisper's.
    """
    if tasks[0].is_running:
        return loop.run(state, tasks)
    tries: list[list[Decoded]] = [[] for _ in tasks]
    pending = list(range(len(tasks)))
    for temperature in options.search.temperatures:
        rows = np.array(pending, dtype=np.int64)
        part = state if len(pending) == len(tasks) else decoder.select(state, rows)
        decoded = loop.run(part, [tasks[row] for row in pending], temperature)
        for row, result in zip(pending, decoded, strict=True):
            text = tokenizer.decode(result.tokens).strip()
            tries[row].append(replace(result, compression_ratio=compression_ratio(text)))
        pending = [row for row in pending if tries[row][-1].is_doubtful(options.thresholds)]
        if not pending:
            break
    return tuple(_choose(attempts, options.thresholds) for attempts in tries)


def _choose(attempts: Sequence[Decoded], thresholds: Thresholds) -> Decoded:
    """Return the attempt that passed, or the likeliest of those that failed."""
    chosen = attempts[-1]
    if chosen.is_doubtful(thresholds):
        calm = [one for one in attempts if not one.repeats_itself(thresholds)]
        chosen = max(calm or attempts, key=lambda one: one.avg_logprob)
    return replace(chosen, near_ties=sum(attempt.near_ties for attempt in attempts))
