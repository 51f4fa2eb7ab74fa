"""The encoder graph: log-mel of any even length up to the full context -> audio features.

Outliers of its activations are kept out of 8-bit products. A tensor that is rounded as a whole has
steps of 1/255 of its range, and a few channels of Whisper's encoder reach far beyond the others: in
real `base` five hidden units of layer 3 come to 88, all others stay below 9, and rounded with them
the audio features keep 15 dB. Two remedies need no training: a channel that several products read
is divided by a factor that their weights take up (SmoothQuant: Xiao et al., 2022), and the loudest
hidden units are computed in float32.
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
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    GELU_OPSET,
    OPSET,
    Graph,
    WhisperBuilder,
)
from whisper_hailo.core.spec import GROUPED_WIDTH
from whisper_hailo.core.types import FloatArray, IntArray

Peaks: TypeAlias = Mapping[str, FloatArray]
"""A value's name to the largest magnitude of each of its channels, `(n,)`, with real audio."""

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
    takes heads of that width. `TENSOR_8` separates outliers by `peaks`, see `measure_peaks`;
    `shows_peaks` also outputs the peaks of everything that products read.
    """
    half = half and arithmetic is not Arithmetic.FLOAT
    b = _Encoder(checkpoint, half=half, peaks=peaks or {}, shows_peaks=shows_peaks)
    x = b.input("mel", FLOAT, ("batch", b.dims.n_mels, "n_frames"))
    for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
        convolved = convolution(b, x, name, stride)
        x = gelu(b, convolved, f"{name}.gelu", half=half)
    x = b.op("Transpose", (x,), "encoder.conv.turned", perm=[0, 2, 1])
    table = b.stored("encoder.embed_positions.weight")
    n_positions = b.op("Shape", (x,), "encoder.n_positions", start=1, end=2)
    limits = (b.constant([0]), n_positions, b.constant([0]))
    positions = b.op("Slice", (table, *limits), "encoder.positions")
    x = b.op("Add", (x, positions), "encoder.embedded")
    for i in range(b.dims.n_encoder_layers):
        layer = f"encoder.layers.{i}"
        x = b.self_attention(x, layer, arithmetic if i > 0 else Arithmetic.FLOAT)
        x = b.mlp(x, layer, arithmetic)
    layer_norm(b, x, "audio_features", "encoder.layer_norm")
    b.output("audio_features", FLOAT, ("batch", "n_positions", b.dims.d_model))
    return b.build()


def convolution(
    b: WhisperBuilder,
    x: str,
    name: str,
    stride: int,
) -> str:
    """Write a convolution of width 3, `(batch, n_in, n)` -> `(batch, n_out, n / stride)`."""
    inputs = (x, b.stored(f"{name}.weight"), b.stored(f"{name}.bias"))
    return b.op(
        "Conv",
        inputs,
        name,
        kernel_shape=[3],
        pads=[1, 1],
        strides=[stride],
    )


class _Encoder(WhisperBuilder):
    """Writes the halves of a layer; for the arguments see `encoder_graph`."""

    def __init__(
        self, checkpoint: Checkpoint, *, half: bool, peaks: Peaks, shows_peaks: bool
    ) -> None:
        super().__init__("whisper_encoder", checkpoint, GELU_OPSET if half else OPSET)
        self.half = half
        self.peaks = peaks
        self.shows_peaks = shows_peaks

    def self_attention(self, x: str, layer: str, arithmetic: Arithmetic) -> str:
        """Write `x + out(attention(norm(x)))` over all positions."""
        name = f"{layer}.self_attn"
        n_heads = self.dims.n_encoder_heads
        size = self.dims.d_model // n_heads
        values = stored_linear(self, f"{name}.v_proj")
        out = stored_linear(self, f"{name}.out_proj")
        factors = self._factors(f"{name}.mixed", out)
        if factors is not None:
            values = values.map_outputs(lambda part: (part.T / factors).T)
            out = out.map_inputs(lambda matrix: matrix * factors)
        queries = query(self, name, size)
        keys = stored_linear(self, f"{name}.k_proj", bias=False)
        normed, (queries, keys, values) = self._norm(
            x, f"{name}.normed", f"{name}_layer_norm", queries, keys, values
        )
        operand = quantize_once(self, normed, arithmetic)
        qkv = (
            linear(self, operand, f"{name}.q", queries, arithmetic),
            linear(self, operand, f"{name}.k", keys, arithmetic),
            linear(self, operand, f"{name}.v", values, arithmetic),
        )
        takes_half = self.half and size % GROUPED_WIDTH == 0
        write_attention = attend_in_half if takes_half else attend
        attended = write_attention(self, f"{name}.mixed", qkv, n_heads)
        self._show(attended)
        change = linear(self, attended, f"{name}.out", out, arithmetic)
        return self.op("Add", (x, change), f"{name}.residual")

    def mlp(self, x: str, layer: str, arithmetic: Arithmetic) -> str:
        """Write `x + fc2(gelu(fc1(norm(x))))`, the loudest hidden units in float32."""
        hidden = f"{layer}.gelu"
        fc1 = stored_linear(self, f"{layer}.fc1")
        fc2 = stored_linear(self, f"{layer}.fc2")
        normed, (fc1,) = self._norm(
            x, f"{layer}.mlp_normed", f"{layer}.final_layer_norm", fc1
        )
        if hidden not in self.peaks:
            change = mlp(
                self,
                normed,
                layer,
                (fc1, fc2),
                arithmetic,
                half=self.half,
            )
            self._show(hidden)
            return self.op("Add", (x, change), f"{layer}.out")
        quiet_units, loud_units = loudest_units(self.peaks[hidden])
        # The bias is added once.
        loud = select_units(fc1, Linear(fc2.matrix), loud_units)
        change = mlp(
            self,
            normed,
            f"{layer}.loud",
            loud,
            Arithmetic.FLOAT,
            half=self.half,
        )
        x = self.op("Add", (x, change), f"{layer}.loud.out")
        quiet = select_units(fc1, fc2, quiet_units)
        change = mlp(
            self,
            normed,
            f"{layer}.quiet",
            quiet,
            arithmetic,
            half=self.half,
        )
        return self.op("Add", (x, change), f"{layer}.out")

    def _norm(
        self, x: str, name: str, stem: str, *readers: Linear
    ) -> tuple[str, list[Linear]]:
        """Write the norm called `stem`; return it and its readers, with outliers shared out."""
        factors = self._factors(name, *readers)
        normed = layer_norm(self, x, name, stem, factors=factors)
        self._show(normed)
        if factors is None:
            return normed, list(readers)
        return normed, [
            reader.map_inputs(lambda part: part * factors) for reader in readers
        ]

    def _factors(self, name: str, *readers: Linear) -> FloatArray | None:
        """Return smoothing factors of a value, `None` if its peaks were not measured."""
        peaks = self.peaks.get(name)
        if peaks is None:
            return None
        return smoothing_factors(peaks, readers)

    def _show(self, x: str) -> None:
        """Output the largest magnitude of each channel of `x (batch, n, n_channels)`."""
        if not self.shows_peaks:
            return
        magnitudes = self.op("Abs", (x,), f"{x}.magnitudes")
        peaks = self.op(
            "ReduceMax", (magnitudes,), f"{x}{PEAK_SUFFIX}", axes=[0, 1], keepdims=0
        )
        self.output(peaks, FLOAT, ("n_channels",))


def smoothing_factors(peaks: FloatArray, readers: Sequence[Linear]) -> FloatArray:
    """Share the range of each channel between its values and the weights that read it.

    `peaks (n_in,)` float32 are those of values that all `readers (n_out, n_in)` read. Return
    `(n_in,)` float32 to divide the values by and multiply the weights with: the root of the ratio
    of both largest magnitudes, 1 in the geometric mean.
    """
    magnitudes = [np.abs(reader.matrix.load()).max(axis=0) for reader in readers]
    weights = np.max(magnitudes, axis=0)
    tiny = np.finfo(np.float32).tiny  # whose logarithm is finite
    ratios = np.log(np.maximum(peaks, tiny)) - np.log(np.maximum(weights, tiny))
    ratios[(peaks == 0) | (weights == 0)] = 0  # nothing to share
    factors: FloatArray = np.exp((ratios - ratios.mean()) / 2).astype(np.float32)
    return factors


def loudest_units(peaks: FloatArray, n_units: int = 32) -> tuple[IntArray, IntArray]:
    """Return indices of all but the loudest channels, and of the loudest, each in ascending order.

    At most half of the channels are loud; a multiple of 32 suits every kernel.
    """
    n_loud = min(n_units, peaks.size // 2)
    order = np.argsort(peaks, kind="stable")
    return np.sort(order[:-n_loud]), np.sort(order[-n_loud:])


def select_units(fc1: Linear, fc2: Linear, units: IntArray) -> tuple[Linear, Linear]:
    """Return both products of an MLP with some of its hidden units."""
    selected_fc1 = fc1.map_outputs(lambda part: part[units], units.size)
    selected_fc2 = fc2.map_inputs(lambda matrix: matrix[:, units], units.size)
    return selected_fc1, selected_fc2
