"""How much noise rounding adds, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.emulate.network import EmulatedNetwork
from whisper_hailo_tools.emulate.rewrite import EXACT, ROUNDED
from whisper_hailo_tools.emulate.statistics import Feeds, Probe


@dataclass(slots=True)
class NoiseSums:
    """Sums over everything that was compared, from which signal-to-noise ratio and cosine follow.

    Attributes:
        signal: sum of squares of the exact values.
        noise: sum of squares of the differences.
        product: sum of products of exact and rounded values.
        rounded: sum of squares of the rounded values.
    """

    signal: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    rounded: float = 0.0

    def add(self, exact: FloatArray, rounded: FloatArray) -> None:
        """Compare two arrays of one shape."""
        a, b = exact.astype(np.float64).ravel(), rounded.astype(np.float64).ravel()
        keep = np.isfinite(a) & np.isfinite(b)
        a, b = a[keep], b[keep]
        self.signal += float(a @ a)
        self.noise += float((a - b) @ (a - b))
        self.product += float(a @ b)
        self.rounded += float(b @ b)

    @property
    def snr_db(self) -> float:
        """10 log10(signal / noise); infinite without noise, minus infinite without signal."""
        if self.noise == 0.0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal > 0 else -math.inf

    @property
    def cosine(self) -> float:
        """Cosine of the angle between all exact and all rounded values."""
        norms = math.sqrt(self.signal * self.rounded)
        return self.product / norms if norms > 0 else float(self.signal == self.rounded)


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Noise of what one layer gives, that of all layers before it included.

    Attributes:
        layer: name of the layer.
        tensor: what it gives.
        snr_db: signal-to-noise ratio in dB.
        cosine: of exact and rounded values.
    """

    layer: str
    tensor: str
    snr_db: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of an emulation.

    Attributes:
        layers: per layer, in the graph's order.
        outputs: output layer to the noise of what leaves the chip there.
        n_windows: windows it was measured on.
    """

    layers: tuple[LayerNoise, ...]
    outputs: tuple[LayerNoise, ...]
    n_windows: int = field(default=0)


def measure_noise(
    exact: ModelProto,
    rounded: ModelProto,
    network: EmulatedNetwork,
    windows: Iterable[Feeds],
    *,
    tensors: Collection[str] | None = None,
    threads: int = 0,
) -> Noise:
    """Run both graphs over the same windows and compare the tensors between layers.

    `exact` is the Hailo form, `rounded` what `emulated` made of it, `windows` what enters the chip:
    others than those of the statistics. Nothing behind the last of `tensors` is computed; `None`
    takes all.
    """
    inputs = {value.name for value in rounded.graph.input}
    fed = {name: name if name in inputs else name + EXACT for name in network.entries}
    compared = tuple(n for n in network.tensors if tensors is None or n in tensors)
    wanted = {name: name + ROUNDED if name in inputs else name for name in compared}
    found = {name: NoiseSums() for name in compared}
    n_windows = 0
    with (
        Probe(exact, network.entries, compared, threads) as truth,
        Probe(rounded, tuple(fed.values()), tuple(wanted.values()), threads) as emulation,
    ):
        for feeds in windows:
            true = truth.run(feeds)
            got = emulation.run({fed[name]: array for name, array in feeds.items()})
            for name, difference in found.items():
                difference.add(true[name], got[wanted[name]])
            n_windows += 1
    if n_windows == 0:
        raise ModelError("there are no windows to measure the noise on; give more speech")
    return _noise(network, found, n_windows)


def _noise(network: EmulatedNetwork, found: dict[str, NoiseSums], n_windows: int) -> Noise:
    layers, outputs = [], []
    for layer in network.layers:
        compared = (tensor for tensor in layer.gives if tensor in found)
        layers += [_entry(layer.name, tensor, found[tensor]) for tensor in compared]
        if layer.kind == "output_layer":
            origin = layer.slots[0].origin
            if origin in found:
                outputs.append(_entry(layer.name, origin, found[origin]))
    return Noise(tuple(layers), tuple(outputs), n_windows)


def _entry(layer: str, tensor: str, difference: NoiseSums) -> LayerNoise:
    return LayerNoise(layer, tensor, difference.snr_db, difference.cosine)
