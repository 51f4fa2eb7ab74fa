"""Runs the chip's part of a graph and looks at tensors inside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from whisper_hailo.backends.session import open_graph, running
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.emulate.network import EmulatedNetwork
from whisper_hailo_tools.emulate.scales import Histogram

if TYPE_CHECKING:
    import onnxruntime


class Probe(Closing):
    """A graph cut to what lies between some of its values, opened in the runtime.

    Args:
        model: the graph; it is not changed.
        entries: values that are fed, inputs or not.
        tensors: values that are wanted.
        threads: threads per operator; 0 lets the runtime choose.
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
        """One window through the graph.

        Returns:
            tensor to its array, for every tensor that is wanted.

        Raises:
            ModelError: the arrays do not fit the graph.
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
    """The nodes that lead from `entries` to `tensors`, as a graph of its own."""
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
    """What the tensors of a graph are like over a calibration set.

    Attributes:
        tensors: tensor to the histogram of its values.
        n_windows: windows they are from.
    """

    tensors: Mapping[str, Histogram]
    n_windows: int


def collect(
    model: ModelProto, network: EmulatedNetwork, windows: Iterable[Feeds], *, threads: int = 0
) -> LayerStatistics:
    """Run the exact graph over windows, one at a time; memory does not grow with their number.

    Args:
        model: the Hailo form.
        network: its layers.
        windows: what enters the chip, per window, as the graph's values (not NHWC).
        threads: threads per operator; 0 lets the runtime choose.

    Raises:
        ModelError: no windows, or they do not fit the graph.
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
