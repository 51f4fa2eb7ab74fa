"""Fallback: which windows are decoded again, how, and which attempt is taken.

Greedy text that is unsure is decoded in the window's own language, where that is another one, and
searched again with a beam (`beam_retry`); text that is still doubtful (`attempt_checks`) is sampled
at rising temperatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from whisper_hailo.core.protocols import DecoderState
from whisper_hailo.decoding.decoded import (
    Decoded,
    compression_ratio,
    cut_loop,
    repeats_prompt,
)
from whisper_hailo.decoding.options import SearchOptions, Thresholds
from whisper_hailo.decoding.search.attempt_checks import (
    is_doubtful,
    repeats_itself,
    seems_silent,
)
from whisper_hailo.decoding.search.beam_retry import is_beam_retry_enabled, is_unsure
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, Steps
from whisper_hailo.text.tokenizer import Tokenizer

_COMPARABLE_LENGTH: Final = 0.9
"""Share of the longest attempt's tokens that another one needs to compete."""

_HOPELESS: Final = 1.5
"""Times the threshold: text this unlikely after every attempt was made up."""

_LEAST_CALM: Final = 24
"""Tokens before a loop that are a text of their own: a few syllables are made up like the loop."""


@dataclass(frozen=True, slots=True)
class FallbackStage:
    """One round of attempts.

    Attributes:
        temperature: 0 searches, above 0 samples.
        beam_size: `None` is that of the options.
        is_beam_retry: decodes windows with unsure text, one by one; else all whose every attempt so
            far is doubtful, as one batch.
    """

    temperature: float
    beam_size: int | None = None
    is_beam_retry: bool = False


def plan_stages(search: SearchOptions) -> list[FallbackStage]:
    """Return the stages in order: the first temperature, a beam where enabled, hotter ones."""
    first, *hotter = search.temperatures
    stages = [FallbackStage(first)]
    if is_beam_retry_enabled(search):
        stages.append(FallbackStage(first, search.retry_beam_size, is_beam_retry=True))
    stages.extend(FallbackStage(temperature) for temperature in hotter)
    return stages


def describe_search(search: SearchOptions) -> str:
    """Return a search's name for results: `greedy`, `beam 5` and so on, with the retries."""
    first, *hotter = search.temperatures
    if first > 0:
        name = f"best of {search.best_of} at {first:g}"
    elif search.beam_size > 1:
        name = f"beam {search.beam_size}"
    else:
        name = "greedy"
    if is_beam_retry_enabled(search):
        name += f", beam {search.retry_beam_size} where unsure"
    if hotter:
        name += f", then {', '.join(f'{temperature:g}' for temperature in hotter)}"
    return name


def needs_speech(decoded: Decoded, thresholds: Thresholds) -> bool:
    """Return whether a text is only worth more attempts if anybody speaks.

    Sounds without speech get unlikely texts and loops, and every attempt costs more than the first.
    """
    if is_doubtful(decoded, thresholds):
        return True
    return seems_silent(decoded, thresholds) and is_unsure(decoded, thresholds)


class DecodedTask(NamedTuple):
    """The attempt that is taken, and what was decoded for it."""

    decoded: Decoded
    task: DecodingTask


FindOwnTasks: TypeAlias = Callable[[Sequence[int]], Mapping[int, DecodingTask]]
"""Returns, of windows by their rows, the tasks of those that are likely in another language."""

HearsSpeech: TypeAlias = Callable[[int], bool]
"""Returns whether anybody speaks in a window, by its row."""


def decode_with_fallback(
    loop: DecodingLoop,
    tokenizer: Tokenizer,
    state: DecoderState,
    tasks: Sequence[DecodingTask],
    find_own_tasks: FindOwnTasks | None = None,
    *,
    hears_speech: HearsSpeech | None = None,
) -> Steps[tuple[DecodedTask, ...]]:
    """Decode windows until each passes the thresholds.

    Text that repeats its prompt is decoded again without one. Where every attempt fails, the
    likeliest text that does not repeat itself is taken. Live audio is decoded once, and a loop at
    its end is cut off.
    `find_own_tasks` is asked for windows whose first text is unsure, `hears_speech` for those whose
    first text is doubtful: without speech, it was made up.

    Source: OpenAI Whisper, `decode_with_fallback`, which takes the last temperature's text; taking
    the likeliest follows faster-whisper.
    """
    if tasks[0].is_running:
        results = yield from loop.decode_tokens(state, tasks)
        calm = [_without_loop(result) for result in results]
        return tuple(DecodedTask(*pair) for pair in zip(calm, tasks, strict=True))
    tasks = list(tasks)
    thresholds = loop.options.thresholds
    attempts: list[list[Decoded]] = [[] for _ in tasks]  # of each window
    for stage in plan_stages(loop.options.search):
        for rows in _rows_to_decode(stage, attempts, thresholds):
            batch = (
                state if len(rows) == len(tasks) else _select_rows(loop, state, rows)
            )
            results = yield from loop.decode_tokens(
                batch, [tasks[row] for row in rows], stage.temperature, stage.beam_size
            )
            for row, result in zip(rows, results, strict=True):
                attempt = result
                shorter = _without_repeated_context(tasks[row], result, tokenizer)
                if shorter is not None:
                    tasks[row] = shorter  # later stages leave the text out, too
                    (attempt,) = yield from loop.decode_tokens(
                        _select_rows(loop, state, [row]),
                        [shorter],
                        stage.temperature,
                        stage.beam_size,
                    )
                attempts[row].append(_with_compression_ratio(attempt, tokenizer))
        if hears_speech is not None:
            for row, of_window in enumerate(attempts):
                first = of_window[-1]
                if needs_speech(first, thresholds) and not hears_speech(row):
                    of_window[-1] = replace(first, made_up=True)
            hears_speech = None
        if find_own_tasks is not None:
            # Before a beam and samples: in a wrong language these cost most and find nothing.
            rows = _find_unsure_rows(attempts, thresholds)
            own_tasks = find_own_tasks(rows) if rows else {}
            own_attempts = yield from _decode_rows(loop, tokenizer, state, own_tasks)
            for row, attempt in own_attempts.items():
                if _is_better(attempt, attempts[row][-1], thresholds):
                    tasks[row] = own_tasks[row]
                    attempts[row] = [attempt]
            find_own_tasks = None
    chosen = [choose_or_cut(of_window, tokenizer, thresholds) for of_window in attempts]
    return tuple(DecodedTask(*pair) for pair in zip(chosen, tasks, strict=True))


def _find_unsure_rows(
    attempts: Sequence[Sequence[Decoded]], thresholds: Thresholds
) -> list[int]:
    """Return the rows whose text is unsure, or would be thrown away as silence."""
    return [
        row
        for row, of_window in enumerate(attempts)
        if of_window[-1].is_silence(thresholds) or is_unsure(of_window[-1], thresholds)
    ]


def _decode_rows(
    loop: DecodingLoop,
    tokenizer: Tokenizer,
    state: DecoderState,
    tasks: Mapping[int, DecodingTask],
) -> Steps[dict[int, Decoded]]:
    """Decode some rows once, by other tasks."""
    if not tasks:
        return {}
    results = yield from loop.decode_tokens(
        _select_rows(loop, state, list(tasks)),
        list(tasks.values()),
        loop.options.search.temperatures[0],
    )
    return {
        row: _with_compression_ratio(result, tokenizer)
        for row, result in zip(tasks, results, strict=True)
    }


def _is_better(new: Decoded, old: Decoded, thresholds: Thresholds) -> bool:
    """Return whether text in a window's own language replaces that in the recording's.

    Text in a language that is not spoken is unlikely, or a translation that nobody asked for.
    """
    if repeats_itself(new, thresholds) or new.is_silence(thresholds):
        return False
    return repeats_itself(old, thresholds) or new.avg_logprob > old.avg_logprob


def _rows_to_decode(
    stage: FallbackStage, attempts: Sequence[Sequence[Decoded]], thresholds: Thresholds
) -> list[list[int]]:
    """Return the batches of a stage, each as the rows of its windows."""
    if stage.is_beam_retry:
        # One by one: the hypotheses of a beam fill a batch by themselves.
        return [
            [row]
            for row, of_window in enumerate(attempts)
            if is_unsure(of_window[-1], thresholds)
        ]
    doubtful = [
        row
        for row, of_window in enumerate(attempts)
        if all(is_doubtful(attempt, thresholds) for attempt in of_window)
    ]
    return [doubtful] if doubtful else []


def _select_rows(
    loop: DecodingLoop, state: DecoderState, rows: Sequence[int]
) -> DecoderState:
    return loop.decoder.select(state, np.array(rows, dtype=np.int64))


def _without_repeated_context(
    task: DecodingTask, decoded: Decoded, tokenizer: Tokenizer
) -> DecodingTask | None:
    """Return the task without earlier text, if its result repeats that; else `None`."""
    special = tokenizer.special
    n_context = task.prompt.index(special.sot)
    text = [token for token in decoded.tokens if token < special.eot]
    if not repeats_prompt(text, task.prompt[:n_context]):
        return None
    return replace(task, prompt=task.prompt[n_context:])


def _with_compression_ratio(decoded: Decoded, tokenizer: Tokenizer) -> Decoded:
    text = tokenizer.decode(decoded.tokens).strip()
    return replace(decoded, compression_ratio=compression_ratio(text))


def _without_loop(decoded: Decoded) -> Decoded:
    """Return the text of live audio with a phrase that loops at its end once."""
    drafted = decoded.drafted
    n_calm = cut_loop(decoded.tokens)
    if not decoded.runaway or drafted is None or n_calm == len(decoded.tokens):
        return decoded
    n_kept = max(n_calm, drafted.n_fixed)  # settled text was shown already
    drafted = replace(drafted, probabilities=drafted.probabilities[:n_kept], guess=())
    return replace(decoded, tokens=decoded.tokens[:n_kept], drafted=drafted)


def choose_attempt(attempts: Sequence[Decoded], thresholds: Thresholds) -> Decoded:
    """Return the likeliest attempt that passed, or one that does not repeat itself.

    A text much shorter than another one left a clause out, which makes it likelier. Where every
    attempt ran into a loop, or none is anywhere near likely, the text is made up. A text that
    repeats itself and ends may be a menu or a song.
    """
    passed = [attempt for attempt in attempts if not is_doubtful(attempt, thresholds)]
    calm = [attempt for attempt in attempts if not repeats_itself(attempt, thresholds)]
    ended = [attempt for attempt in attempts if not attempt.runaway]
    chosen = _likeliest(passed or calm or ended or attempts)
    # A caller that gives one temperature wants its text.
    if passed or len(attempts) == 1:
        return chosen
    is_loop = not calm and not ended
    bound = thresholds.logprob
    is_hopeless = bound is not None and chosen.avg_logprob < _HOPELESS * bound
    return replace(chosen, made_up=is_loop or is_hopeless)


def choose_or_cut(
    attempts: Sequence[Decoded], tokenizer: Tokenizer, thresholds: Thresholds
) -> Decoded:
    """Return the attempt that is taken; where all are made up, a text that ends before its loop."""
    chosen = choose_attempt(attempts, thresholds)
    if not chosen.made_up or len(attempts) == 1:
        return chosen
    calm: list[Decoded] = []
    for attempt in attempts:
        shorter = _cut_at_loop(attempt, tokenizer)
        if shorter is not None and not is_doubtful(shorter, thresholds):
            calm.append(shorter)
    return _likeliest(calm) if calm else chosen


def _cut_at_loop(decoded: Decoded, tokenizer: Tokenizer) -> Decoded | None:
    """Return a text up to the loop that it ends in; `None` if it has none, or little else.

    The loop's tokens are at most certain, so what they add to the mean counts against the rest.
    """
    n_calm = cut_loop(decoded.tokens)
    n_tokens = len(decoded.tokens)
    if not decoded.runaway or n_calm == n_tokens or n_calm < _LEAST_CALM:
        return None
    sum_logprob = decoded.avg_logprob * (n_tokens + 1)
    shorter = replace(
        decoded, tokens=decoded.tokens[:n_calm], avg_logprob=sum_logprob / (n_calm + 1)
    )
    return _with_compression_ratio(shorter, tokenizer)


def _likeliest(attempts: Sequence[Decoded]) -> Decoded:
    """Return the likeliest of the attempts that leave out no words."""
    n_longest = max(len(attempt.tokens) for attempt in attempts)
    n_least = _COMPARABLE_LENGTH * n_longest
    complete = [attempt for attempt in attempts if len(attempt.tokens) >= n_least]
    return max(complete, key=lambda attempt: attempt.avg_logprob)
