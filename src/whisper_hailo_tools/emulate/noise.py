"""How much noise rounding adds, layer by layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from onnx import ModelProto

from whisper_hailo.core.errors import ModelError
from whisper_hailo_tools.difference import DifferenceTally
from whisper_hailo_tools.emulate.network import EmulatedNetwork
from whisper_hailo_tools.emulate.rewrite import EXACT, ROUNDED
from whisper_hailo_tools.emulate.statistics import Feeds, Probe


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Noise of what one layer gives, that of all layers before it included."""

    layer: str
    tensor: str
    snr_db: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of an emulation."""

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
    found = {name: DifferenceTally() for name in compared}
    n_windows = 0
    with (
        Probe(exact, network.entries, compared, threads) as truth,
        Probe(rounded, tuple(fed.values()), tuple(wanted.values()), threads) as emulation,
    ):
        for feeds in windows:
            true = truth.run(feeds)
            got = emulation.run({fed[name]: array for name, array in feeds.items()})
            for name, difference in found.items():
                difference.add(got[wanted[name]], true[name])
            n_windows += 1
    if n_windows == 0:
        raise ModelError("there are no windows to measure the noise on; give more speech")
    return _noise(network, found, n_windows)


def _noise(network: EmulatedNetwork, found: dict[str, DifferenceTally], n_windows: int) -> Noise:
    layers, outputs = [], []
    for layer in network.layers:
        compared = (tensor for tensor in layer.gives if tensor in found)
        layers += [_entry(layer.name, tensor, found[tensor]) for tensor in compared]
        if layer.kind == "output_layer":
            origin = layer.slots[0].origin
            if origin in found:
                outputs.append(_entry(layer.name, origin, found[origin]))
    return Noise(tuple(layers), tuple(outputs), n_windows)


def _entry(layer: str, tensor: str, tally: DifferenceTally) -> LayerNoise:
    found = tally.difference()
    return LayerNoise(layer, tensor, found.snr_db, found.cosine)
