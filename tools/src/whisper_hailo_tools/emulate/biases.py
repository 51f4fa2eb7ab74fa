"""Correction of biases in an emulation, layer by layer, as the compiler does it.

Rounded weights and activations shift the mean of a layer's outputs. From the first layer to the
last, each product gets back the mean that it has without rounding, with all layers before it
rounded and corrected. Corrected all at once, each layer would answer for the shifts before it, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper

from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.emulate.network import EmulatedLayer, EmulatedNetwork
from whisper_hailo_tools.emulate.rewrite import EXACT
from whisper_hailo_tools.emulate.statistics import Feeds, open_probe

CORRECTION_COUNT: Final = 8
"""Windows over which means are taken: a thousand positions and more."""

_CORRECTING_LEVEL: Final = "1"
"""The compiler corrects biases at this optimisation level. Above it fine-tuning takes the place of
the correction, which the study's log calls skipped; below it nothing does."""

_LEVEL = re.compile(r"model_optimization_flavor\(.*optimization_level\s*=\s*(\d)")
_POLICY = re.compile(
    r"post_quantization_optimization\(\s*bias_correction\b.*policy\s*=\s*(\w+)"
)
_TUNING = re.compile(
    r"post_quantization_optimization\(\s*finetune\b.*policy\s*=\s*enabled"
)


def corrects_biases(script: str) -> bool:
    """Return whether the compiler corrects biases with a model script."""
    lines = []
    for line in script.splitlines():
        command, _, _ = line.partition("#")
        lines.append(command)
    code = "\n".join(lines)
    policies = _POLICY.findall(code)
    if policies:
        last_policy: str = policies[-1]
        return last_policy == "enabled"
    if _TUNING.search(code):
        return False
    levels = _LEVEL.findall(code)
    return _CORRECTING_LEVEL in levels[-1:]


def correct_biases(
    model: ModelProto,
    rounded: ModelProto,
    network: EmulatedNetwork,
    windows: Sequence[Feeds],
    *,
    threads: int = 0,
) -> ModelProto:
    """Return an emulation whose products have the means of the exact ones.

    Args:
        model: the Hailo form, weights included.
        rounded: the graph that `emulated` made of it, which is not changed.
        network: its layers.
        windows: the chip's inputs as the graph's values, over which means are taken.
        threads: of the runtime; 0 lets it choose.
    """
    result = ModelProto()
    result.CopyFrom(rounded)
    rounded_feeds = _rename_entries(rounded, windows)
    products: dict[str, EmulatedLayer] = {}
    for layer in network.layers:
        if layer.weight is not None:
            index = _find_product(model, layer)
            name = model.graph.node[index].output[0]
            products[name] = layer
    exact_means = _channel_means(model, list(products), windows, threads)
    for product, layer in products.items():
        index = _find_product(result, layer)
        name = result.graph.node[index].output[0]
        means = _channel_means(result, [name], rounded_feeds, threads)
        correction = exact_means[product] - means[name]
        _add_correction(result, index, correction)
    return result


def _rename_entries(rounded: ModelProto, windows: Sequence[Feeds]) -> list[Feeds]:
    """Return windows with the names that the chip's exact inputs have in a rounded graph.

    A graph input is exact under its name, any other entry is rounded there.
    """
    inputs = {value.name for value in rounded.graph.input}
    renamed: list[Feeds] = []
    for feeds in windows:
        window = {}
        for name, array in feeds.items():
            exact_name = name if name in inputs else name + EXACT
            window[exact_name] = array
        renamed.append(window)
    return renamed


def _find_product(model: ModelProto, layer: EmulatedLayer) -> int:
    """Return the index of the node that multiplies by a layer's weight."""
    return next(
        index
        for index, node in enumerate(model.graph.node)
        if layer.weight in node.input and node.op_type in ("Conv", "MatMul")
    )


def _channel_means(
    model: ModelProto,
    tensors: list[str],
    windows: Sequence[Feeds],
    threads: int,
) -> dict[str, NDArray[np.float64]]:
    """Return the mean of every channel of some tensors over windows and positions."""
    makers: dict[str, NodeProto] = {}
    for node in model.graph.node:
        for value in node.output:
            makers[value] = node
    entries = list(windows[0])
    run = open_probe(model, entries, tensors, threads)
    totals: dict[str, NDArray[np.float64]] = {}
    for feeds in windows:
        for name, array in run(feeds).items():
            means = _mean_of_channels(array, makers[name])
            totals[name] = totals.get(name, 0.0) + means
    return {name: total / len(windows) for name, total in totals.items()}


def _mean_of_channels(array: FloatArray, maker: NodeProto) -> NDArray[np.float64]:
    """Return `(n_channels,)`: a convolution has its channels second, a matrix product last."""
    channel = 1 if maker.op_type == "Conv" else array.ndim - 1
    others = tuple(axis for axis in range(array.ndim) if axis != channel)
    means: NDArray[np.float64] = array.mean(axis=others, dtype=np.float64)
    return means


def _add_correction(
    model: ModelProto, index: int, correction: NDArray[np.float64]
) -> None:
    """Add a constant for each channel to a product."""
    node = model.graph.node[index]
    name = node.output[0]
    values = correction.astype(np.float32)
    if node.op_type == "Conv":
        values = values[np.newaxis, :, np.newaxis, np.newaxis]
    constant = f"{name}/correction"
    uncorrected = f"{name}/uncorrected"
    model.graph.initializer.append(numpy_helper.from_array(values, constant))
    node.output[0] = uncorrected
    corrected = helper.make_node(
        "Add", [uncorrected, constant], [name], f"{name}/corrected"
    )
    model.graph.node.insert(index + 1, corrected)
