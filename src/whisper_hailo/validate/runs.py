"""One way to run each graph of a model directory: encoders on mel, decoders on tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from whisper_hailo.backends.cache import CacheNames
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.onnx_message import read_graph_bytes
from whisper_hailo.backends.state import StepInputs
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.convert.hailo import decoder as hailo_decoder
from whisper_hailo.convert.hailo import encoder as hailo_encoder
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.validate.inner import Feeds, InnerGraph

Encode: TypeAlias = Callable[[FloatArray], FloatArray]
"""`(batch, n_mels, n_frames)` to `(batch, n_positions, d_model)`."""

Logits: TypeAlias = Callable[[IntArray, FloatArray], FloatArray]
"""`(batch, n_tokens)` and `(batch, n_positions, d_model)` to `(batch, n_tokens, n_vocab)`."""


@dataclass(frozen=True, slots=True)
class NamedEncoder:
    """An encoder of any kind: its name for reports, and what runs it on windows."""

    graph: str
    encode: Encode


@dataclass(frozen=True, slots=True)
class NamedDecoder:
    """A decoder of any kind.

    Attributes:
        graph: name for reports.
        logits: runs it.
        pad_to: how far it pads features, 0 for not at all.
    """

    graph: str
    logits: Logits
    pad_to: int


@dataclass(frozen=True, slots=True)
class EncoderRun(NamedEncoder):
    """An encoder graph, which can be looked into.

    Attributes:
        feeds: graph inputs of one window `(n_mels, n_frames)`.
        open: the graph with such inputs.
        names: its value for each stage of the reference that is called otherwise.
    """

    feeds: Callable[[FloatArray], Feeds]
    open: Callable[[Feeds], InnerGraph]
    names: dict[str, str] = field(default_factory=dict)

    def inner(self, mel: FloatArray) -> InnerGraph:
        """The graph, fed with one window."""
        return self.open(self.feeds(mel))


@dataclass(frozen=True, slots=True)
class DecoderRun(NamedDecoder):
    """A decoder graph, which can be looked into.

    Attributes:
        feeds: graph inputs of one row of tokens `(n_tokens,)` and features.
        open: the graph with such inputs.
        names: its value for each stage of the reference that is called otherwise.
    """

    feeds: Callable[[IntArray, FloatArray], Feeds]
    open: Callable[[Feeds], InnerGraph]
    names: dict[str, str] = field(default_factory=dict)

    def inner(self, tokens: IntArray, features: FloatArray) -> InnerGraph:
        """The graph, fed with one row."""
        return self.open(self.feeds(tokens, features))


def cached_encoder(directory: Path) -> EncoderRun:
    """`encoder.onnx` of a model directory."""
    spec = ModelSpec.load(directory)
    label = _label(ENCODER_FILE, spec.encoder_quantization)

    def encode(mel: FloatArray) -> FloatArray:
        with OnnxEncoder(directory, spec) as encoder:
            return np.concatenate([encoder.encode(window[np.newaxis]) for window in mel])

    def opened(feeds: Feeds) -> InnerGraph:
        return InnerGraph.from_file(directory / ENCODER_FILE, feeds, label=label)

    return EncoderRun(label, encode, lambda mel: {"mel": mel[np.newaxis]}, opened)


def cached_decoder(directory: Path, pad_to: int | None = None) -> DecoderRun:
    """`cross_kv.onnx` and `decoder.onnx`, padded to the full context as they are used.

    `pad_to` is another target, 0 for none.
    """
    spec = ModelSpec.load(directory)
    label = _label(DECODER_FILE, spec.quantization)
    target = spec.dims.n_audio_ctx if pad_to is None else pad_to
    padding = Padding(target or None)

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        positions = np.arange(tokens.shape[1])
        rows = []
        with CachedDecoder(directory, spec) as decoder:
            for row, audio in zip(tokens, features, strict=True):
                state = decoder.start(audio[np.newaxis], (padding,))
                rows.append(decoder.step(row[np.newaxis], state, positions)[0].logits)
        return np.concatenate(rows)

    def feeds(tokens: IntArray, features: FloatArray) -> Feeds:
        return _step_feeds(directory, spec, tokens[np.newaxis], features[np.newaxis], padding)

    def opened(feeds: Feeds) -> InnerGraph:
        return InnerGraph.from_file(directory / DECODER_FILE, feeds, label=label)

    return DecoderRun(label, logits, target, feeds, opened, _sums(spec.dims.n_decoder_layers))


def _sums(n_layers: int) -> dict[str, str]:
    """Of the cached decoder: each stage's value, called by the norm that takes it."""
    found = {}
    for i in range(n_layers):
        stem, after = f"decoder.layers.{i}", f"decoder.layers.{i + 1}.self_attn_layer_norm"
        found[f"{stem}.self_attn.residual"] = f"{stem}.encoder_attn_layer_norm.in"
        found[f"{stem}.encoder_attn.residual"] = f"{stem}.final_layer_norm.in"
        found[f"{stem}.out"] = f"{after if i + 1 < n_layers else 'decoder.layer_norm'}.in"
    return found


def _label(file: str, quantization: str) -> str:
    return file if quantization == "none" else f"{file} {quantization}"


def _step_feeds(
    directory: Path, spec: ModelSpec, tokens: IntArray, features: FloatArray, padding: Padding
) -> dict[str, AnyArray]:
    """Inputs of the step graph for a first step of all tokens."""
    dims = spec.dims
    with CachedDecoder(directory, spec) as decoder:
        state = decoder.start(features, (padding,))
    shape = (1, dims.n_decoder_heads, tokens.shape[1], dims.cache_head_size)
    past = dict.fromkeys(CacheNames.of(dims.n_decoder_layers).past, np.zeros(shape, np.float32))
    after = replace(state, n_tokens=tokens.shape[1])
    feeds = state.cross.read() | past | StepInputs(dims.n_text_ctx).make(tokens, after)
    return feeds | {"positions": np.arange(tokens.shape[1])}


def hailo_encoder_run(path: Path, encoded: bytes | None = None, name: str = "") -> EncoderRun:
    """A graph with the Hailo-form encoder's input and output: a file, or serialised."""
    label, output = name or path.name, hailo_encoder.OUTPUT

    def feeds(mel: FloatArray) -> Feeds:
        return {hailo_encoder.INPUT: np.ascontiguousarray(mel[np.newaxis, :, np.newaxis])}

    def opened(feeds: Feeds) -> InnerGraph:
        data = read_graph_bytes(path) if encoded is None else encoded
        return InnerGraph.from_bytes(data, feeds, label=label, folder=path.parent)

    def encode(mel: FloatArray) -> FloatArray:
        rows = [feeds(window) for window in mel]
        runs = opened(rows[0]).run_each([output], rows)
        return np.concatenate([run[output] for run in runs])

    return EncoderRun(label, encode, feeds, opened, {"audio_features": output})


def hailo_decoder_run(path: Path, encoded: bytes | None = None, name: str = "") -> DecoderRun:
    """A graph with the Hailo-form decoder's inputs and output: a file, or serialised."""
    label, output = name or path.name, hailo_decoder.LOGITS

    def feeds(tokens: IntArray, features: FloatArray) -> Feeds:
        return {
            hailo_decoder.TOKENS: tokens[np.newaxis],
            hailo_decoder.FEATURES: features[np.newaxis],
        }

    def opened(feeds: Feeds) -> InnerGraph:
        data = read_graph_bytes(path) if encoded is None else encoded
        return InnerGraph.from_bytes(data, feeds, label=label, folder=path.parent)

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        rows = [feeds(*row) for row in zip(tokens, features, strict=True)]
        runs = opened(rows[0]).run_each([output], rows)
        return np.concatenate([run[output] for run in runs])

    return DecoderRun(label, logits, 0, feeds, opened, {"decoder.embedded": "embedded"})
