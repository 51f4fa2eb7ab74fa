"""The reference for every form: the checkpoint in float64, or else the float32 graphs.

The float64 model is written plainly in NumPy. It shares nothing with the graph builders but the
reader of the checkpoint's arrays: no fused products, no folded scales, no caches, and real zero
rows. It is slow, and meant to be read.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_tools.validate.runs import (
    cached_decoder,
    cached_encoder,
    stage_values,
)

Float64 = NDArray[np.float64]
Stage = tuple[str, Float64]

LAYER_NORM_EPSILON = 1e-5
_erf = np.frompyfunc(math.erf, 1, 1)
"""NumPy has no error function of its own; Python's is exact to the last bit or so."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The model of a checkpoint; every array is read when it is used, and freed again."""

    checkpoint: Checkpoint

    @property
    def name(self) -> str:
        """Name for reports."""
        return f"checkpoint {self.checkpoint.directory.name} in float64"

    def encode(self, mel: FloatArray) -> Float64:
        """Return features `(batch, n_frames / 2, d_model)` of `mel (batch, n_mels, n_frames)`."""
        return _last_value(self.encoder_stages(mel))

    def logits(
        self, tokens: IntArray, features: FloatArray | Float64, pad_to: int = 0
    ) -> Float64:
        """Return logits `(batch, n_tokens, n_vocab)`.

        Args:
            tokens: `(batch, n_tokens)` int64.
            features: `(batch, n_positions, d_model)`.
            pad_to: positions that the features are padded to with zero rows; fewer than there are
                add nothing.
        """
        return _last_value(self.decoder_stages(tokens, features, pad_to))

    def encoder_stages(self, mel: FloatArray) -> Iterator[Stage]:
        """Yield values along the encoder, under their names in our graphs.

        Args:
            mel: `(batch, n_mels, n_frames)`, `n_frames` even.

        Yields:
            name and value: both convolutions `(batch, d_model, n)`, then the residual stream
            `(batch, n_positions, d_model)` after its positions, after each attention and after each
            layer, at last the features.
        """
        dims = self.checkpoint.config.dims
        x = np.asarray(mel, np.float64)
        for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
            x = gelu(self._convolve(x, name, stride))
            yield f"{name}.gelu", x
        x = x.transpose(0, 2, 1)
        x = x + self._array("encoder.embed_positions.weight")[: x.shape[1]]
        yield "encoder.embedded", x
        for i in range(dims.n_encoder_layers):
            layer = f"encoder.layers.{i}"
            x = x + self._attend(x, x, f"{layer}.self_attn", dims.n_encoder_heads)
            yield f"{layer}.self_attn.residual", x
            x = x + self._feed_forward(x, layer)
            yield f"{layer}.out", x
        yield "audio_features", self._norm(x, "encoder.layer_norm")

    def decoder_stages(
        self, tokens: IntArray, features: FloatArray | Float64, pad_to: int = 0
    ) -> Iterator[Stage]:
        """Yield values along the decoder, all positions at once; see `encoder_stages`."""
        dims = self.checkpoint.config.dims
        n_zeros = max(0, pad_to - features.shape[1])
        audio = np.pad(np.asarray(features, np.float64), ((0, 0), (0, n_zeros), (0, 0)))
        positions = self._array("decoder.embed_positions.weight")[: tokens.shape[1]]
        x = self._array("decoder.embed_tokens.weight")[tokens] + positions
        yield "decoder.embedded", x
        for i in range(dims.n_decoder_layers):
            layer = f"decoder.layers.{i}"
            heads = dims.n_decoder_heads
            x = x + self._attend(x, x, f"{layer}.self_attn", heads, causal=True)
            yield f"{layer}.self_attn.residual", x
            x = x + self._attend(x, audio, f"{layer}.encoder_attn", heads)
            yield f"{layer}.encoder_attn.residual", x
            x = x + self._feed_forward(x, layer)
            yield f"{layer}.out", x
        x = self._norm(x, "decoder.layer_norm")
        yield "decoder.hidden", x
        yield "logits", x @ self._array(self.checkpoint.projection_name).T

    def _array(self, name: str) -> Float64:
        return self.checkpoint.read(name).astype(np.float64)

    def _convolve(self, x: Float64, name: str, stride: int) -> Float64:
        """Convolve along time, kernel 3, one zero at either end: `(batch, n_in, n)`."""
        weight = self._array(f"{name}.weight")
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
        n_out = (x.shape[2] - 1) // stride + 1
        parts = []
        for tap in range(weight.shape[2]):
            inputs = padded[:, :, tap : tap + stride * n_out : stride]
            parts.append(weight[:, :, tap] @ inputs)
        total: Float64 = np.sum(parts, axis=0) + self._array(f"{name}.bias")[:, None]
        return total

    def _linear(self, x: Float64, name: str, *, bias: bool = True) -> Float64:
        product = x @ self._array(f"{name}.weight").T
        if not bias:
            return product
        return product + self._array(f"{name}.bias")

    def _norm(self, x: Float64, name: str) -> Float64:
        """Apply LayerNorm over the last axis."""
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(centred**2, axis=-1, keepdims=True)
        unit: Float64 = centred / np.sqrt(variance + LAYER_NORM_EPSILON)
        return unit * self._array(f"{name}.weight") + self._array(f"{name}.bias")

    def _feed_forward(self, x: Float64, layer: str) -> Float64:
        normed = self._norm(x, f"{layer}.final_layer_norm")
        inner = self._linear(normed, f"{layer}.fc1")
        return self._linear(gelu(inner), f"{layer}.fc2")

    def _attend(
        self,
        x: Float64,
        memory: Float64,
        name: str,
        heads: int,
        *,
        causal: bool = False,
    ) -> Float64:
        """Attend from the normed `x` to `memory`, which is normed, too, where it is `x` itself."""
        normed = self._norm(x, f"{name}_layer_norm")
        source = normed if memory is x else memory
        q = self._linear(normed, f"{name}.q_proj")
        k = self._linear(source, f"{name}.k_proj", bias=False)
        v = self._linear(source, f"{name}.v_proj")
        size = x.shape[2] // heads
        attended = np.empty_like(q)
        for row in range(x.shape[0]):
            for head in range(heads):  # one by one: the scores of all would not fit
                part = slice(head * size, (head + 1) * size)
                scores = q[row, :, part] @ k[row, :, part].T / math.sqrt(size)
                if causal:
                    scores[np.triu(np.ones(scores.shape, bool), 1)] = -np.inf
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
                attended[row, :, part] = weights @ v[row, :, part]
        return self._linear(attended, f"{name}.out_proj")


def _last_value(stages: Iterator[Stage]) -> Float64:
    """Return the value of the last stage; no earlier one is kept."""
    ((_, value),) = deque(stages, maxlen=1)
    return value


def gelu(x: Float64) -> Float64:
    """Return the exact GELU, by the error function, not by tanh."""
    erf = np.asarray(_erf(x / math.sqrt(2.0)), np.float64)
    result: Float64 = 0.5 * x * (1.0 + erf)
    return result


class GraphSources:
    """The folders with the graphs to compare.

    Args:
        directory: the model directory.
        checkpoint: the one that it was converted from, if given.
        work: empty folder for graphs that are made for the comparison.
    """

    def __init__(
        self,
        directory: Path,
        spec: ModelSpec,
        checkpoint: Checkpoint | None,
        work: Path,
    ) -> None:
        self.directory = directory
        self.spec = spec
        self.checkpoint = checkpoint
        self._work = work

    @property
    def float_encoder(self) -> Path:
        """Model directory whose encoder is float32: this one, or a conversion of the checkpoint."""
        if self.spec.encoder_quantization == "none":
            return self.directory
        return self._float_directory

    @property
    def float_decoder(self) -> Path:
        """Model directory whose decoder is float32; see `float_encoder`."""
        if self.spec.quantization == "none":
            return self.directory
        return self._float_directory

    @cached_property
    def _float_directory(self) -> Path:
        out = self._work / "float32"
        if self.checkpoint is None:
            raise ModelError(
                f"{display_path(self.directory)} does not hold the float32 graphs that this "
                "comparison needs; give the original checkpoint with --checkpoint"
            )
        options = ConvertOptions("none")
        convert_checkpoint(
            self.checkpoint.directory, out, options, source=self.spec.source
        )
        return out


class GraphReference:
    """The float32 graphs of a model directory, where there is no checkpoint."""

    name = "float32 graphs of the model directory"

    def __init__(self, sources: GraphSources) -> None:
        self._dims = sources.spec.dims
        self._encoder = cached_encoder(sources.float_encoder)
        self._folder = sources.float_decoder

    def encode(self, mel: FloatArray) -> FloatArray:
        """See `Reference.encode`."""
        return self._encoder.encode(mel)

    def logits(
        self, tokens: IntArray, features: FloatArray, pad_to: int = 0
    ) -> FloatArray:
        """See `Reference.logits`."""
        return cached_decoder(self._folder, pad_to).logits(tokens, features)

    def encoder_stages(self, mel: FloatArray) -> Iterator[tuple[str, AnyArray]]:
        """Yield values along the encoder for the first window."""
        stages = stage_names("encoder", self._dims.n_encoder_layers)
        return stage_values(self._encoder, stages, mel[0])

    def decoder_stages(
        self, tokens: IntArray, features: FloatArray, pad_to: int = 0
    ) -> Iterator[tuple[str, AnyArray]]:
        """Yield values along the decoder for the first row."""
        run = cached_decoder(self._folder, pad_to)
        stages = stage_names("decoder", self._dims.n_decoder_layers)
        return stage_values(run, stages, tokens[0], features[0])


def stage_names(part: str, n_layers: int) -> list[str]:
    """Return the stages along a part's data path, as `Reference` yields them."""
    if part == "encoder":
        first = ["encoder.conv1.gelu", "encoder.conv2.gelu", "encoder.embedded"]
        steps = ["self_attn.residual", "out"]
        last = ["audio_features"]
    else:
        first = ["decoder.embedded"]
        steps = ["self_attn.residual", "encoder_attn.residual", "out"]
        last = ["decoder.hidden", "logits"]
    inner = [f"{part}.layers.{i}.{step}" for i in range(n_layers) for step in steps]
    return [*first, *inner, *last]


@dataclass(frozen=True, slots=True)
class DecoderTokens:
    """The token histories that all decoders are fed.

    Attributes:
        tokens: `(n_windows, length)` int64: prefix, text, end-of-transcript, zeros.
        n_prefix: forced tokens at the beginning.
        lengths: for each window, tokens before the zeros.
    """

    tokens: IntArray
    n_prefix: int
    lengths: tuple[int, ...]

    def deciding_positions(self) -> Iterator[tuple[int, int]]:
        """Yield row and position of all logits that choose a token of the transcript."""
        for row, length in enumerate(self.lengths):
            for position in range(self.n_prefix - 1, length - 1):
                yield row, position


class ReferenceModel:
    """A reference and its results for the test inputs.

    Attributes:
        mel: `(n_windows, n_mels, n_frames)` float32 of the windows that are compared.
        fed: the tokens that decoders are fed for these windows.
        features: `(n_windows, n_positions, d_model)` float32 audio features of the reference.
    """

    def __init__(
        self, source: Reference | GraphReference, mel: FloatArray, fed: DecoderTokens
    ) -> None:
        self.source = source
        self.mel = mel
        self.fed = fed
        self.features: FloatArray = source.encode(mel).astype(np.float32)
        self._logits: dict[int, AnyArray] = {}

    def logits(self, pad_to: int) -> AnyArray:
        """Return the logits for its own features, each padding computed once."""
        if pad_to not in self._logits:
            logits = self.source.logits(self.fed.tokens, self.features, pad_to)
            self._logits[pad_to] = logits
        return self._logits[pad_to]
