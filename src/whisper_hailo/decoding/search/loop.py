"""The decoding loop, prompts in and tokens out for a batch of windows, and its retries."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import numpy as np

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import AnyDecoder, DecoderState, StepOutput
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.decoded import Decoded, compression_ratio, cut_loop, repeats_prompt
from whisper_hailo.decoding.logits_rules import HotwordTrie, LogitsRules
from whisper_hailo.decoding.options import DecodingOptions, Thresholds
from whisper_hailo.decoding.search.beam_and_sampling import (
    BeamChoice,
    Choice,
    SampledChoice,
    WindowSearch,
)
from whisper_hailo.decoding.search.greedy import (
    GreedySearch,
    Search,
    select_best,
)
from whisper_hailo.decoding.search.verify_draft import Draft, DraftSearch
from whisper_hailo.text.tokenizer import Tokenizer

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
    """

    prompt: tuple[int, ...]
    content_s: float | None = None
    key: int = 0
    draft: Draft | None = None
    is_running: bool = False


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
        self._rules = LogitsRules(special, decoder.spec.dims, options, window_s, hotwords)

    def run(
        self,
        state: DecoderState,
        tasks: Sequence[DecodingTask],
        temperature: float = 0.0,
        beam_size: int | None = None,
    ) -> tuple[Decoded, ...]:
        """Decode like `steps`, without interruptions."""
        return run_steps(self.steps(state, tasks, temperature, beam_size))

    def steps(
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
        decoder, special, options = self.decoder, self._special, self.options
        width = max(len(task.prompt) for task in tasks)
        budgets = [options.budget(decoder.spec.dims, width, task.content_s) for task in tasks]
        search = self._search(tasks, budgets, temperature, beam_size or options.search.beam_size)
        fed, first, looks, sot = _pad_prompts(tasks, search, special)
        output, state = decoder.step(fed, state, looks, first=first, alignment=search.aligns)
        no_speech = _no_speech_probs(output, sot, special.no_speech)
        n = int(sot.max()) + 1
        output = StepOutput(output.logits[:, n:], output.logsumexp[:, n:], output.alignment)
        # Settled text is no silence.
        ends = (output.logits[:, 0].argmax(axis=1) == special.eot) & (search.n_fixed == 0)
        while (feed := search.advance(output)) is not None:
            yield
            if feed.rows != list(range(decoder.batch_size(state))):
                state = decoder.select(state, np.array(feed.rows, dtype=np.int64))
            if feed.keep is not None:
                state = decoder.rewind(state, width + feed.keep)
            n_fed = feed.tokens.shape[1]
            looks = LAST if n_fed == 1 else np.arange(n_fed, dtype=np.int64)
            output, state = decoder.step(feed.tokens, state, looks, alignment=search.aligns)
        decoded = []
        for found, p, at_once in zip(search.finish(), no_speech, ends, strict=True):
            best = select_best(found.hypotheses, options.search.length_penalty)
            decoded.append(
                Decoded(
                    tokens=best.tokens,
                    avg_logprob=best.avg_logprob,
                    no_speech_prob=float(p),
                    runaway=not best.done,
                    temperature=temperature,
                    ends_at_once=bool(at_once),
                    drafted=found.drafted,
                )
            )
        return tuple(decoded)

    def _search(
        self,
        tasks: Sequence[DecodingTask],
        budgets: Sequence[int],
        temperature: float,
        beam_size: int,
    ) -> Search:
        greedy, first, eot = temperature == 0 and beam_size == 1, tasks[0], self._special.eot
        if first.is_running or (greedy and first.draft):
            n_vocab = self.decoder.spec.dims.n_vocab
            return DraftSearch(self._rules, budgets[0], first.draft or Draft(), n_vocab)
        if greedy:
            return GreedySearch(self._rules, budgets)
        search, boost = self.options.search, self.options.anti_repetition.eot_boost
        choices: list[Choice] = []
        for task in tasks:
            if temperature == 0:
                choices.append(BeamChoice(eot, boost, beam_size, search.patience))
                continue
            key = (search.seed, task.key, round(temperature * 1000))
            seeds = [(*key, index) for index in range(search.best_of)]
            choices.append(SampledChoice(eot, boost, temperature, seeds))
        return WindowSearch(self._rules, choices, budgets)


def _pad_prompts(
    tasks: Sequence[DecodingTask], search: Search, special: SpecialTokens
) -> tuple[IntArray, IntArray | None, IntArray, IntArray]:
    """Return the prompts of a batch as one pass, with a draft's opening after them.

    Returns `(batch, n_tokens)` ids, shorter prompts padded on the left; the `(batch,)` columns of
    the first real ones, or `None` where all are; `(K,)` positions to look at: each
    start-of-transcript, then those that a token is chosen from; and the index there of each row's
    start-of-transcript.
    """
    width = max(len(task.prompt) for task in tasks)
    first = [width - len(task.prompt) for task in tasks]
    fed = [
        (*(special.eot,) * n, *task.prompt, *search.opening)
        for n, task in zip(first, tasks, strict=True)
    ]
    sot = [row.index(special.sot, n) for n, row in zip(first, fed, strict=True)]
    begins = sorted(set(sot))
    looks = [*begins, *range(width - 1 + search.n_fixed, len(fed[0]))]
    return (
        np.array(fed, dtype=np.int64),
        np.array(first, dtype=np.int64) if any(first) else None,
        np.array(looks, dtype=np.int64),
        np.searchsorted(begins, sot),
    )


def _no_speech_probs(output: StepOutput, sot: IntArray, no_speech: int | None) -> FloatArray:
    """Return `(batch,)` no-speech probabilities at each row's start-of-transcript."""
    if not np.all(np.isfinite(output.logsumexp)):
        raise ModelError(
            "the decoder gives values that are no numbers; the checkpoint's weights are broken"
        )
    rows = np.arange(len(sot))
    if no_speech is None:
        return np.zeros(rows.size, dtype=np.float32)
    probs: FloatArray = np.exp(output.logits[rows, sot, no_speech] - output.logsumexp[rows, sot])
    return probs


_UNSURE: Final = -0.4
"""Mean log-probability below which a beam mostly finds better words (docs/accuracy.md)."""
_WHOLE: Final = 0.9
"""Share of the longest attempt's tokens that another one needs to compete."""
_HOPELESS: Final = 1.5
"""Times the threshold: text this unlikely after every attempt was made up."""


def decode_with_fallback(
    loop: DecodingLoop, tokenizer: Tokenizer, state: DecoderState, tasks: Sequence[DecodingTask]
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
    tasks, special, select = list(tasks), tokenizer.special, loop.decoder.select
    search, thresholds = loop.options.search, loop.options.thresholds
    stages: list[tuple[float, int | None]] = [(each, None) for each in search.temperatures]
    if search.widens:
        stages.insert(1, (search.temperatures[0], search.retry_beam_size))
    tries: list[list[Decoded]] = [[] for _ in tasks]
    doubtful = list(range(len(tasks)))
    for temperature, beam_size in stages:
        batches = [doubtful] if doubtful else []
        if beam_size is not None:  # one by one: hypotheses fill a batch by themselves
            unsure = (one.is_unsure(thresholds, _UNSURE) for (one,) in tries)
            batches = [[row] for row, is_unsure in enumerate(unsure) if is_unsure]
        for batch in batches:
            rows = np.array(batch, dtype=np.int64)
            part = state if len(batch) == len(tasks) else select(state, rows)
            steps = loop.steps(part, [tasks[row] for row in batch], temperature, beam_size)
            for row, found in zip(batch, (yield from steps), strict=True):
                prompt, result = tasks[row].prompt, found
                n_shown = prompt.index(special.sot)
                words = [token for token in result.tokens if token < special.eot]
                if repeats_prompt(words, prompt[:n_shown]):
                    tasks[row] = replace(tasks[row], prompt=prompt[n_shown:])
                    alone = select(state, np.array([row], dtype=np.int64))
                    again = loop.steps(alone, [tasks[row]], temperature, beam_size)
                    (result,) = yield from again
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
    drafted, n_kept = decoded.drafted, cut_loop(decoded.tokens)
    if not decoded.runaway or drafted is None or n_kept == len(decoded.tokens):
        return decoded
    n_kept = max(n_kept, drafted.n_fixed)
    drafted = replace(drafted, probabilities=drafted.probabilities[:n_kept], guess=())
    return replace(decoded, tokens=decoded.tokens[:n_kept], drafted=drafted)


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
    bound = thresholds.logprob
    hopeless = bound is not None and chosen.avg_logprob < _HOPELESS * bound
    made_up = len(attempts) > 1 and not passed and (hopeless or not (calm or ended))
    return replace(chosen, made_up=made_up)
