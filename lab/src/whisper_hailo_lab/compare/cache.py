"""Decoding with and without a cache of keys and values: work, counted as it is done, and time.

Decoders with the same weights: a graph of fixed length (the only kind that an NPU has), a graph
that takes all tokens so far (no cache, but no padding either), and one with a cache; the last one
with 8-bit weights, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.fixed import FixedDecoder, FixedRunner, OnnxFixedRunner
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.select import hailo_form
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.protocols import AnyDecoder, Closing, Padding, StepOutput
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, IntArray
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.compare.paired import time_in_turns
from whisper_hailo_lab.harness.evaluate import Progress
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.wrappers import DecoderWrapper


@dataclass(slots=True)
class Work:
    """Work of a decoder so far.

    Attributes:
        runs: runs of the graph.
        rows: positions that were computed, each a row of queries in every attention.
        products: pairs of a query and a key of self-attention in one head and layer, masked pairs
            included.
        projected: positions that were projected to the vocabulary.
    """

    runs: int = 0
    rows: int = 0
    products: int = 0
    projected: int = 0

    def add_run(self, rows: int, keys: int, projected: int) -> None:
        """Add one run of the graph."""
        self.runs += 1
        self.rows += rows
        self.products += rows * keys
        self.projected += projected

    def since(self, before: Work) -> Work:
        """Return the work that was done after `before`."""
        return Work(
            runs=self.runs - before.runs,
            rows=self.rows - before.rows,
            products=self.products - before.products,
            projected=self.projected - before.projected,
        )


class CountingDecoder(DecoderWrapper):
    """A decoder whose work is counted; with a cache, a step computes the new positions only.

    Args:
        decoder: the wrapped decoder.
        work: total that is added to. The start is not counted: it is the same for all decoders.
    """

    def __init__(self, decoder: AnyDecoder, work: Work) -> None:
        super().__init__(decoder)
        self._work = work

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        positions: IntArray,
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, Any]:
        output, state = super().step(tokens, state, positions, **named)
        self._work.add_run(tokens.shape[1], state.n_tokens, len(positions))
        return output, state


@dataclass(frozen=True, slots=True)
class GrowingState:
    """State of a decoder without a cache.

    Attributes:
        empty: empty cache of the wrapped decoder.
        tokens: all tokens so far, `(batch, n_tokens)` int64.
    """

    empty: Any
    tokens: IntArray


class GrowingDecoder(CountingDecoder):
    """A decoder without its cache: a step computes all positions so far again."""

    @property
    def name(self) -> str:
        """Name of the engine."""
        return "growing"

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> GrowingState:
        """Return the state before the first token."""
        empty = super().start(audio_features, paddings, n_positions)
        n_batch = audio_features.shape[0]
        return GrowingState(empty, np.zeros((n_batch, 0), np.int64))

    def step(
        self,
        tokens: IntArray,
        state: GrowingState,
        positions: IntArray,
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, GrowingState]:
        """Decode all tokens from an empty cache, and discard the cache."""
        all_tokens = np.concatenate([state.tokens, tokens], axis=1)
        all_positions = positions + state.tokens.shape[1]
        output, _ = super().step(all_tokens, state.empty, all_positions, **named)
        return output, GrowingState(state.empty, all_tokens)

    def batch_size(self, state: GrowingState) -> int:
        return int(state.tokens.shape[0])

    def rewind(self, state: GrowingState, n_tokens: int) -> GrowingState:
        return GrowingState(state.empty, state.tokens[:, :n_tokens])


class CountingRunner(Closing):
    """A graph of fixed length: each run computes all its positions."""

    def __init__(self, runner: FixedRunner, work: Work) -> None:
        self._runner = runner
        self._work = work
        self.name = runner.name
        self.length = runner.length
        self.n_positions = runner.n_positions

    def open(self) -> Self:
        self._runner.open()
        return self

    def close(self) -> None:
        self._runner.close()

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        """Return the logits, and count the work by the shapes of input and output."""
        logits = self._runner.run(tokens, audio_features)
        length = tokens.shape[1]
        self._work.add_run(length, length, logits.shape[1])
        return logits


STEPS: Final = 32
"""Text positions of tiny's compiled decoder, which are the study's steps."""

WINDOW_S: Final = 10
ROUNDS: Final = 20

BASE: Final = "cached"
"""Decoder that the others are compared with."""

Decoders = dict[str, tuple[AnyDecoder, Work]]
"""Decoders by name, each with its work."""


def compare_cache(
    model: str, audio: Path, language: str, threads: int, progress: Progress
) -> ComparisonRecord:
    """Count and time the same decoding by every decoder.

    Args:
        model: checkpoint to convert.
        audio: recording for the real decoding, which transcribes its first 9 s.
        language: language of the recording.
        threads: threads of every decoder.
        progress: called before each round.
    """
    options = ConvertOptions("none", hailo=HailoOptions(WINDOW_S, STEPS))
    directory = resolve_model(model, options)
    int8_directory = resolve_model(model, ConvertOptions(quantize="int8"))
    spec = ModelSpec.load(directory)
    plan = WindowPlan.make(spec.dims, WINDOW_S)
    samples = load_audio(audio)[: plan.content_samples]
    tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
    n_prefix = len(tokenizer.prefix(language, "transcribe", timestamps=True))
    with ExitStack() as stack:
        encoder = stack.enter_context(OnnxEncoder(directory, spec, threads))
        decoders = _make_decoders(directory, int8_directory, spec, threads)
        for decoder, _ in decoders.values():
            stack.enter_context(decoder)
        mel = log_mel(pad_or_trim(samples, plan.window_samples), spec.dims.n_mels)
        features = encoder.encode(mel[np.newaxis])
        rows = _measure_steps(decoders, features, progress)
        transcribers = {
            name: Transcriber(encoder, decoder, tokenizer, plan)
            for name, (decoder, _) in decoders.items()
        }
        # With timestamps nothing is decoded again for the times of words.
        decoding = DecodingOptions(
            language=language,
            timestamps=True,
            anti_repetition=AntiRepetition(pad_to=0),
            max_new_tokens=STEPS - n_prefix,
        )
        rows += _measure_recording(transcribers, decoders, samples, decoding, progress)
    settings = {
        "model": model,
        "steps": STEPS,
        "window_s": WINDOW_S,
        "rounds": ROUNDS,
        "threads": threads,
        "audio": audio.name,
        "audio_s": samples.size / SAMPLE_RATE_HZ,
        "prefix": n_prefix,
        "padding": "none",
    }
    return ComparisonRecord("cache", settings, tuple(rows))


def _make_decoders(
    directory: Path, int8_directory: Path, spec: ModelSpec, threads: int
) -> Decoders:
    works = {name: Work() for name in ("fixed", "growing", BASE, "cached, 8-bit")}
    graph = hailo_form(directory, spec, "decoder")
    runner = CountingRunner(OnnxFixedRunner(graph, spec, threads), works["fixed"])
    cached = CachedDecoder(directory, spec, threads)
    int8 = CachedDecoder(int8_directory, ModelSpec.load(int8_directory), threads)
    decoders: dict[str, AnyDecoder] = {
        "fixed": FixedDecoder(runner, spec),
        "growing": GrowingDecoder(cached, works["growing"]),
        BASE: CountingDecoder(cached, works[BASE]),
        "cached, 8-bit": CountingDecoder(int8, works["cached, 8-bit"]),
    }
    return {name: (decoder, works[name]) for name, decoder in decoders.items()}


def _measure_steps(
    decoders: Decoders, features: FloatArray, progress: Progress
) -> list[dict[str, Any]]:
    """Return rows of 32 steps from an empty history, one arbitrary token each."""

    def take_steps(decoder: AnyDecoder) -> Callable[[], None]:
        def run() -> None:
            state = decoder.start(features, (Padding(None),))
            last = np.array([0], np.int64)
            first_token = 1000 % decoder.spec.dims.n_vocab
            for step in range(STEPS):
                token = np.array([[first_token + step]], np.int64)
                _, state = decoder.step(token, state, last)

        return run

    ways = {name: take_steps(decoder) for name, (decoder, _) in decoders.items()}
    return _measure_part("32 steps", ways, decoders, progress)


def _measure_recording(
    transcribers: dict[str, Transcriber],
    decoders: Decoders,
    samples: FloatArray,
    options: DecodingOptions,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Return rows of a recording from features to end-of-transcript."""
    texts: dict[str, str] = {}

    def transcribe(name: str) -> Callable[[], float]:
        def run() -> float:
            transcript = transcribers[name].transcribe(samples, options)
            texts[name] = transcript.text
            return transcript.timings.cross_kv_ms + transcript.timings.decode_ms

        return run

    ways = {name: transcribe(name) for name in transcribers}
    rows = _measure_part("a recording", ways, decoders, progress)
    return [row | {"text": texts[row["decoder"]]} for row in rows]


def _measure_part(
    part: str,
    ways: Mapping[str, Callable[[], float | None]],
    decoders: Decoders,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Return rows of one part: the work of one run, then the times of many in turns."""
    works: dict[str, Work] = {}
    for name, run in ways.items():
        total = decoders[name][1]
        before = replace(total)
        run()
        works[name] = total.since(before)
    times = time_in_turns(
        ways, ROUNDS, lambda number: progress(number, ROUNDS, f"cache: {part}")
    )
    return [
        {
            "what": part,
            "decoder": name,
            "runs": work.runs,
            "attention_rows": work.rows,
            "query_key_products": work.products,
            "projected_rows": work.projected,
            "ms": times.median_ms(name),
            "ratio": times.ratio(name, BASE),
        }
        for name, work in works.items()
    ]
