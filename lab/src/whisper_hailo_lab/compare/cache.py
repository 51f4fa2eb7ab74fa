"""With a cache against without one: work counted while it is done, and time.

Three kinds of decoders with the same weights: a graph of fixed length (an NPU's only way), a graph
that takes all tokens so far (no cache, but no waste either), and one with a cache; the last also
with 8-bit weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
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
class Count:
    """Work of a decoder so far.

    Attributes:
        runs: times that the graph ran.
        rows: positions that went through it, each a row of queries of every attention.
        products: pairs of a query and a key in self-attention, per head and layer: for every row
            as many as there are positions that it is compared with, masked ones included.
        projected: positions projected to the vocabulary.
    """

    runs: int = 0
    rows: int = 0
    products: int = 0
    projected: int = 0

    def add(self, rows: int, keys: int, projected: int) -> None:
        """One run of the graph."""
        self.runs += 1
        self.rows += rows
        self.products += rows * keys
        self.projected += projected


class CountingDecoder(DecoderWrapper):
    """A decoder with a cache: a step computes the new positions only.

    Args:
        decoder: what really decodes.
        count: where the work is added up; beginning is not counted, since every decoder does it
            once.
    """

    def __init__(self, decoder: AnyDecoder, count: Count) -> None:
        super().__init__(decoder)
        self._count = count

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        positions: IntArray,
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, Any]:
        output, state = super().step(tokens, state, positions, **named)
        self._count.add(tokens.shape[1], state.n_tokens, len(positions))
        return output, state


@dataclass(frozen=True, slots=True)
class GrowingState:
    """An empty cache of the inner decoder and all tokens so far, `(batch, n_tokens)` int64."""

    empty: Any
    tokens: IntArray


class GrowingDecoder(CountingDecoder):
    """The same graph without its cache: a step computes all positions so far again."""

    @property
    def name(self) -> str:
        """Says that nothing is kept."""
        return "growing"

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> GrowingState:
        empty = super().start(audio_features, paddings, n_positions)
        return GrowingState(empty, np.zeros((audio_features.shape[0], 0), np.int64))

    def step(
        self,
        tokens: IntArray,
        state: GrowingState,
        positions: IntArray,
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, GrowingState]:
        """All tokens again from an empty cache, which is then thrown away."""
        everything = np.concatenate([state.tokens, tokens], axis=1)
        wanted = positions + state.tokens.shape[1]
        output, _ = super().step(everything, state.empty, wanted, **named)
        return output, GrowingState(state.empty, everything)

    def batch_size(self, state: GrowingState) -> int:
        return int(state.tokens.shape[0])

    def rewind(self, state: GrowingState, n_tokens: int) -> GrowingState:
        return GrowingState(state.empty, state.tokens[:, :n_tokens])


class CountingRunner(Closing):
    """A fixed graph: every run computes its whole length, whatever is in it."""

    def __init__(self, inner: FixedRunner, count: Count) -> None:
        self._inner, self._count = inner, count
        self.name, self.length, self.n_positions = inner.name, inner.length, inner.n_positions

    def open(self) -> Self:
        self._inner.open()
        return self

    def close(self) -> None:
        self._inner.close()

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        """Run, counted by the shapes of what really goes in and comes out."""
        logits = self._inner.run(tokens, audio_features)
        self._count.add(tokens.shape[1], tokens.shape[1], logits.shape[1])
        return logits


STEPS: Final = 32
"""Text positions of tiny's compiled decoder: the study's steps."""

WINDOW_S: Final = 10
ROUNDS: Final = 20
BASE: Final = "cached"

Decoders = dict[str, tuple[AnyDecoder, Count]]
"""By name, each with where its work is added up."""


def compare_cache(
    model: str, audio: Path, language: str, threads: int, progress: Progress
) -> ComparisonRecord:
    """Count and time the same decoding by all of them.

    Args:
        model: checkpoint to convert.
        audio: a recording for the real decoding; its first 9 s are heard.
        language: of the recording.
        threads: for all.
        progress: told about each round.
    """
    options = ConvertOptions("none", hailo=HailoOptions(WINDOW_S, STEPS))
    directory = resolve_model(model, options)
    small = resolve_model(model, ConvertOptions(quantize="int8"))
    spec = ModelSpec.load(directory)
    plan = WindowPlan.make(spec.dims, WINDOW_S)
    samples = load_audio(audio)[: plan.content_samples]
    with ExitStack() as stack:
        encoder = stack.enter_context(OnnxEncoder(directory, spec, threads))
        decoders = _decoders(directory, small, spec, threads)
        for decoder, _ in decoders.values():
            stack.enter_context(decoder)
        mel = log_mel(pad_or_trim(samples, plan.window_samples), spec.dims.n_mels)[np.newaxis]
        features = encoder.encode(mel)
        rows = _plain_steps(decoders, features, progress)
        tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
        transcribers = {
            name: Transcriber(encoder, decoder, tokenizer, plan)
            for name, (decoder, _) in decoders.items()
        }
        n_prefix = len(tokenizer.prefix(language, "transcribe", timestamps=True))
        # With timestamps nothing is decoded a second time, for the times of words.
        wanted = DecodingOptions(
            language=language,
            timestamps=True,
            anti_repetition=AntiRepetition(pad_to=0),
            max_new_tokens=STEPS - n_prefix,
        )
        rows += _real_decoding(transcribers, decoders, samples, wanted, progress)
    settings = {
        "model": model, "steps": STEPS, "window_s": WINDOW_S, "rounds": ROUNDS,
        "threads": threads, "audio": audio.name, "audio_s": samples.size / SAMPLE_RATE_HZ,
        "prefix": n_prefix, "padding": "none",
    }  # fmt: skip
    return ComparisonRecord("cache", settings, tuple(rows))


def _decoders(directory: Path, small: Path, spec: ModelSpec, threads: int) -> Decoders:
    counts = {name: Count() for name in ("fixed", "growing", BASE, "cached, 8-bit")}
    runner = OnnxFixedRunner(hailo_form(directory, spec, "decoder"), spec, threads)
    cached = CachedDecoder(directory, spec, threads)
    int8 = CachedDecoder(small, ModelSpec.load(small), threads)
    made: dict[str, AnyDecoder] = {
        "fixed": FixedDecoder(CountingRunner(runner, counts["fixed"]), spec),
        "growing": GrowingDecoder(cached, counts["growing"]),
        BASE: CountingDecoder(cached, counts[BASE]),
        "cached, 8-bit": CountingDecoder(int8, counts["cached, 8-bit"]),
    }
    return {name: (decoder, counts[name]) for name, decoder in made.items()}


def _plain_steps(
    decoders: Decoders, features: FloatArray, progress: Progress
) -> list[dict[str, Any]]:
    """32 steps from an empty history, one new token each, whatever the tokens are."""

    def steps(decoder: AnyDecoder) -> Callable[[], None]:
        def run() -> None:
            state = decoder.start(features, (Padding(None),))
            last = np.array([0], np.int64)
            for token in range(STEPS):
                fed = np.array([[1000 % decoder.spec.dims.n_vocab + token]], np.int64)
                _, state = decoder.step(fed, state, last)

        return run

    return _measured(
        "32 steps", {name: steps(one) for name, (one, _) in decoders.items()}, decoders, progress
    )


def _real_decoding(
    transcribers: dict[str, Transcriber],
    decoders: Decoders,
    samples: FloatArray,
    options: DecodingOptions,
    progress: Progress,
) -> list[dict[str, Any]]:
    """A recording from features to end-of-transcript, within the fixed graph's length."""
    texts: dict[str, str] = {}

    def run(name: str) -> Callable[[], float]:
        def transcribe() -> float:
            transcript = transcribers[name].transcribe(samples, options)
            texts[name] = transcript.text
            return transcript.timings.cross_kv_ms + transcript.timings.decode_ms

        return transcribe

    rows = _measured("a recording", {name: run(name) for name in transcribers}, decoders, progress)
    return [row | {"text": texts[row["decoder"]]} for row in rows]


def _measured(
    what: str,
    runs: Mapping[str, Callable[[], float | None]],
    decoders: Decoders,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Rows of one part: the work of one run, then the times of many in turns."""
    work: dict[str, dict[str, int]] = {}
    for name, run in runs.items():
        count = decoders[name][1]
        before = (count.runs, count.rows, count.products, count.projected)
        run()
        after = (count.runs, count.rows, count.products, count.projected)
        keys = ("runs", "attention_rows", "query_key_products", "projected_rows")
        work[name] = {k: b - a for k, a, b in zip(keys, before, after, strict=True)}
    times = time_in_turns(runs, ROUNDS, lambda number: progress(number, ROUNDS, f"cache: {what}"))
    return [
        {"what": what, "decoder": name}
        | work[name]
        | {"ms": times.median_ms(name), "ratio": times.ratio(name, BASE)}
        for name in runs
    ]
