"""The encoder graph: log-mel of any even length up to the full context -> audio features."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.attention import attend, attend_in_half
from whisper_hailo.convert.graphs.builder import FLOAT, GELU_OPSET, OPSET, Graph, GraphBuilder
from whisper_hailo.convert.graphs.layers import gelu, layer_norm, mlp_change, mlp_products
from whisper_hailo.convert.graphs.products import (
    Arithmetic,
    Linear,
    checkpoint_linear,
    linear,
    query,
    seen_by_several,
)
from whisper_hailo.convert.graphs.smoothing import (
    Peaks,
    divide_outputs,
    loudest_units,
    output_peaks,
    scale_inputs,
    select_inputs,
    select_outputs,
    smoothing_factors,
)
from whisper_hailo.core.spec import GROUPED_WIDTH
from whisper_hailo.core.types import FloatArray


def convolution(b: GraphBuilder, x: str, name: str, checkpoint: Checkpoint, stride: int) -> str:
    """`(batch, n_in, n)` -> `(batch, n_out, n / stride)`, three wide."""
    weight = b.weight(f"{name}.weight", checkpoint.weight(f"{name}.weight"))
    bias = b.weight(f"{name}.bias", checkpoint.weight(f"{name}.bias"))
    return b.op("Conv", (x, weight, bias), name, kernel_shape=[3], pads=[1, 1], strides=[stride])


_CONVOLUTIONS = (("encoder.conv1", 1), ("encoder.conv2", 2))
"""Names and strides."""


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

    Args:
        checkpoint: where the arrays come from.
        arithmetic: of the matrix products; convolutions, norms, additions, softmax and the first
            attention's products stay float32, since every layer repeats their errors.
        half: attention and GELU are float16 rather than float32, unless the arithmetic is float;
            attention only where the runtime takes heads of that width.
        peaks: what `TENSOR_8` needs to keep outliers apart; see `smoothing`.
        shows_peaks: also output the peaks of everything that products read.
    """
    dims = checkpoint.config.dims
    half = half and arithmetic is not Arithmetic.FLOAT
    b = GraphBuilder("whisper_encoder", GELU_OPSET if half else OPSET)
    layers = _Layers(b, checkpoint, arithmetic, half, peaks or {}, shows_peaks)
    mel = b.input("mel", FLOAT, ("batch", dims.n_mels, "n_frames"))
    x = _positions(b, checkpoint, _convolutions(b, checkpoint, mel, half=half))
    for i in range(dims.n_encoder_layers):
        x = layers.self_attention(x, f"encoder.layers.{i}", arithmetic if i else Arithmetic.FLOAT)
        x = layers.mlp(x, f"encoder.layers.{i}")
    layer_norm(b, x, "audio_features", checkpoint, "encoder.layer_norm")
    b.output("audio_features", FLOAT, ("batch", "n_positions", dims.d_model))
    return b.build()


def _convolutions(b: GraphBuilder, checkpoint: Checkpoint, mel: str, *, half: bool) -> str:
    """`(batch, n_mels, n_frames)` -> `(batch, n_positions, d_model)`."""
    x = mel
    for name, stride in _CONVOLUTIONS:
        x = gelu(b, convolution(b, x, name, checkpoint, stride), f"{name}.gelu", half=half)
    return b.op("Transpose", (x,), "encoder.conv.turned", perm=[0, 2, 1])


def _positions(b: GraphBuilder, checkpoint: Checkpoint, x: str) -> str:
    """Add the first n_positions rows of the positional table."""
    stem = "encoder.embed_positions.weight"
    table = b.weight(stem, checkpoint.weight(stem))
    n_positions = b.op("Shape", (x,), "encoder.n_positions", start=1, end=2)
    limits = (b.constant([0]), n_positions, b.constant([0]))
    rows = b.op("Slice", (table, *limits), "encoder.positions")
    return b.op("Add", (x, rows), "encoder.embedded")


@dataclass(frozen=True, slots=True)
class _Layers:
    """The halves of a layer, in one arithmetic; see `encoder_graph`."""

    b: GraphBuilder
    checkpoint: Checkpoint
    arithmetic: Arithmetic
    half: bool
    peaks: Peaks
    shows_peaks: bool

    def self_attention(self, x: str, layer: str, arithmetic: Arithmetic) -> str:
        """`x + out(attention(norm(x)))` over all positions."""
        b, name, dims = self.b, f"{layer}.self_attn", self.checkpoint.config.dims
        heads = dims.n_encoder_heads
        asks = query(self.checkpoint, name, dims.encoder_head_size)
        keys, values = self._linear(f"{name}.k_proj"), self._linear(f"{name}.v_proj")
        out = self._linear(f"{name}.out_proj")
        if (factors := self._factors(f"{name}.mixed", out)) is not None:
            values, out = divide_outputs(values, factors), scale_inputs(out, factors)
        parts = (asks, keys, values)
        normed, readers = self._norm(x, f"{name}.normed", f"{name}_layer_norm", *parts)
        seen = seen_by_several(b, normed, arithmetic)
        q, k, v = (
            linear(b, seen, f"{name}.{part}", reader, arithmetic)
            for part, reader in zip("qkv", readers, strict=True)
        )
        takes_half = self.half and dims.encoder_head_size % GROUPED_WIDTH == 0
        mixed = (attend_in_half if takes_half else attend)(b, f"{name}.mixed", (q, k, v), heads)
        self._show(mixed)
        change = linear(b, mixed, f"{name}.out", out, arithmetic)
        return b.op("Add", (x, change), f"{name}.residual")

    def mlp(self, x: str, layer: str) -> str:
        """`x + fc2(gelu(fc1(norm(x))))`, the loudest hidden units in float32."""
        b, hidden = self.b, f"{layer}.gelu"
        fc1, fc2 = mlp_products(self.checkpoint, layer)
        normed, (fc1,) = self._norm(x, f"{layer}.mlp_normed", f"{layer}.final_layer_norm", fc1)
        if hidden not in self.peaks:
            change = mlp_change(b, normed, layer, (fc1, fc2), self.arithmetic, half=self.half)
            self._show(hidden)
            return b.op("Add", (x, change), f"{layer}.out")
        quiet, loud = loudest_units(self.peaks[hidden])
        for units, part, arithmetic in (
            (loud, "loud", Arithmetic.FLOAT),
            (quiet, "quiet", self.arithmetic),
        ):
            is_last = part == "quiet"
            products = select_outputs(fc1, units), select_inputs(fc2, units, bias=is_last)
            name = f"{layer}.{part}"
            change = mlp_change(b, normed, name, products, arithmetic, half=self.half)
            x = b.op("Add", (x, change), f"{layer if is_last else name}.out")
        return x

    def _norm(self, x: str, name: str, stem: str, *readers: Linear) -> tuple[str, list[Linear]]:
        """Write the norm called `stem`; return it and its readers, smoothed together."""
        factors = self._factors(name, *readers)
        normed = layer_norm(self.b, x, name, self.checkpoint, stem, factors=factors)
        self._show(normed)
        if factors is None:
            return normed, list(readers)
        return normed, [scale_inputs(reader, factors) for reader in readers]

    def _factors(self, name: str, *readers: Linear) -> FloatArray | None:
        peaks = self.peaks.get(name)
        return None if peaks is None else smoothing_factors(peaks, readers)

    def _linear(self, name: str) -> Linear:
        return checkpoint_linear(self.checkpoint, name, bias=not name.endswith("k_proj"))

    def _show(self, x: str) -> None:
        if self.shows_peaks:
            output_peaks(self.b, x)
