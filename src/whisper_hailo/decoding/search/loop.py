"""The decoding loop: prompts in, tokens out, for a batch of windows."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import AnyDecoder, DecoderState, StepOutput
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.hotwords import HotwordTrie
from whisper_hailo.decoding.logits_rules import LogitsRules
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.beam_search import BeamChoice
from whisper_hailo.decoding.search.greedy import GreedySearch
from whisper_hailo.decoding.search.hypothesis import Search, select_best
from whisper_hailo.decoding.search.retry_bound import RetryBound
from whisper_hailo.decoding.search.sampling import SampledChoice
from whisper_hailo.decoding.search.verify_draft import Draft, DraftSearch
from whisper_hailo.decoding.search.window_search import Choice, WindowSearch

T = TypeVar("T")

LAST: Final = np.zeros(1, np.int64)
"""Position of a one-token step; constant, so that the decoder binds it once."""
LAST.setflags(write=False)

Steps: TypeAlias = Generator[None, None, T]
"""Work that may be interrupted by other work of the same decoder wherever it yields."""


def run_steps(steps: Steps[T]) -> T:
    """Return the result of work that is not interrupted."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(frozen=True, slots=True)
class DecodingTask:
    """One window to decode.

    Attributes:
        prompt: forced ids.
        content_s: seconds of audio in the window, for the limit of tokens per second.
        key: seeds the sampling; the same key draws the same tokens.
        draft: expected start of the text; only alone and greedily.
        is_running: live audio, whose doubtful text is soon transcribed again.
        language: code of the language that the prompt asks for.
        bound: of a retry.
    """

    prompt: tuple[int, ...]
    content_s: float | None = None
    key: int = 0
    draft: Draft | None = None
    is_running: bool = False
    language: str = ""
    bound: RetryBound | None = None


class DecodingLoop:
    """Runs the decoder until every window is done.

    No timestamp may pass the encoder's window of `window_s`; `None` is the full context.
    """

    def __init__(
        self,
        decoder: AnyDecoder,
        special: SpecialTokens,
        options: DecodingOptions,
        window_s: float | None = None,
        hotwords: HotwordTrie | None = None,
    ) -> None:
        self.decoder = decoder
        self.options = options
        self._special = special
        self._rules = LogitsRules(
            special, decoder.spec.dims, options, window_s, hotwords
        )

    def run(
        self,
        state: DecoderState,
        tasks: Sequence[DecodingTask],
        temperature: float = 0.0,
        beam_size: int | None = None,
    ) -> tuple[Decoded, ...]:
        """Decode like `decode_tokens`, without interruptions."""
        return run_steps(self.decode_tokens(state, tasks, temperature, beam_size))

    def decode_tokens(
        self,
        state: DecoderState,
        tasks: Sequence[DecodingTask],
        temperature: float = 0.0,
        beam_size: int | None = None,
    ) -> Steps[tuple[Decoded, ...]]:
        """Decode every row of a started state; return the best hypothesis of each.

        Yields before each step, when others may decode. The state, with an empty self-attention
        cache, stays usable. Temperature 0 is greedy or beam search, above 0 tokens are sampled.
        """
        decoder = self.decoder
        search = self._search(
            tasks,
            self._budgets(tasks),
            temperature,
            beam_size or self.options.search.beam_size,
        )
        prompts = _pad_prompts(tasks, search, self._special)
        output, state = decoder.step(
            prompts.tokens,
            state,
            prompts.positions,
            first=prompts.first,
            alignment=search.aligns,
        )
        start = self._start(search, prompts, output)
        output = start.output
        while (feed := search.advance(output)) is not None:
            yield
            if feed.rows != list(range(decoder.batch_size(state))):
                state = decoder.select(state, np.array(feed.rows, dtype=np.int64))
            if feed.keep is not None:
                state = decoder.rewind(state, prompts.width + feed.keep)
            n_fed = feed.tokens.shape[1]
            positions = LAST if n_fed == 1 else np.arange(n_fed, dtype=np.int64)
            output, state = decoder.step(
                feed.tokens, state, positions, alignment=search.aligns
            )
        return self._select_best(search, start, temperature)

    def _select_best(
        self, search: Search, start: _Start, temperature: float
    ) -> tuple[Decoded, ...]:
        """Return the best hypothesis of each row."""
        penalty = self.options.search.length_penalty
        decoded: list[Decoded] = []
        for row, result in enumerate(search.finish()):
            best = select_best(result.hypotheses, penalty)
            decoded.append(
                Decoded(
                    tokens=best.tokens,
                    avg_logprob=best.avg_logprob,
                    no_speech_prob=float(start.no_speech_probs[row]),
                    runaway=not best.done,
                    temperature=temperature,
                    ends_at_once=bool(start.ends_at_once[row]),
                    drafted=result.drafted,
                    abandoned=best.abandoned,
                )
            )
        return tuple(decoded)

    def _budgets(self, tasks: Sequence[DecodingTask]) -> list[int]:
        """Return how many tokens each window may have behind the widest prompt."""
        dims = self.decoder.spec.dims
        width = max(len(task.prompt) for task in tasks)
        return [self.options.budget(dims, width, task.content_s) for task in tasks]

    def _start(self, search: Search, prompts: _Prompts, output: StepOutput) -> _Start:
        """Return what the prompts' own output says of silence, and the first token's output."""
        no_speech_probs = _no_speech_probs(output, prompts.sot, self._special.no_speech)
        # Behind the positions of start-of-transcript are those that tokens are chosen from.
        n_sot = int(prompts.sot.max()) + 1
        output = StepOutput(
            output.logits[:, n_sot:], output.logsumexp[:, n_sot:], output.alignment
        )
        ends_at_once = output.logits[:, 0].argmax(axis=1) == self._special.eot
        if search.n_fixed:  # settled text is no silence
            ends_at_once[:] = False
        return _Start(output, no_speech_probs, ends_at_once)

    def _search(
        self,
        tasks: Sequence[DecodingTask],
        budgets: Sequence[int],
        temperature: float,
        beam_size: int,
    ) -> Search:
        """Return the search of a batch; a draft is verified for a window alone."""
        is_greedy = temperature == 0 and beam_size == 1
        draft = tasks[0].draft
        if tasks[0].is_running or (is_greedy and draft):
            n_vocab = self.decoder.spec.dims.n_vocab
            return DraftSearch(self._rules, budgets[0], draft or Draft(), n_vocab)
        if is_greedy:
            return GreedySearch(self._rules, budgets)
        choices = [self._choice(task, temperature, beam_size) for task in tasks]
        return WindowSearch(self._rules, choices, budgets)

    def _choice(self, task: DecodingTask, temperature: float, beam_size: int) -> Choice:
        """Return how the hypotheses of one window are chosen."""
        search = self.options.search
        eot = self._special.eot
        eot_boost = self.options.anti_repetition.eot_boost
        if temperature == 0:
            return BeamChoice(eot, eot_boost, beam_size, search.patience, task.bound)
        # NumPy seeds generators with whole numbers.
        key = (search.seed, task.key, round(temperature * 1000))
        seeds = [(*key, index) for index in range(search.best_of)]
        return SampledChoice(eot, eot_boost, temperature, seeds, task.bound)


class _Prompts(NamedTuple):
    """The prompts of a batch as one pass, with a draft's opening after them.

    Attributes:
        tokens: `(batch, n_tokens)` int64 ids, shorter prompts padded on the left.
        width: tokens of the widest prompt.
        first: `(batch,)` int64 columns of the first real ids; `None` where all are real.
        positions: `(K,)` int64 positions to look at: each start-of-transcript, then those that a
            token is chosen from.
        sot: `(batch,)` int64 index in `positions` of each row's start-of-transcript.
    """

    tokens: IntArray
    width: int
    first: IntArray | None
    positions: IntArray
    sot: IntArray


class _Start(NamedTuple):
    """What follows from the prompts of a batch.

    Attributes:
        output: at the positions that the first token is chosen from.
        no_speech_probs: `(batch,)` float32.
        ends_at_once: `(batch,)` bool, whether end-of-transcript is likeliest.
    """

    output: StepOutput
    no_speech_probs: FloatArray
    ends_at_once: NDArray[np.bool_]


def _pad_prompts(
    tasks: Sequence[DecodingTask], search: Search, special: SpecialTokens
) -> _Prompts:
    """Return the prompts of a batch as one pass."""
    width = max(len(task.prompt) for task in tasks)
    first: list[int] = []
    rows: list[tuple[int, ...]] = []
    sot_positions: list[int] = []
    for task in tasks:
        n_padded = width - len(task.prompt)
        row = (*(special.eot,) * n_padded, *task.prompt, *search.opening)
        first.append(n_padded)
        rows.append(row)
        sot_positions.append(row.index(special.sot, n_padded))
    distinct = sorted(set(sot_positions))
    # The prompt's last position and those of the draft to verify; settled tokens need no choice.
    chosen_from = range(width - 1 + search.n_fixed, width + len(search.opening))
    return _Prompts(
        tokens=np.array(rows, dtype=np.int64),
        width=width,
        first=np.array(first, dtype=np.int64) if any(first) else None,
        positions=np.array([*distinct, *chosen_from], dtype=np.int64),
        sot=np.searchsorted(distinct, sot_positions),
    )


def _no_speech_probs(
    output: StepOutput, sot: IntArray, no_speech: int | None
) -> FloatArray:
    """Return `(batch,)` no-speech probabilities at each row's start-of-transcript."""
    if not np.all(np.isfinite(output.logsumexp)):
        raise ModelError(
            "the decoder gives values that are not numbers; the checkpoint's weights are broken"
        )
    rows = np.arange(len(sot))
    if no_speech is None:
        return np.zeros(rows.size, dtype=np.float32)
    probs: FloatArray = np.exp(
        output.logits[rows, sot, no_speech] - output.logsumexp[rows, sot]
    )
    return probs
