"""What tensors within the chip's part of a graph hold, and the scales they are rounded with."""

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
"""Of the whole span; at least a quarter of them cover what the values really take."""


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
        places = ((flat + self._span) * (N_BINS / (2 * self._span))).astype(np.int64)
        np.clip(places, 0, N_BINS - 1, out=places)
        self._counts += np.bincount(places, minlength=N_BINS)

    def centres(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Middle of every bin that is not empty, and its count; middles lie within the ends."""
        used = np.flatnonzero(self._counts)
        width = 2 * self._span / N_BINS
        middles = np.clip(-self._span + (used + 0.5) * width, self.low, self.high)
        return middles, self._counts[used]

    def _widen(self, largest: float) -> None:
        self._span = self._span or largest
        while self._span < largest:
            pairs = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.zeros(N_BINS, np.int64)
            quarter = N_BINS // 4
            self._counts[quarter : quarter + N_BINS // 2] = pairs
            self._span *= 2


SHRINKS: Final = np.linspace(0.05, 1.0, 96)
"""Fractions of the whole range that are tried for a scale."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Rounding of activations: `clip(round(x / step), low, high) * step`, halves to even.

    Zero is kept exactly. With a zero point `-low` the integers run from 0 to `high - low`, which
    is the chip's unsigned form.

    Attributes:
        step: what one integer stands for, a float32 value.
        low: smallest integer, 0 or less.
        high: largest integer, 0 or more.
    """

    step: float
    low: int
    high: int

    def rounded(self, x: FloatArray) -> FloatArray:
        """Return what is left of `x` after rounding."""
        step = np.float32(self.step)
        whole = np.clip(np.round(x / step), np.float32(self.low), np.float32(self.high))
        result: FloatArray = whole.astype(np.float32) * step
        return result


def scale_of(low: float, high: float, bits: int) -> Scale:
    """Return the scale that spans a range.

    The range is widened to hold 0.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    largest = 2**bits - 1
    step = float(np.float32((high - low) / largest))
    if step == 0.0 or not np.isfinite(step):
        return Scale(1.0, 0, largest)
    zero_point = min(largest, max(0, round(-low / step)))
    return Scale(step, -zero_point, largest - zero_point)


def choose_scale(histogram: Histogram, bits: int) -> Scale:
    """Return the scale for a tensor whose values are like this.

    It spans the fraction of the range that loses least in the mean square.
    """
    ranges = [(histogram.low * shrink, histogram.high * shrink) for shrink in SHRINKS]
    scales = [scale_of(low, high, bits) for low, high in ranges]
    values, counts = histogram.centres()
    return min(scales, key=lambda scale: expected_error(values, counts, scale))


def expected_error(values: NDArray[np.float64], counts: NDArray[np.int64], scale: Scale) -> float:
    """Mean square error of rounding values of which there are so many each.

    Inside the range a value is off by at most half a step, evenly: step^2 / 12. Outside it is off
    by its distance to the end.
    """
    low, high = scale.low * scale.step, scale.high * scale.step
    beyond = np.maximum(low - values, 0) + np.maximum(values - high, 0)
    errors = np.where(beyond > 0, beyond**2, scale.step**2 / 12)
    return float(np.sum(errors * counts) / max(1, counts.sum()))


def rounded_weights(weights: FloatArray, bits: int, axis: int) -> FloatArray:
    """Round weights symmetrically per output channel, to -(2^(b-1) - 1) to 2^(b-1) - 1.

    Args:
        weights: any shape, float32.
        bits: 4, 8 or 16.
        axis: of the output channels.
    """
    largest = 2 ** (bits - 1) - 1
    others = tuple(i for i in range(weights.ndim) if i != axis)
    peak: NDArray[Any] = np.abs(weights).max(axis=others, keepdims=True)
    step = np.where(peak > 0, peak / np.float32(largest), np.float32(1)).astype(np.float32)
    result: FloatArray = np.clip(np.round(weights / step), -largest, largest) * step
    return result.astype(np.float32)


Feeds: TypeAlias = Mapping[str, FloatArray]
"""Value that enters the chip to its array, for one window."""


def open_probe(
    model: ModelProto, entries: Collection[str], tensors: Collection[str], threads: int = 0
) -> Callable[[Feeds], dict[str, FloatArray]]:
    """Open what lies between some values of a graph in the runtime.

    Args:
        model: the graph.
        entries: values that are fed, inputs or not.
        tensors: values that are wanted.
        threads: of the runtime; 0 lets it choose.

    Returns:
        function of what is fed for one window that returns every tensor that is wanted.
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
        arrays = {name: np.ascontiguousarray(x, np.float32) for name, x in feeds.items()}
        with running("the graph"):
            found = arrays | dict(zip(inner, session.run(inner, arrays), strict=True))
        return {name: found[name] for name in tensors}

    return run


def _cut_graph(model: ModelProto, entries: Collection[str], tensors: list[str]) -> ModelProto:
    """Return the nodes that lead from `entries` to `tensors`, as a graph of its own."""
    graph = OnnxGraph(model)
    ends = (graph.producers[name] for name in tensors if name in graph.producers)
    indices, read = graph.ancestors(ends, entries)
    part = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.extend(graph.nodes[i] for i in indices)
    part.graph.initializer.extend(item for item in model.graph.initializer if item.name in read)
    shapes = {value.name: value for value in model.graph.input}
    part.graph.input.extend(shapes.get(name) or _value_of_any_shape(name) for name in entries)
    part.graph.output.extend(_value_of_any_shape(name) for name in tensors)
    return part


def _value_of_any_shape(name: str) -> ValueInfoProto:
    value: ValueInfoProto = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return value


def collect(
    model: ModelProto, network: EmulatedNetwork, windows: Iterable[Feeds], *, threads: int = 0
) -> dict[str, Histogram]:
    """Return what the tensors between layers are like over windows, run one at a time.

    Memory does not grow with the number of `windows`, which hold what enters the chip, as the
    graph's values (not NHWC).
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
