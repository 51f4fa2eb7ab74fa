"""Runs a graph over calibration windows and keeps what each tensor between layers is like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from onnx import ModelProto

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.hailo_tools.emulate.histogram import Histogram
from whisper_hailo.hailo_tools.emulate.layers import EmulatedNetwork
from whisper_hailo.hailo_tools.emulate.run import Probe

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
