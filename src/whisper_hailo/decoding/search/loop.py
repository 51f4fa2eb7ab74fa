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
from whisper_hailo.decoding.search.choice import BeamChoice, Choice, SampledChoice
from whisper_hailo.decoding.search.draft import Draft, DraftSearch
from whisper_hailo.decoding.search.greedy import GreedyChoice, GreedySearch
from whisper_hailo.decoding.search.hypothesis import Found, Search, near_tie
from whisper_hailo.decoding.search.ranking import best_of, is_close_call
from whisper_hailo.decoding.search.windows import WindowSearch

_LAST = np.zeros(1, np.int64)
_LAST.setflags(write=False)
"""Where a step of one token is looked at; constant, so that a decoder is told of it once."""


@dataclass(frozen=True, slots=True)
class Task:
    """One window to decode.

    Attributes:
        prompt: forced ids, ending where the model takes over.
        content_s: seconds of audio in the window, for the limit of tokens per second.
        key: tells windows apart for the sampling; the same key draws the same tokens.
        draft: what its text may begin with; only alone, and greedily.
    """

    prompt: tuple[int, ...]
    content_s: float | None = None
    key: int = 0
    draft: Draft | None = None


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
        self._near_tie = near_tie(decoder.spec.quantization)
        self._rules = RuleBook(special, decoder.spec.dims, options, window_s)
        boost = options.cures.eot_boost
        self._greedily = GreedyChoice(self._rules, special.eot, boost, self._near_tie)

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
        width = max(len(task.prompt) for task in tasks)
        budgets = [
            self._options.budget(self._decoder.spec.dims, width, task.content_s) for task in tasks
        ]
        search = self._search(tasks, budgets, temperature)
        output, state, no_speech = self._prefill(state, tasks, search)
        # Settled text is no silence.
        ends = output.logits[:, 0].argmax(axis=-1) == self._special.eot
        ends &= search.n_fixed == 0
        while (feed := search.advance(output)) is not None:
            if feed.rows != list(range(self._decoder.batch_size(state))):
                state = self._decoder.select(state, np.array(feed.rows, dtype=np.int64))
            if feed.keep is not None:
                state = self._decoder.rewind(state, width + feed.keep)
            n_fed = feed.tokens.shape[1]
            looks = _LAST if n_fed == 1 else np.arange(n_fed, dtype=np.int64)
            output, state = self._decoder.step(feed.tokens, state, looks, alignment=search.aligns)
        return tuple(
            self._result(found, temperature, float(p), bool(at_once))
            for found, p, at_once in zip(search.finish(), no_speech, ends, strict=True)
        )

    def _prefill(
        self,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        tasks: Sequence[Task],
        search: Search,
    ) -> tuple[StepOutput, Any, FloatArray]:
        """Feed the prompts in one pass; shorter ones are padded on the left.

        It looks at start-of-transcript, which tells speech from silence, and behind that where
        something is to be chosen: the prompt's end, and the tokens of a draft.
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
        if search.opening:
            tokens = np.concatenate([tokens, np.array([search.opening], dtype=np.int64)], axis=1)
        begins = sorted(set(sot))
        looks = [*begins, *range(width - 1 + search.n_fixed, tokens.shape[1])]
        output, state = self._decoder.step(
            tokens,
            state,
            np.array(looks, dtype=np.int64),
            first=first if first.any() else None,
            alignment=search.aligns,
        )
        if not np.all(np.isfinite(output.logsumexp)):
            raise ModelError(
                "the decoder gives values that are no numbers; the checkpoint's weights are broken"
            )
        no_speech = self._no_speech_probs(output, np.searchsorted(begins, sot))
        n = len(begins)
        behind = StepOutput(output.logits[:, n:], output.logsumexp[:, n:], output.alignment)
        return behind, state, no_speech

    def _search(self, tasks: Sequence[Task], budgets: Sequence[int], temperature: float) -> Search:
        draft = tasks[0].draft
        if draft is not None:
            return DraftSearch(self._greedily, budgets[0], draft, self._decoder.spec.dims.n_vocab)
        if temperature == 0 and self._options.search.beam_size == 1:
            return GreedySearch(self._greedily, budgets)
        choices = [self._choice(task, temperature) for task in tasks]
        return WindowSearch(self._rules, choices, budgets)

    def _choice(self, task: Task, temperature: float) -> Choice:
        eot, boost, search = self._special.eot, self._options.cures.eot_boost, self._options.search
        if temperature == 0:
            return BeamChoice(eot, boost, search.beam_size, search.patience, self._near_tie)
        key = (search.seed, task.key, round(temperature * 1000))
        seeds = [(*key, index) for index in range(search.best_of)]
        return SampledChoice(eot, boost, temperature, seeds, self._near_tie)

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
        self, found: Found, temperature: float, no_speech_prob: float, ends_at_once: bool
    ) -> Decoded:
        penalty = self._options.search.length_penalty
        best = best_of(found.hypotheses, penalty)
        tied = is_close_call(best, found.hypotheses, penalty, self._near_tie)
        return Decoded(
            tokens=best.tokens,
            avg_logprob=best.avg_logprob,
            no_speech_prob=no_speech_prob,
            runaway=not best.done,
            temperature=temperature,
            ends_at_once=ends_at_once,
            near_ties=found.near_ties + tied,
            drafted=found.drafted,
        )
