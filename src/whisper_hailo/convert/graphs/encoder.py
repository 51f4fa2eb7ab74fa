"""The encoder graph: log-mel of any even length up to the full context -> audio features.

Outliers of its activations are taken out of the way of 8-bit products.
A tensor that is rounded as a whole has steps of 1/255 of its range. A few channels of Whisper's
encoder reach far beyond the others: in real `base` five hidden units of layer 3 come to 88, all
others stay below 9, and rounded with them the audio features keep 15 dB. Two cures, both free of
training: a channel that several products read is divided by a factor that their weights take up
(SmoothQuant: Xiao et al., 2022), and the loudest hidden units are computed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.layers import (
    Arithmetic,
    Linear,
    attend,
    attend_in_half,
    gelu,
    layer_norm,
    linear,
    mlp,
    quantize_once,
    query,
    stored_linear,
)
from whisper_hailo.convert.graphs.onnx_graph import FLOAT, GELU_OPSET, OPSET, Graph, WhisperBuilder
from whisper_hailo.core.spec import GROUPED_WIDTH
from whisper_hailo.core.types import FloatArray, IntArray

Peaks: TypeAlias = Mapping[str, FloatArray]
"""Largest magnitude of each channel `(n,)` that audio reached, by the value's name."""

PEAK_SUFFIX: Final = ".peaks"


def encoder_graph(
    checkpoint: Checkpoint,
    arithmetic: Arithmetic = Arithmetic.FLOAT,
    *,
    half: bool = False,
    peaks: Peaks | None = None,
    shows_peaks: bool = False,
) -> Graph:
    """Author the encoder.

    Input `mel (batch, n_mels, n_frames)` float32, output `audio_features
    (batch, n_frames / 2, d_model)` float32; batch and frames are dynamic.

    The arithmetic is that of the matrix products; convolutions, norms, additions, softmax and the
    first attention's products stay float32, since every layer repeats their errors. With `half`,
    attention and GELU are float16, unless the arithmetic is float; attention only where the runtime
    takes heads of that width. `TENSOR_8` keeps outliers apart by `peaks`, see `measure_peaks`;
    `shows_peaks` also outputs those of everything that products read.
    """
    half = half and arithmetic is not Arithmetic.FLOAT
    b = _Encoder("whisper_encoder", checkpoint, GELU_OPSET if half else OPSET)
    b.half, b.peaks, b.shows_peaks = half, peaks or {}, shows_peaks
    x = b.input("mel", FLOAT, ("batch", b.dims.n_mels, "n_frames"))
    for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
        x = gelu(b, convolution(b, x, name, stride), f"{name}.gelu", half=half)
    x = b.op("Transpose", (x,), "encoder.conv.turned", perm=[0, 2, 1])
    table = b.stored("encoder.embed_positions.weight")
    n_positions = b.op("Shape", (x,), "encoder.n_positions", start=1, end=2)
    limits = (b.constant([0]), n_positions, b.constant([0]))
    x = b.op("Add", (x, b.op("Slice", (table, *limits), "encoder.positions")), "encoder.embedded")
    for i in range(b.dims.n_encoder_layers):
        x = b.self_attention(x, f"encoder.layers.{i}", arithmetic if i else Arithmetic.FLOAT)
        x = b.mlp(x, f"encoder.layers.{i}", arithmetic)
    layer_norm(b, x, "audio_features", "encoder.layer_norm")
    b.output("audio_features", FLOAT, ("batch", "n_positions", b.dims.d_model))
    return b.build()


def convolution(b: WhisperBuilder, x: str, name: str, stride: int) -> str:
    """Write `(batch, n_in, n)` -> `(batch, n_out, n / stride)`, three wide."""
    inputs = (x, b.stored(f"{name}.weight"), b.stored(f"{name}.bias"))
    return b.op("Conv", inputs, name, kernel_shape=[3], pads=[1, 1], strides=[stride])


class _Encoder(WhisperBuilder):
    """Writes the halves of a layer; for the attributes see `encoder_graph`."""

    half: bool
    peaks: Peaks
    shows_peaks: bool

    def self_attention(self, x: str, layer: str, arithmetic: Arithmetic) -> str:
        """Write `x + out(attention(norm(x)))` over all positions."""
        name, size = f"{layer}.self_attn", self.dims.d_model // self.dims.n_encoder_heads
        keys = stored_linear(self, f"{name}.k_proj", bias=False)
        values, out = (stored_linear(self, f"{name}.{part}_proj") for part in ("v", "out"))
        if (factors := self._factors(f"{name}.mixed", out)) is not None:
            values = values.map_outputs(lambda part: (part.T / factors).T)
            out = out.map_inputs(lambda matrix: matrix * factors)
        parts = (query(self, name, size), keys, values)
        normed, readers = self._norm(x, f"{name}.normed", f"{name}_layer_norm", *parts)
        seen = quantize_once(self, normed, arithmetic)
        q, k, v = (
            linear(self, seen, f"{name}.{part}", reader, arithmetic)
            for part, reader in zip("qkv", readers, strict=True)
        )
        takes_half = self.half and size % GROUPED_WIDTH == 0
        attended = attend_in_half if takes_half else attend
        mixed = attended(self, f"{name}.mixed", (q, k, v), self.dims.n_encoder_heads)
        self._show(mixed)
        change = linear(self, mixed, f"{name}.out", out, arithmetic)
        return self.op("Add", (x, change), f"{name}.residual")

    def mlp(self, x: str, layer: str, arithmetic: Arithmetic) -> str:
        """Write `x + fc2(gelu(fc1(norm(x))))`, the loudest hidden units in float32."""
        hidden = f"{layer}.gelu"
        fc1, fc2 = (stored_linear(self, f"{layer}.{part}") for part in ("fc1", "fc2"))
        normed, (fc1,) = self._norm(x, f"{layer}.mlp_normed", f"{layer}.final_layer_norm", fc1)
        if hidden not in self.peaks:
            change = mlp(self, normed, layer, (fc1, fc2), arithmetic, half=self.half)
            self._show(hidden)
            return self.op("Add", (x, change), f"{layer}.out")
        quiet, loud = loudest_units(self.peaks[hidden])
        for name, total, units, how in (
            (f"{layer}.loud", f"{layer}.loud.out", loud, Arithmetic.FLOAT),
            (f"{layer}.quiet", f"{layer}.out", quiet, arithmetic),
        ):
            products = select_units(fc1, fc2 if units is quiet else Linear(fc2.matrix), units)
            x = self.op("Add", (x, mlp(self, normed, name, products, how, half=self.half)), total)
        return x

    def _norm(self, x: str, name: str, stem: str, *readers: Linear) -> tuple[str, list[Linear]]:
        """Write the norm called `stem`; return it and its readers, smoothed together."""
        factors = self._factors(name, *readers)
        normed = layer_norm(self, x, name, stem, factors=factors)
        self._show(normed)
        if factors is None:
            return normed, list(readers)
        return normed, [reader.map_inputs(lambda part: part * factors) for reader in readers]

    def _factors(self, name: str, *readers: Linear) -> FloatArray | None:
        peaks = self.peaks.get(name)
        return None if peaks is None else smoothing_factors(peaks, readers)

    def _show(self, x: str) -> None:
        """Output the largest magnitude of each channel of `x (batch, n, n_channels)`."""
        if self.shows_peaks:
            magnitudes = self.op("Abs", (x,), f"{x}.magnitudes")
            peaks = f"{x}{PEAK_SUFFIX}"
            self.output(
                self.op("ReduceMax", (magnitudes,), peaks, axes=[0, 1], keepdims=0),
                FLOAT,
                ("n_channels",),
            )


def smoothing_factors(peaks: FloatArray, readers: Sequence[Linear]) -> FloatArray:
    """Share the range of each channel between its values and the weights that read it.

    `peaks (n_in,)` float32 are those of values that all `readers (n_out, n_in)` read. Returns
    `(n_in,)` float32 to divide the values by and multiply the weights with: the root of the ratio
    of both largest magnitudes, 1 in the geometric mean.
    """
    weights = np.max([np.abs(reader.matrix.load()).max(axis=0) for reader in readers], axis=0)
    tiny = np.finfo(np.float32).tiny
    ratios = np.log(np.maximum(peaks, tiny)) - np.log(np.maximum(weights, tiny))
    ratios[(peaks == 0) | (weights == 0)] = 0
    factors: FloatArray = np.exp((ratios - ratios.mean()) / 2).astype(np.float32)
    return factors


def loudest_units(peaks: FloatArray, n_units: int = 32) -> tuple[IntArray, IntArray]:
    """Return indices of all but the loudest channels, and of the loudest, each in ascending order.

    At most half of the channels are loud; blocks of 32 suit every kernel.
    """
    order, n_units = np.argsort(peaks, kind="stable"), min(n_units, peaks.size // 2)
    return np.sort(order[:-n_units]), np.sort(order[-n_units:])


def select_units(fc1: Linear, fc2: Linear, units: IntArray) -> tuple[Linear, Linear]:
    """Return both products of an MLP with some of its hidden units."""
    return (
        fc1.map_outputs(lambda part: part[units], units.size),
        fc2.map_inputs(lambda matrix: matrix[:, units], units.size),
    )
