"""The decoding loop: prompts in, tokens out, for a batch of windows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import AnyDecoder, StepOutput
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.rules.book import RuleBook
from whisper_hailo.decoding.search.choice import BeamChoice, Choice, GreedyChoice, SampledChoice
from whisper_hailo.decoding.search.ranking import best_of


@dataclass(frozen=True, slots=True)
class Task:
    """One window to decode.

    Attributes:
        prompt: forced ids, ending where the model takes over.
        content_s: seconds of audio in the window, for the limit of tokens per second.
        key: tells windows apart for the sampling; the same key draws the same tokens.
    """

    prompt: tuple[int, ...]
    content_s: float | None = None
    key: int = 0


class DecodingLoop:
    """Runs the decoder until every window is done.

    Args:
        decoder: an open decoder.
        special: its control token ids.
        options: what the caller asked for.
        window_s: length of the encoder's window, which no timestamp may pass; `None` is the full
            context.
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
        self._rules = RuleBook(special, decoder.spec.dims, options, window_s)

    def run(
        self,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        tasks: Sequence[Task],
        temperature: float = 0.0,
    ) -> tuple[Decoded, ...]:
        """Decode every row of a started state.

        Args:
            state: from `Decoder.start`, with an empty self-attention cache; it stays usable.
            tasks: one per row.
            temperature: 0 is greedy or beam search, above 0 tokens are sampled.

        Returns:
            the best hypothesis of each row, in order.

        Raises:
            ModelError: the decoder's weights are not finite.
        """
        output, state, no_speech = self._prefill(state, tasks)
        ends = output.logits[:, -1].argmax(axis=-1) == self._special.eot
        width = max(len(task.prompt) for task in tasks)
        budgets = [
            self._options.budget(self._decoder.spec.dims, width, task.content_s) for task in tasks
        ]
        choices = [self._choice(task, temperature) for task in tasks]
        rows = list(range(len(tasks)))
        for step in range(max(budgets)):
            sources, tokens, rows = self._advance(output, rows, choices, budgets, step)
            if not rows or step == max(budgets) - 1:
                break
            if sources != list(range(self._decoder.batch_size(state))):
                state = self._decoder.select(state, np.array(sources, dtype=np.int64))
            fed = np.array(tokens, dtype=np.int64)[:, np.newaxis]
            output, state = self._decoder.step(fed, state, np.array([0], dtype=np.int64))
        return tuple(
            self._result(choice, temperature, float(p), bool(at_once))
            for choice, p, at_once in zip(choices, no_speech, ends, strict=True)
        )

    def _prefill(
        self,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        tasks: Sequence[Task],
    ) -> tuple[StepOutput, Any, FloatArray]:
        """Feed the prompts in one pass; shorter ones are padded on the left.

        It looks at two positions of each row: start-of-transcript, which tells speech from
        silence, and the last, which gives the first token.
        """
        width = max(len(task.prompt) for task in tasks)
        tokens = np.full((len(tasks), width), self._special.eot, dtype=np.int64)
        for row, task in enumerate(tasks):
            tokens[row, width - len(task.prompt) :] = task.prompt
        first = np.array([width - len(task.prompt) for task in tasks], dtype=np.int64)
        sot = [
            int(column) + task.prompt.index(self._special.sot)
            for column, task in zip(first, tasks, strict=True)
        ]
        looks = np.array([*sorted(set(sot)), width - 1], dtype=np.int64)
        output, state = self._decoder.step(
            tokens, state, looks, first=first if first.any() else None
        )
        if not np.all(np.isfinite(output.logsumexp)):
            raise ModelError(
                "the decoder gives values that are no numbers; the checkpoint's weights are broken"
            )
        at_sot = np.searchsorted(looks[:-1], np.array(sot))
        return output, state, self._no_speech_probs(output, at_sot)

    def _advance(
        self,
        output: StepOutput,
        rows: list[int],
        choices: Sequence[Choice],
        budgets: Sequence[int],
        step: int,
    ) -> tuple[list[int], list[int], list[int]]:
        """One token more for every window that runs.

        Args:
            output: of the last pass.
            rows: for each row of that pass, its window; rows of one window lie together.
            choices: one per window.
            budgets: most tokens of each window.
            step: tokens chosen before.

        Returns:
            the rows to continue, the ids to feed them, and their windows.
        """
        sources: list[int] = []
        tokens: list[int] = []
        windows: list[int] = []
        for window, choice in enumerate(choices):
            own = [row for row, of in enumerate(rows) if of == window]
            running = choice.running if step < budgets[window] else ()
            if not own or not running:
                continue
            raw = [output.logits[row, -1] for row in own]
            ruled = [
                self._rules.apply(logits, float(output.logsumexp[row, -1]), hypothesis.tokens)
                for logits, row, hypothesis in zip(raw, own, running, strict=True)
            ]
            kept = choice.advance(raw, ruled)
            if step + 1 == budgets[window]:
                continue
            sources += [own[source] for source in kept]
            tokens += [hypothesis.tokens[-1] for hypothesis in choice.running]
            windows += [window] * len(kept)
        return sources, tokens, windows

    def _choice(self, task: Task, temperature: float) -> Choice:
        eot, boost, search = self._special.eot, self._options.cures.eot_boost, self._options.search
        if temperature > 0:
            key = (search.seed, task.key, round(temperature * 1000))
            seeds = [(*key, index) for index in range(search.best_of)]
            return SampledChoice(eot, boost, temperature, seeds)
        if search.beam_size > 1:
            return BeamChoice(eot, boost, search.beam_size, search.patience)
        return GreedyChoice(eot, boost)

    def _no_speech_probs(self, output: StepOutput, at_sot: IntArray) -> FloatArray:
        """`(batch,)` probability of the no-speech id at start-of-transcript."""
        rows, no_speech = np.arange(output.logits.shape[0]), self._special.no_speech
        if no_speech is None:
            return np.zeros(rows.size, dtype=np.float32)
        logprobs: FloatArray = (
            output.logits[rows, at_sot, no_speech] - output.logsumexp[rows, at_sot]
        )
        return np.exp(logprobs)

    def _result(
        self, choice: Choice, temperature: float, no_speech_prob: float, ends_at_once: bool
    ) -> Decoded:
        best = best_of(choice.finish(), self._options.search.length_penalty)
        return Decoded(
            tokens=best.tokens,
            avg_logprob=best.avg_logprob,
            no_speech_prob=no_speech_prob,
            runaway=not best.done,
            temperature=temperature,
            ends_at_once=ends_at_once,
            near_ties=choice.near_ties,
        )
