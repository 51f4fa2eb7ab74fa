"""What tensors within the chip's part of a graph hold, and the scales they are rounded with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from whisper_hailo.backends.session import open_graph, running
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.emulate.network import EmulatedNetwork
from whisper_hailo_tools.options import METHODS

if TYPE_CHECKING:
    import onnxruntime


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

    def quantiles(self, lower: float, upper: float) -> tuple[float, float]:
        """Return values that these shares of all values lie below, to the width of a bin."""
        middles, counts = self.centres()
        if counts.size == 0:
            return 0.0, 0.0
        below = np.cumsum(counts) / counts.sum()
        first = int(np.searchsorted(below, lower, side="right"))
        last = int(np.searchsorted(below, upper, side="left"))
        top = counts.size - 1
        return float(middles[min(first, top)]), float(middles[min(last, top)])

    def _widen(self, largest: float) -> None:
        if largest <= self._span:
            return
        if self._span == 0.0:
            self._span = largest
            return
        while self._span < largest:
            pairs = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.zeros(N_BINS, np.int64)
            quarter = N_BINS // 4
            self._counts[quarter : quarter + N_BINS // 2] = pairs
            self._span *= 2


PERCENTILE: Final = 99.99
"""Share of the values, in percent, that `percentile` keeps within the range at each end."""

SHRINKS: Final = np.linspace(0.05, 1.0, 96)
"""Fractions of the whole range that `mse` tries."""


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


def choose_scale(histogram: Histogram, bits: int, method: str) -> Scale:
    """Return the scale for a tensor whose values are like this.

    `minmax` spans all values, `percentile` all but the outermost 0.01 % at each end, `mse` the
    fraction of the range that loses least in the mean square.
    """
    check_method(method)
    if method == "percentile":
        return scale_of(*histogram.quantiles(1 - PERCENTILE / 100, PERCENTILE / 100), bits)
    whole = scale_of(histogram.low, histogram.high, bits)
    if method == "minmax":
        return whole
    ranges = [(histogram.low * shrink, histogram.high * shrink) for shrink in SHRINKS]
    scales = [scale_of(low, high, bits) for low, high in ranges[:-1]] + [whole]
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


def check_method(method: str) -> None:
    """Refuse ways of choosing scales that do not exist."""
    if method not in METHODS:
        raise OptionError(f"--scales is {method!r}, expected one of: {', '.join(METHODS)}")


class Probe(Closing):
    """A graph cut to what lies between some of its values, opened in the runtime.

    Args:
        entries: values that are fed, inputs or not.
        tensors: values that are wanted.
    """

    def __init__(
        self,
        model: ModelProto,
        entries: tuple[str, ...],
        tensors: tuple[str, ...],
        threads: int = 0,
    ) -> None:
        self._model = model
        self._entries = entries
        self._tensors = tensors
        self._threads = threads
        self._session: onnxruntime.InferenceSession | None = None

    def open(self) -> Self:
        """Load the graph."""
        inner = [name for name in self._tensors if name not in self._entries]
        part = _cut(self._model, self._entries, inner)
        self._session = open_graph(part.SerializeToString(), "the graph", self._threads)
        return self

    def close(self) -> None:
        self._session = None

    def run(self, feeds: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Run one window through the graph.

        Returns:
            tensor to its array, for every tensor that is wanted.
        """
        if self._session is None:
            raise ModelError("the graph is not open; use it in a with block")
        if set(feeds) != set(self._entries):
            raise ModelError(
                f"a window has {', '.join(sorted(feeds))}, the chip takes "
                f"{', '.join(sorted(self._entries))}; make the calibration set for this model"
            )
        inner = [name for name in self._tensors if name not in self._entries]
        arrays = {k: np.ascontiguousarray(v, np.float32) for k, v in feeds.items()}
        with running("the graph"):
            results = self._session.run(inner, arrays)
        found = dict(zip(inner, results, strict=True))
        return {name: found[name] if name in found else arrays[name] for name in self._tensors}


def _cut(model: ModelProto, entries: tuple[str, ...], tensors: list[str]) -> ModelProto:
    """Return the nodes that lead from `entries` to `tensors`, as a graph of its own."""
    nodes = list(model.graph.node)
    producers = {name: i for i, node in enumerate(nodes) for name in node.output}
    found: set[int] = set()
    waiting = [producers[name] for name in tensors if name in producers]
    while waiting:
        i = waiting.pop()
        if i in found:
            continue
        found.add(i)
        reads = [name for name in nodes[i].input if name not in entries]
        waiting += [producers[name] for name in reads if name in producers]
    kept = [nodes[i] for i in sorted(found)]
    read = {name for node in kept for name in node.input}
    part = ModelProto(ir_version=model.ir_version)
    part.opset_import.extend(model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.extend(kept)
    part.graph.initializer.extend(item for item in model.graph.initializer if item.name in read)
    shapes = {value.name: value for value in model.graph.input}
    for name in entries:
        part.graph.input.append(shapes.get(name, _unshaped(name)))
    part.graph.output.extend(_unshaped(name) for name in tensors)
    return part


def _unshaped(name: str) -> ValueInfoProto:
    value: ValueInfoProto = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return value


Feeds = Mapping[str, FloatArray]
"""Value that enters the chip to its array, for one window."""


@dataclass(frozen=True, slots=True)
class LayerStatistics:
    """What the tensors of a graph are like over a calibration set."""

    tensors: Mapping[str, Histogram]
    n_windows: int


def collect(
    model: ModelProto, network: EmulatedNetwork, windows: Iterable[Feeds], *, threads: int = 0
) -> LayerStatistics:
    """Run the exact graph over windows, one at a time; memory does not grow with their number.

    `windows` holds what enters the chip, as the graph's values (not NHWC).
    """
    tensors = {name: Histogram() for name in network.tensors}
    n_windows = 0
    with Probe(model, network.entries, tuple(tensors), threads) as probe:
        for feeds in windows:
            for name, array in probe.run(feeds).items():
                tensors[name].add(array)
            n_windows += 1
    if n_windows == 0:
        raise ModelError(
            "the calibration set is empty; make one of real speech with: whisper-hailo calibrate"
        )
    return LayerStatistics(tensors, n_windows)
