"""Outliers of an encoder's activations, taken out of the way of 8-bit products.

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

from whisper_hailo.checkpoint.weights import Weight, divided
from whisper_hailo.convert.graphs.builder import FLOAT, GraphBuilder
from whisper_hailo.convert.graphs.products import Linear
from whisper_hailo.core.types import FloatArray, IntArray

Peaks: TypeAlias = Mapping[str, FloatArray]
"""Largest magnitude of each channel `(n,)` that audio reached, by the value's name."""

PEAK_SUFFIX: Final = ".peaks"

N_FLOAT_UNITS: Final = 32
"""Hidden units of a layer that stay in float32. Blocks of 32 suit every kernel."""


def output_peaks(b: GraphBuilder, x: str) -> None:
    """Add the largest magnitude of each channel of `x (batch, n, n_channels)` as an output."""
    magnitudes = b.op("Abs", (x,), f"{x}.magnitudes")
    name = b.op("ReduceMax", (magnitudes,), f"{x}{PEAK_SUFFIX}", axes=[0, 1], keepdims=0)
    b.output(name, FLOAT, ("n_channels",))


def smoothing_factors(peaks: FloatArray, readers: Sequence[Linear]) -> FloatArray:
    """Share the range of each channel between its values and the weights that read it.

    Args:
        peaks: `(n_in,)` float32 of the values.
        readers: all products that read them, `(n_out, n_in)` each.

    Returns:
        `(n_in,)` float32 to divide the values by and multiply the weights with: the root of the
        ratio of both largest magnitudes, 1 in the geometric mean.
    """
    weights = np.max([np.abs(reader.matrix.load()).max(axis=0) for reader in readers], axis=0)
    tiny = np.finfo(np.float32).tiny
    ratios = np.log(np.maximum(peaks, tiny)) - np.log(np.maximum(weights, tiny))
    ratios[(peaks == 0) | (weights == 0)] = 0
    factors: FloatArray = np.exp((ratios - ratios.mean()) / 2).astype(np.float32)
    return factors


def loudest_units(peaks: FloatArray, n_units: int = N_FLOAT_UNITS) -> tuple[IntArray, IntArray]:
    """Return indices of all but the loudest channels, and of the loudest, each in ascending order.

    At most half of the channels are loud.
    """
    order, n_units = np.argsort(peaks, kind="stable"), min(n_units, peaks.size // 2)
    return np.sort(order[:-n_units]), np.sort(order[-n_units:])


def scale_inputs(weights: Linear, factors: FloatArray) -> Linear:
    """Return the product of values that were divided by `factors (n_in,)`."""
    matrix = weights.matrix
    scaled = Weight(matrix.shape, matrix.dtype, lambda: matrix.load() * factors)
    return Linear(scaled, weights.bias)


def divide_outputs(weights: Linear, factors: FloatArray) -> Linear:
    """Return the product whose outputs are divided by `factors (n_out,)`."""
    bias = weights.bias
    return Linear(
        divided(weights.matrix, factors), None if bias is None else divided(bias, factors)
    )


def select_outputs(weights: Linear, units: IntArray) -> Linear:
    """Return some of a product's outputs."""
    matrix, bias = weights.matrix, weights.bias
    rows = Weight((units.size, matrix.shape[1]), matrix.dtype, lambda: matrix.load()[units])
    if bias is None:
        return Linear(rows)
    return Linear(rows, Weight((units.size,), bias.dtype, lambda: bias.load()[units]))


def select_inputs(weights: Linear, units: IntArray, *, bias: bool) -> Linear:
    """Return some of a product's inputs, with or without its bias."""
    matrix = weights.matrix
    shape = (matrix.shape[0], units.size)
    columns = Weight(shape, matrix.dtype, lambda: matrix.load()[:, units])
    return Linear(columns, weights.bias if bias else None)
