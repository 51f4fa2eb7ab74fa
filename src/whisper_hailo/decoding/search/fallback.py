"""Temperature fallback: doubtful text is retried with a beam, then sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, Thresholds
from whisper_hailo.decoding.repetition import compression_ratio, cut_loop, repeats_prompt
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, Steps
from whisper_hailo.text.tokenizer import Tokenizer

_UNSURE: Final = -0.4
"""Mean log-probability below which a beam mostly finds better words (docs/accuracy.md)."""

_WHOLE: Final = 0.9
"""Share of the longest attempt's tokens that another one needs to compete."""

_HOPELESS: Final = 1.5
"""Times the threshold: text this unlikely after every attempt was made up."""


def decode_with_fallback(
    loop: DecodingLoop,
    decoder: AnyDecoder,
    tokenizer: Tokenizer,
    options: DecodingOptions,
    *,
    state: Any,  # noqa: ANN401 - the decoder's own state type
    tasks: Sequence[DecodingTask],
) -> Steps[tuple[Decoded, ...]]:
    """Decode windows until each passes the thresholds.

    Text that repeats its prompt is decoded again without one. Unsure greedy text is searched again
    with a beam; what is still doubtful is sampled at rising temperatures. Where every attempt
    fails, the likeliest text that does not repeat itself is taken. Live audio is decoded once, and
    a loop at its end is cut off.

    Source: OpenAI Whisper, `decode_with_fallback`, which takes the last temperature's text; taking
    the likeliest follows faster-whisper.
    """
    if tasks[0].is_running:
        return tuple(map(_without_loop, (yield from loop.steps(state, tasks))))
    tasks, sot = list(tasks), tokenizer.special.sot
    search, thresholds = options.search, options.thresholds
    stages: list[tuple[float, int | None]] = [(each, None) for each in search.temperatures]
    if search.widens:
        stages.insert(1, (search.temperatures[0], search.retry_beam_size))
    tries: list[list[Decoded]] = [[] for _ in tasks]
    doubtful = list(range(len(tasks)))
    for temperature, beam_size in stages:
        batches = [doubtful] if doubtful else []
        if beam_size is not None:  # one by one: hypotheses fill a batch by themselves
            batches = [
                [row]
                for row, (greedy,) in enumerate(tries)
                if greedy.is_unsure(thresholds, _UNSURE)
            ]
        for batch in batches:
            rows = np.array(batch, dtype=np.int64)
            part = state if len(batch) == len(tasks) else decoder.select(state, rows)
            steps = loop.steps(part, [tasks[row] for row in batch], temperature, beam_size)
            found = list((yield from steps))
            for index, row in enumerate(batch):
                if repeats_prompt(_words(found[index], tokenizer), tasks[row].shown(sot)):
                    tasks[row] = tasks[row].without_prompt(sot)
                    alone = decoder.select(state, np.array([row], dtype=np.int64))
                    again = loop.steps(alone, [tasks[row]], temperature, beam_size)
                    (found[index],) = yield from again
            for row, result in zip(batch, found, strict=True):
                text = tokenizer.decode(result.tokens).strip()
                tries[row].append(replace(result, compression_ratio=compression_ratio(text)))
        doubtful = [
            row
            for row in doubtful
            if all(attempt.is_doubtful(thresholds) for attempt in tries[row])
        ]
    return tuple(choose_attempt(attempts, thresholds) for attempts in tries)


def _without_loop(decoded: Decoded) -> Decoded:
    """Return the text of live audio with a phrase that loops at its end once."""
    drafted = decoded.drafted
    n_kept = cut_loop(decoded.tokens)
    if not decoded.runaway or drafted is None or n_kept == len(decoded.tokens):
        return decoded
    n_kept = max(n_kept, drafted.n_fixed)
    probabilities = drafted.probabilities[:n_kept]
    return replace(
        decoded,
        tokens=decoded.tokens[:n_kept],
        drafted=replace(drafted, probabilities=probabilities, guess=()),
    )


def _words(decoded: Decoded, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of a window without timestamps."""
    return [token for token in decoded.tokens if token < tokenizer.special.eot]


def choose_attempt(attempts: Sequence[Decoded], thresholds: Thresholds) -> Decoded:
    """Return the likeliest attempt that passed, or one that does not repeat itself.

    A text much shorter than another one left a clause out, which makes it likelier. Where every
    attempt ran into a loop, or none is anywhere near likely, the text is made up. A text that
    repeats itself and ends may be a menu or a song.
    """
    passed = [attempt for attempt in attempts if not attempt.is_doubtful(thresholds)]
    calm = [attempt for attempt in attempts if not attempt.repeats_itself(thresholds)]
    ended = [attempt for attempt in attempts if not attempt.runaway]
    among = passed or calm or ended or attempts
    longest = max(len(attempt.tokens) for attempt in among)
    whole = [attempt for attempt in among if len(attempt.tokens) >= _WHOLE * longest]
    chosen = max(whole, key=lambda attempt: attempt.avg_logprob)
    hopeless = thresholds.logprob is not None and (
        chosen.avg_logprob < _HOPELESS * thresholds.logprob
    )
    return replace(
        chosen,
        made_up=len(attempts) > 1 and not passed and (hopeless or not (calm or ended)),
    )
