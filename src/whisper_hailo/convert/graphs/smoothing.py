"""Outliers of an encoder's activations, taken out of the way of 8-bit products.

A tensor that is rounded as a whole has steps of 1/255 of its range. A few channels of Whisper's
encoder reach far beyond the others: in real `base` five hidden units of layer 3 come to 88, all
others stay below 9, and rounded with them the audio features keep 15 dB. Two cures, both free of
training: a channel that several products read is divided by a factor that their weights take up
(SmoothQuant: Xiao et al., 2022), and the loudest hidden units are computed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.convert.graphs.products import Linear
from whisper_hailo.core.types import FloatArray, IntArray

Peaks: TypeAlias = Mapping[str, FloatArray]
"""Largest magnitude of each channel `(n,)` that audio reached, by the value's name."""

PEAK_SUFFIX: Final = ".peaks"

N_FLOAT_UNITS: Final = 32
"""Hidden units of a layer that stay in float32. Blocks of 32 suit every kernel."""


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


def loudest_units(peaks: FloatArray, n_units: int = N_FLOAT_UNITS) -> tuple[IntArray, IntArray]:
    """Return indices of all but the loudest channels, and of the loudest, each in ascending order.

    At most half of the channels are loud.
    """
    order, n_units = np.argsort(peaks, kind="stable"), min(n_units, peaks.size // 2)
    return np.sort(order[:-n_units]), np.sort(order[-n_units:])


def scale_inputs(weights: Linear, factors: FloatArray) -> Linear:
    """Return the product of values that were divided by `factors (n_in,)`."""
    return replace(weights, matrix=weights.matrix.map(lambda matrix: matrix * factors))


def divide_outputs(weights: Linear, factors: FloatArray) -> Linear:
    """Return the product whose outputs are divided by `factors (n_out,)`."""
    return weights.map_outputs(lambda part: (part.T / factors).T)


def select_outputs(weights: Linear, units: IntArray) -> Linear:
    """Return some of a product's outputs."""
    return weights.map_outputs(lambda part: part[units], units.size)


def select_inputs(weights: Linear, units: IntArray, *, bias: bool) -> Linear:
    """Return some of a product's inputs, with or without its bias."""
    shape = (weights.matrix.shape[0], units.size)
    columns = weights.matrix.map(lambda matrix: matrix[:, units], shape)
    return Linear(columns, weights.bias if bias else None)
