"""Fallback: which windows are decoded again, and how.

Greedy text that is unsure is decoded in the window's own language, where that is another one, and
searched again with a beam (`beam_retry`); text that is still doubtful (`attempt_checks`) is sampled
at rising temperatures. Each of these retries has a bound (`retry_bound`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from whisper_hailo.core.protocols import DecoderState
from whisper_hailo.decoding.decoded import Decoded, cut_loop, repeats_prompt
from whisper_hailo.decoding.options import SearchOptions, Thresholds
from whisper_hailo.decoding.search.attempt_checks import (
    is_doubtful,
    repeats_itself,
    seems_silent,
)
from whisper_hailo.decoding.search.attempt_choice import (
    choose_or_cut,
    with_compression_ratio,
)
from whisper_hailo.decoding.search.beam_retry import is_beam_retry_enabled, is_unsure
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, Steps
from whisper_hailo.decoding.search.retry_bound import SAMPLES_WIDTH, bound_retry
from whisper_hailo.text.tokenizer import Tokenizer


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
    # Decoding stands here, not in a method: a stack of few frames can be read.
    attempts = _Attempts(loop, tokenizer, state, tasks)
    first, *retries = plan_stages(loop.options.search)
    for stage in (first, *retries):
        batches = attempts.batches(stage)
        while batches:
            batch = batches.pop(0)
            results = yield from loop.decode_tokens(
                batch.state, batch.tasks, stage.temperature, stage.beam_size
            )
            batches += attempts.record(batch, results)
        if stage is first and hears_speech is not None:
            attempts.drop_silence(hears_speech)
        if stage is first and find_own_tasks is not None:
            # Before a beam and samples: in a wrong language these cost most and find nothing.
            own = attempts.own_batch(find_own_tasks, stage)
            if own is not None:
                results = yield from loop.decode_tokens(
                    own.state, own.tasks, stage.temperature
                )
                attempts.replace_worse(own, results)
    return attempts.choose()


class _Batch(NamedTuple):
    """Windows that are decoded together in a stage."""

    stage: FallbackStage
    rows: Sequence[int]
    state: DecoderState
    tasks: Sequence[DecodingTask]


class _Attempts:
    """The attempts of a batch of windows."""

    def __init__(
        self,
        loop: DecodingLoop,
        tokenizer: Tokenizer,
        state: DecoderState,
        tasks: Sequence[DecodingTask],
    ) -> None:
        self._loop = loop
        self._tokenizer = tokenizer
        self._state = state
        self._thresholds = loop.options.thresholds
        self._tasks = list(tasks)
        self._attempts: list[list[Decoded]] = [[] for _ in tasks]
        """Of each window."""

    def batches(self, stage: FallbackStage) -> list[_Batch]:
        """Return the windows of a stage, by what was decoded so far."""
        batches = _rows_to_decode(stage, self._attempts, self._thresholds)
        return [self._batch(stage, rows) for rows in batches]

    def record(self, batch: _Batch, results: Sequence[Decoded]) -> list[_Batch]:
        """Keep results; return the windows that have to be decoded again without their context."""
        again: list[_Batch] = []
        for row, result in zip(batch.rows, results, strict=True):
            shorter = _without_repeated_context(
                self._tasks[row], result, self._tokenizer
            )
            if shorter is None:
                attempt = with_compression_ratio(result, self._tokenizer)
                self._attempts[row].append(attempt)
            else:
                self._tasks[row] = shorter  # later stages leave the text out, too
                again.append(self._batch(batch.stage, [row]))
        return again

    def _batch(self, stage: FallbackStage, rows: Sequence[int]) -> _Batch:
        """Return some windows as one batch, a retry within its bound."""
        width = stage.beam_size or SAMPLES_WIDTH
        tasks: list[DecodingTask] = []
        for row in rows:
            task = self._tasks[row]
            bound = bound_retry(
                self._attempts[row], task.content_s, self._thresholds, width
            )
            tasks.append(replace(task, bound=bound))
        return _Batch(stage, rows, self._select(rows), tasks)

    def _select(self, rows: Sequence[int]) -> DecoderState:
        """Return the state of some windows; that of the whole batch is not copied."""
        if len(rows) == len(self._tasks):
            return self._state
        return self._loop.decoder.select(self._state, np.array(rows, dtype=np.int64))

    def drop_silence(self, hears_speech: HearsSpeech) -> None:
        """Mark doubtful first texts of windows without speech as made up."""
        for row, attempts in enumerate(self._attempts):
            first = attempts[-1]
            if needs_speech(first, self._thresholds) and not hears_speech(row):
                attempts[-1] = replace(first, made_up=True)

    def own_batch(
        self, find_own_tasks: FindOwnTasks, stage: FallbackStage
    ) -> _Batch | None:
        """Return unsure windows with the languages that are likely in them, if there are any."""
        unsure = _find_unsure_rows(self._attempts, self._thresholds)
        own_tasks = find_own_tasks(unsure) if unsure else {}
        if not own_tasks:
            return None
        rows = list(own_tasks)
        return _Batch(stage, rows, self._select(rows), list(own_tasks.values()))

    def replace_worse(self, batch: _Batch, results: Sequence[Decoded]) -> None:
        """Put results in a window's own language in the place of worse ones."""
        for row, task, result in zip(batch.rows, batch.tasks, results, strict=True):
            attempt = with_compression_ratio(result, self._tokenizer)
            if _is_better(attempt, self._attempts[row][-1], self._thresholds):
                self._tasks[row] = task
                self._attempts[row] = [attempt]

    def choose(self) -> tuple[DecodedTask, ...]:
        """Return the attempt of each window that is taken."""
        chosen: list[DecodedTask] = []
        for attempts, task in zip(self._attempts, self._tasks, strict=True):
            decoded = choose_or_cut(attempts, self._tokenizer, self._thresholds)
            chosen.append(DecodedTask(decoded, task))
        return tuple(chosen)


def _find_unsure_rows(
    attempts: Sequence[Sequence[Decoded]], thresholds: Thresholds
) -> list[int]:
    """Return the rows whose text is unsure, or would be thrown away as silence."""
    return [
        row
        for row, of_window in enumerate(attempts)
        if of_window[-1].is_silence(thresholds) or is_unsure(of_window[-1], thresholds)
    ]


def _is_better(new: Decoded, old: Decoded, thresholds: Thresholds) -> bool:
    """Return whether text in a window's own language replaces that in the recording's.

    Text in a language that is not spoken is unlikely, or an unwanted translation.
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
        if not any(_passes(attempt, thresholds) for attempt in of_window)
    ]
    return [doubtful] if doubtful else []


def _passes(attempt: Decoded, thresholds: Thresholds) -> bool:
    return not attempt.abandoned and not is_doubtful(attempt, thresholds)


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


def _without_loop(decoded: Decoded) -> Decoded:
    """Return the text of live audio with a phrase that loops at its end once."""
    drafted = decoded.drafted
    n_calm = cut_loop(decoded.tokens)
    if not decoded.runaway or drafted is None or n_calm == len(decoded.tokens):
        return decoded
    n_kept = max(n_calm, drafted.n_fixed)  # settled text was shown already
    drafted = replace(drafted, probabilities=drafted.probabilities[:n_kept], guess=())
    return replace(decoded, tokens=decoded.tokens[:n_kept], drafted=drafted)
