"""A large decoder with a small one ahead of it against the large one alone.

    python -m whisper_hailo_lab.speed.drafts MODEL DRAFT-MODEL [--accept 0.6 0.8] [--threads 1]

Speed does not depend on what weights mean, so checkpoints with random weights do, and how often the
small model is right is set: it runs, but what comes of it is the large model's own next token with
the probability that is asked for, and another one else. So that no near tie of random logits takes
the text another way, the large model's logits are lifted likewise where its text is known. Each
round decodes the same tokens with and without drafts, in turns.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.protocols import Padding, StepOutput
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.draft_decoder import DraftState, DraftStats, draft_cost
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask

N_TOKENS: Final = 60
N_POSITIONS: Final = 500
LIFT: Final = 30.0
"""By so much a logit is made the largest."""
_SURE: Final = 0.99


class Told:
    """A decoder that computes everything, and says what it is told to.

    Args:
        decoder: open.
        truth: tokens of the text; none yet: it says what it computes.
        n_prompt: forced ids before them.
        luck: `(n,)` float32 in [0, 1) for each place; where it is not below `accept`, another token
            is said.
        accept: how often the text's token is said, and how sure of it.
    """

    def __init__(
        self,
        decoder: CachedDecoder,
        truth: tuple[int, ...],
        n_prompt: int,
        luck: FloatArray,
        accept: float,
    ) -> None:
        self._decoder = decoder
        self._truth = truth
        self._n_prompt = n_prompt
        self._luck = luck
        self._accept = accept

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a decoder has
        return getattr(self._decoder, name)

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        positions: IntArray,
        **asked: Any,  # noqa: ANN401 - as it is
    ) -> tuple[StepOutput, Any]:
        output, after = self._decoder.step(tokens, state, positions, **asked)
        for row, column in enumerate(positions.tolist()):
            place = state.n_tokens + column + 1 - self._n_prompt
            if 0 <= place < len(self._truth):
                self._say(output, row, place)
        return output, after

    def _say(self, output: StepOutput, row: int, place: int) -> None:
        token = self._truth[place]
        if self._luck[place] >= self._accept:
            token = token + 1 if token < 1000 else token - 1
        logits = output.logits[0, row]
        largest = float(logits.max()) + LIFT
        logits[token] = largest
        output.logsumexp[0, row] = largest - math.log(min(self._accept, _SURE))


class DecoderPair:
    """Two decoders of one vocabulary, and the text of the larger one.

    Args:
        model: name of the larger one, as for `--model`.
        draft_model: of the smaller one.
        quantize: weights of the larger one's decoder.
        threads: per operator.
    """

    def __init__(self, model: str, draft_model: str, quantize: str, threads: int) -> None:
        self._large, self._small = (
            _decoder(name, form, threads)
            for name, form in ((model, quantize), (draft_model, "int4"))
        )
        # With one thread all work is this thread's, and waiting is not.
        self._clock = thread_time if threads == 1 else perf_counter
        spec = self._large.spec
        self._options = DecodingOptions(language="en", max_new_tokens=N_TOKENS)
        tokens = spec.tokens
        prompt = (tokens.sot, tokens.languages["en"], tokens.transcribe, tokens.no_timestamps)
        self._prompt = tuple(token for token in prompt if token is not None)
        self.cost = draft_cost(spec, self._small.spec)
        self._truth = self._decode(self._large, None)[0].tokens

    def _decode(self, large: Any, ahead: DraftState | None) -> tuple[Decoded, float]:  # noqa: ANN401
        loop = DecodingLoop(large, self._large.spec.tokens, self._options, N_POSITIONS / 50)
        state = _started(self._large)
        begin = self._clock()
        (decoded,) = loop.run(state, [DecodingTask(self._prompt, ahead=ahead)])
        return decoded, (self._clock() - begin) * 1000

    def round(self, accept: float, seed: int) -> tuple[float, float, DraftStats]:
        """Milliseconds of the text alone and with drafts, and what these did."""
        n_prompt = len(self._prompt)
        always = np.zeros(N_TOKENS, np.float32)
        large: Any = Told(self._large, self._truth, n_prompt, always, 1.0)
        luck = np.random.default_rng(seed).random(N_TOKENS, np.float32)
        small: Any = Told(self._small, self._truth, n_prompt, luck, accept)
        alone, alone_ms = self._decode(large, None)
        tally = DraftStats(self.cost)
        helped, helped_ms = self._decode(large, DraftState(small, _started(self._small), tally))
        if not alone.tokens == helped.tokens == self._truth:
            raise AssertionError("the text is not the same")
        return alone_ms, helped_ms, tally


def _decoder(model: str, quantize: str, threads: int) -> CachedDecoder:
    directory = resolve_model(model, ConvertOptions(quantize, "int8"))
    return CachedDecoder(directory, ModelSpec.load(directory), threads).open()


def _started(decoder: CachedDecoder) -> Any:  # noqa: ANN401 - the decoder's own state type
    shape = (1, N_POSITIONS, decoder.spec.dims.d_model)
    features = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    return decoder.start(features, (Padding(decoder.spec.dims.n_audio_ctx),))


def measure(pair: DecoderPair, accept: float, rounds: int) -> dict[str, Any]:
    """Medians of rounds in which so large a share of the draft is accepted."""
    done = [pair.round(accept, seed) for seed in range(rounds)]
    alone, helped = (np.array([one[at] for one in done]) for at in (0, 1))
    tallies = [one[2] for one in done]
    n_tokens = sum(tally.n_tokens for tally in tallies)
    return {
        "accept": accept,
        "alone_ms": round(float(np.median(alone)) / N_TOKENS, 3),
        "helped_ms": round(float(np.median(helped)) / N_TOKENS, 3),
        "times": round(float(np.median(alone / helped)), 3),
        "tokens_per_pass": round(n_tokens / sum(tally.n_passes for tally in tallies), 2),
        "drafted_per_token": round(sum(tally.n_steps for tally in tallies) / n_tokens, 2),
        "expected_times": round(n_tokens / sum(tally.spent for tally in tallies), 2),
    }


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Drafts by a small model, against none.")
    parser.add_argument("model", type=str)
    parser.add_argument("draft_model", type=str)
    parser.add_argument("--accept", type=float, nargs="+", default=[0.6, 0.7, 0.8, 0.9])
    parser.add_argument("--quantize", default="int8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    pair = DecoderPair(asked.model, asked.draft_model, asked.quantize, asked.threads)
    for accept in asked.accept:
        named = {"model": Path(asked.model).name, "draft_model": Path(asked.draft_model).name}
        form = {"quantize": asked.quantize, "threads": asked.threads}
        told = named | form | measure(pair, accept, asked.rounds)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
