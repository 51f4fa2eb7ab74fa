"""The greedy loop: prefix in, tokens out, for a batch of windows at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import AnyDecoder, StepOutput
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.rules import choose, penalise_repetition, suppress


@dataclass(frozen=True, slots=True)
class Decoded:
    """The tokens of one window.

    Attributes:
        tokens: generated ids, without the prefix and without end-of-transcript.
        avg_logprob: mean natural-log probability of the chosen ids under the model before any rule,
            end-of-transcript counted.
        no_speech_prob: probability in [0, 1] of the no-speech id at start-of-transcript; 0 for
            models that have none.
        runaway: the budget was used up without an end-of-transcript.
    """

    tokens: tuple[int, ...]
    avg_logprob: float
    no_speech_prob: float
    runaway: bool

    def is_silence(self, options: DecodingOptions) -> bool:
        """Whether the window holds no speech, so that its tokens are made up.

        Whisper may not begin with end-of-transcript, so it says something even of silence.

        Source: OpenAI Whisper's `no_speech_threshold` and `logprob_threshold`, with its defaults.
        """
        doubtful = self.avg_logprob <= options.logprob_threshold
        return self.no_speech_prob > options.no_speech_threshold and doubtful


@dataclass(slots=True)
class _Row:
    """What the loop keeps per window while it runs."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: bool = False


class Greedy:
    """Takes the best token at every step until end-of-transcript or the budget."""

    def __init__(
        self, decoder: AnyDecoder, special: SpecialTokens, options: DecodingOptions
    ) -> None:
        self._decoder = decoder
        self._special = special
        self._options = options
        self._never = np.array(_never_sampled(special), dtype=np.int64)
        self._never_first = np.union1d(self._never, np.array(special.begin_suppress, np.int64))

    def run(self, state: object, prefix: tuple[int, ...]) -> tuple[Decoded, ...]:
        """Decode every row of a started state.

        Args:
            state: from `Decoder.start`, with an empty self-attention cache.
            prefix: forced ids, the same for every row, beginning with start-of-transcript.

        Returns:
            one result per row, in order.

        Raises:
            ModelError: the decoder's weights are not finite.
        """
        budget = self._options.budget(self._decoder.spec.dims, len(prefix))
        n_rows = self._decoder.batch_size(state)
        tokens = np.tile(np.array(prefix, dtype=np.int64), (n_rows, 1))
        # The first pass looks at two positions: start-of-transcript, which tells speech from
        # silence, and the prefix's last token, which gives the first word.
        looks = np.array([0, len(prefix) - 1], dtype=np.int64)
        output, state = self._decoder.step(tokens, state, looks)
        if not np.all(np.isfinite(output.logsumexp)):
            raise ModelError(
                "the decoder gives values that are no numbers; the checkpoint's weights are broken"
            )
        no_speech = self._no_speech_probs(output)
        rows = [_Row() for _ in range(n_rows)]
        last = np.array([0], dtype=np.int64)
        for step in range(budget):
            chosen = self._choose(output, rows, self._never if step else self._never_first)
            if all(row.done for row in rows) or step == budget - 1:
                break
            output, state = self._decoder.step(chosen, state, last)
        return tuple(self._result(row, p) for row, p in zip(rows, no_speech, strict=True))

    def _choose(self, output: StepOutput, rows: list[_Row], never: IntArray) -> IntArray:
        """Append one token to every row that runs; `(batch, 1)` int64 tokens to feed next."""
        eot, cures = self._special.eot, self._options.cures
        chosen = np.full((len(rows), 1), eot, dtype=np.int64)
        for index, row in enumerate(rows):
            if row.done:
                continue
            raw = output.logits[index, -1]
            ruled = suppress(raw.copy(), never)
            ruled = penalise_repetition(ruled, row.tokens, cures.repetition_penalty)
            token = choose(ruled, eot, cures.eot_boost)
            row.logprobs.append(float(raw[token] - output.logsumexp[index, -1]))
            row.done = token == eot
            if not row.done:
                row.tokens.append(token)
                chosen[index, 0] = token
        return chosen

    def _no_speech_probs(self, output: StepOutput) -> FloatArray:
        """`(batch,)` probability of the no-speech id at start-of-transcript."""
        if self._special.no_speech is None:
            return np.zeros(output.logits.shape[0], dtype=np.float32)
        logprobs: FloatArray = output.logits[:, 0, self._special.no_speech] - output.logsumexp[:, 0]
        return np.exp(logprobs)

    @staticmethod
    def _result(row: _Row, no_speech_prob: float) -> Decoded:
        return Decoded(
            tokens=tuple(row.tokens),
            avg_logprob=float(np.mean(row.logprobs)),
            no_speech_prob=float(no_speech_prob),
            runaway=not row.done,
        )


def detect_language(decoder: AnyDecoder, state: object, special: SpecialTokens) -> dict[str, float]:
    """Probability of each language, for the first row of a started state.

    Args:
        decoder: the decoder that gave the state.
        state: with an empty self-attention cache; it stays usable.
        special: control token ids; only multilingual models have languages.

    Returns:
        language code to probability among the languages, likeliest first.

    Source: OpenAI Whisper, `detect_language`: the distribution after start-of-transcript,
    restricted to language ids.
    """
    n_rows = decoder.batch_size(state)
    tokens = np.full((n_rows, 1), special.sot, dtype=np.int64)
    output, _ = decoder.step(tokens, state, np.array([0], dtype=np.int64))
    ids = np.fromiter(special.languages.values(), dtype=np.int64)
    logits = output.logits[0, 0, ids].astype(np.float64)
    weights = np.exp(logits - logits.max())
    probs = weights / weights.sum()
    ranked = sorted(zip(special.languages, probs, strict=True), key=lambda item: -item[1])
    return {code: float(prob) for code, prob in ranked}


def _never_sampled(special: SpecialTokens) -> tuple[int, ...]:
    """The checkpoint's suppress list and the control tokens that are never part of a transcript."""
    control = (
        special.sot,
        special.sot_lm,
        special.sot_prev,
        special.no_speech,
        special.transcribe,
        special.translate,
        special.no_timestamps,
    )
    return tuple(sorted({*special.suppress, *(i for i in control if i is not None)}))
