"""Statistics of the tensors in the chip's part of a graph, and the scales that round them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from whisper_hailo.backends.session import open_graph, running
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.check.graph import OnnxGraph
from whisper_hailo_tools.emulate.network import EmulatedNetwork

N_BINS: Final = 8192
"""Bins of the whole span; at least a quarter of them cover the values' true range."""


class Histogram:
    """Counts of values in equal bins around zero, and the exact ends.

    A value beyond the span doubles it, two bins becoming one, as often as needed: so one pass over
    the data is enough.

    Attributes:
        low: smallest finite value seen, or 0 if none was below it.
        high: largest finite value seen, or 0 if none was above it.
    """

    def __init__(self) -> None:
        self.low = 0.0
        self.high = 0.0
        self._span = 0.0
        self._counts: NDArray[np.int64] = np.zeros(N_BINS, np.int64)

    @property
    def n_values(self) -> int:
        return int(self._counts.sum())

    def add(self, values: NDArray[Any]) -> None:
        """Count values of any shape; those that are not finite are left out."""
        flat = np.asarray(values, np.float64).ravel()
        if not np.isfinite(flat).all():
            flat = flat[np.isfinite(flat)]
        if flat.size == 0:
            return
        self.low = min(self.low, float(flat.min()))
        self.high = max(self.high, float(flat.max()))
        self._widen(max(-self.low, self.high))
        if self._span == 0.0:  # nothing but zeros so far
            self._counts[N_BINS // 2] += flat.size
            return
        bins = ((flat + self._span) * (N_BINS / (2 * self._span))).astype(np.int64)
        np.clip(bins, 0, N_BINS - 1, out=bins)
        self._counts += np.bincount(bins, minlength=N_BINS)

    def centres(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the middle of every bin that is not empty, clipped to the ends, and its count."""
        used = np.flatnonzero(self._counts)
        width = 2 * self._span / N_BINS
        middles = -self._span + (used + 0.5) * width
        return np.clip(middles, self.low, self.high), self._counts[used]

    def _widen(self, largest: float) -> None:
        """Double the span until it holds a magnitude."""
        if self._span == 0.0:
            self._span = largest
        while self._span < largest:
            pairs = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.zeros(N_BINS, np.int64)
            quarter = N_BINS // 4
            self._counts[quarter : 3 * quarter] = pairs
            self._span *= 2


SHRINKS: Final = np.linspace(0.05, 1.0, 96)
"""Fractions of the whole range that are tried for a scale."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Rounding of activations: `clip(round(x / step), low, high) * step`, halves to even.

    Zero stays exact. With a zero point `-low` the integers run from 0 to `high - low`, which is the
    chip's unsigned form.

    Attributes:
        step: the value of one integer step, a float32 number.
        low: smallest integer, 0 or less.
        high: largest integer, 0 or more.
    """

    step: float
    low: int
    high: int

    def rounded(self, x: FloatArray) -> FloatArray:
        """Return `x` rounded."""
        step = np.float32(self.step)
        steps = np.clip(np.round(x / step), np.float32(self.low), np.float32(self.high))
        result: FloatArray = steps.astype(np.float32) * step
        return result


def scale_of(low: float, high: float, bits: int) -> Scale:
    """Return the scale that spans a range, widened to hold 0."""
    low = min(low, 0.0)
    high = max(high, 0.0)
    largest = 2**bits - 1
    step = float(np.float32((high - low) / largest))
    if step == 0.0 or not np.isfinite(step):
        return Scale(1.0, 0, largest)
    zero_point = min(largest, max(0, round(-low / step)))
    return Scale(step, -zero_point, largest - zero_point)


def choose_scale(histogram: Histogram, bits: int) -> Scale:
    """Return the scale for a tensor with these values.

    It spans the fraction of the range with the smallest mean square error.
    """
    scales = [
        scale_of(histogram.low * shrink, histogram.high * shrink, bits)
        for shrink in SHRINKS
    ]
    values, counts = histogram.centres()
    return min(scales, key=lambda scale: expected_error(values, counts, scale))


def expected_error(
    values: NDArray[np.float64], counts: NDArray[np.int64], scale: Scale
) -> float:
    """Return the mean square error of rounding values with these counts.

    Inside the range the error of a value is evenly spread over a step: step^2 / 12. Outside it is
    the distance to the end.
    """
    low = scale.low * scale.step
    high = scale.high * scale.step
    distances = np.maximum(low - values, 0) + np.maximum(values - high, 0)
    errors = np.where(distances > 0, distances**2, scale.step**2 / 12)
    return float(np.sum(errors * counts) / max(1, counts.sum()))


def rounded_weights(weights: FloatArray, bits: int, axis: int) -> FloatArray:
    """Round weights symmetrically per output channel, to -(2^(b-1) - 1) to 2^(b-1) - 1.

    Args:
        weights: any shape, float32.
        bits: 4, 8 or 16.
        axis: of the output channels.
    """
    largest = 2 ** (bits - 1) - 1
    other_axes = tuple(other for other in range(weights.ndim) if other != axis)
    peaks: NDArray[Any] = np.abs(weights).max(axis=other_axes, keepdims=True)
    # Channels of zeros have a step of 1.
    steps = np.where(peaks > 0, peaks / np.float32(largest), np.float32(1)).astype(
        np.float32
    )
    codes = np.clip(np.round(weights / steps), -largest, largest)
    result: FloatArray = codes * steps
    return result.astype(np.float32)


Feeds: TypeAlias = Mapping[str, FloatArray]
"""Value that enters the chip to its array, for one window."""


def open_probe(
    model: ModelProto,
    entries: Collection[str],
    tensors: Collection[str],
    threads: int = 0,
) -> Callable[[Feeds], dict[str, FloatArray]]:
    """Open the part of a graph between some of its values in the runtime.

    Args:
        model: the graph.
        entries: values that are fed, inputs or not.
        tensors: values that are returned.
        threads: of the runtime; 0 lets it choose.

    Returns:
        function of the arrays of one window by entry that returns every tensor by name.
    """
    inner = [name for name in tensors if name not in entries]
    part = _cut_graph(model, entries, inner)
    session = open_graph(part.SerializeToString(), "the graph", threads)

    def run(feeds: Feeds) -> dict[str, FloatArray]:
        if set(feeds) != set(entries):
            raise ModelError(
                f"a window has {', '.join(sorted(feeds))}, the chip takes "
                f"{', '.join(sorted(entries))}; make the calibration set for this model"
            )
        inputs = {
            name: np.ascontiguousarray(array, np.float32)
            for name, array in feeds.items()
        }
        with running("the graph"):
            outputs = session.run(inner, inputs)
        values = inputs | dict(zip(inner, outputs, strict=True))
        return {name: values[name] for name in tensors}

    return run


def _cut_graph(
    model: ModelProto, entries: Collection[str], tensors: list[str]
) -> ModelProto:
    """Return the nodes that lead from `entries` to `tensors`, as a graph of its own."""
    graph = OnnxGraph(model)
    ends = [graph.producers[name] for name in tensors if name in graph.producers]
    indices, read = graph.ancestors(ends, entries)
    part = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.extend(graph.nodes[index] for index in indices)
    part.graph.initializer.extend(
        item for item in model.graph.initializer if item.name in read
    )
    inputs = {value.name: value for value in model.graph.input}
    for name in entries:
        part.graph.input.append(inputs.get(name) or _value_of_any_shape(name))
    for name in tensors:
        part.graph.output.append(_value_of_any_shape(name))
    return part


def _value_of_any_shape(name: str) -> ValueInfoProto:
    value: ValueInfoProto = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return value


def collect(
    model: ModelProto,
    network: EmulatedNetwork,
    windows: Iterable[Feeds],
    *,
    threads: int = 0,
) -> dict[str, Histogram]:
    """Return histograms of the tensors between layers over windows, run one at a time.

    Memory does not grow with the number of `windows`, which hold the chip's inputs as the graph's
    values (not NHWC).
    """
    histograms = {name: Histogram() for name in network.tensors}
    probe = open_probe(model, network.entries, network.tensors, threads)
    n_windows = 0
    for feeds in windows:
        for name, array in probe(feeds).items():
            histograms[name].add(array)
        n_windows += 1
    if n_windows == 0:
        raise ModelError(
            "the calibration set is empty; make one of real speech with: whisper-hailo calibrate"
        )
    return histograms
