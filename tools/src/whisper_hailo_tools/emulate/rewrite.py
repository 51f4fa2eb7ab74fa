"""Rounding of a graph to the bits that a model script, ours or another, gives to its layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from whisper_hailo.core.errors import ModelError
from whisper_hailo_tools.emulate.network import EmulatedNetwork, LayerSlot
from whisper_hailo_tools.emulate.statistics import (
    Histogram,
    Scale,
    choose_scale,
    rounded_weights,
    scale_of,
)

NARROW_BITS: Final = 8

_ADDS = "quantization_param({ew_add*}, precision_mode=a16_w16)\n"
_NORMS = "quantization_param({layer_normalization*}, precision_mode=a16_w16)\n"

PRESETS: Final = {"all8": "", "adds16": _ADDS, "norms16": _ADDS + _NORMS}
"""Named plans as model scripts: all at 8 bits, residual adds at 16, layer norms, too."""

_COMMAND = re.compile(r"(?:\w+\s*=\s*)?(\w+)\((.*)\)$")
_MODE = re.compile(r"a(8|16)_w(4|8|16)(?:_a(8|16))?$")


@dataclass(frozen=True, slots=True)
class LayerPrecision:
    """Bits of one layer, the compiler's `a<reads>_w<weights>[_a<gives>]`.

    Attributes:
        reads: bits of the activations that it reads.
        weights: bits of its weights.
        gives: bits of the activations that it gives; `None`: as its widest reader reads.
    """

    reads: int = NARROW_BITS
    weights: int = NARROW_BITS
    gives: int | None = None

    def __str__(self) -> str:
        """Return the compiler's notation."""
        suffix = "" if self.gives is None else f"_a{self.gives}"
        return f"a{self.reads}_w{self.weights}{suffix}"


@dataclass(frozen=True, slots=True)
class PrecisionPlan:
    """The bits of each layer.

    Attributes:
        name: such as `adds16`, for results.
        precisions: layers to their bits; other layers have 8 of everything.
        ignored: commands of the script that an emulation cannot follow, in order.
    """

    name: str
    precisions: Mapping[str, LayerPrecision] = field(
        default_factory=lambda: MappingProxyType({})
    )
    ignored: tuple[str, ...] = ()

    def of(self, layer: str) -> LayerPrecision:
        """Return the bits of a layer."""
        return self.precisions.get(layer, LayerPrecision())


def plan_of_script(name: str, text: str, network: EmulatedNetwork) -> PrecisionPlan:
    """Read the bits that a model script gives to the layers of a network.

    Later commands override earlier ones. Commands that do not set bits (fine-tuning, equalisation,
    resources ...) are listed in `PrecisionPlan.ignored`.

    Raises:
        ModelError: an unknown precision mode, or a layer that the network does not have.
    """
    precisions: dict[str, LayerPrecision] = {}
    ignored = []
    names = [layer.name for layer in network.layers]
    for line in text.splitlines():
        code, _, _ = line.partition("#")
        command = code.strip()
        if not command:
            continue
        match = _COMMAND.match(command)
        if (
            match is None
            or match[1] != "quantization_param"
            or "precision_mode" not in match[2]
        ):
            ignored.append(command)
            continue
        bits = _parse_precision(command)
        precisions |= dict.fromkeys(_find_layers(command, match[2], names), bits)
    return PrecisionPlan(name, MappingProxyType(precisions), tuple(ignored))


def _parse_precision(command: str) -> LayerPrecision:
    mode = re.search(r"precision_mode\s*=\s*(\w+)", command)
    match = _MODE.match(mode[1]) if mode else None
    if match is None:
        raise ModelError(
            f"the model script says {command!r}; known precision modes are a8 or a16 with w4, w8 "
            "or w16, optionally followed by _a8 or _a16"
        )
    reads, weights, gives = match.groups()
    return LayerPrecision(
        int(reads), int(weights), None if gives is None else int(gives)
    )


def _find_layers(command: str, arguments: str, names: list[str]) -> list[str]:
    """Return the layers that `conv4`, `net/conv4`, `{ew_add*}` or `[conv4, conv5]` stand for."""
    match = re.match(r"\s*\[(.*?)\]|\s*([^,]+)", arguments)
    if match is None:
        return []
    patterns = match[1] or match[2]
    layers: list[str] = []
    for text in patterns.split(","):
        _, _, pattern = text.strip().strip("{}").rpartition("/")
        matches = [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            raise ModelError(
                f"the model script says {command!r}, but the network has no layer {pattern!r}; "
                "layers are numbered per kind in the graph's order, as in the vendor's scripts"
            )
        layers += matches
    return layers


_DECOMPOSED: Final = "layer_normalization"
"""Layers that read a tensor with the bits that it has, whatever their own. The compiler splits them
into sums and products of parts of its bits ("LayerNorm Decomposition" in the study's log). Rounded
to 8 bits there, base's residual stream would lose the words that the vendor's HEFs of base keep."""

EXACT = ".exact"
"""Ends the name of a tensor before rounding; the rounded one keeps the name."""

ROUNDED = ".rounded"
"""Ends the name of a rounded graph input, since inputs keep their names, too."""


def emulated(
    model: ModelProto,
    network: EmulatedNetwork,
    plan: PrecisionPlan,
    statistics: Mapping[str, Histogram],
) -> ModelProto:
    """Return a Hailo-form graph that rounds to 8 or 16 bits where the chip does.

    - Inputs and outputs have the names, types and shapes of `model`, which is not changed. Every
      tensor between two layers keeps its name, too, and is the rounded one.
    - Each tensor that a layer gives within the plan's part is rounded once, per tensor, with a
      zero point, to as many bits as the widest of its readers reads; a reader with fewer bits
      reads it rounded again, but for layer norms, which the compiler splits. All else (token
      lookup, joining of chunks) stays exact.
    - Weights of products are rounded per output channel, symmetrically. Biases, constant factors,
      activation functions, softmax and norms inside a layer are computed in float32.
    - Rounding is written out as Div, Round, Clip, Mul, which no optimiser of the runtime fuses
      away; opset and operator domains stay as they are, and any runner of `model` runs it.

    Not emulated: 4-bit weights that the compiler chooses by itself, equalisation, zero-point
    corrections and fine-tuning. They make the chip better than this prediction.

    Args:
        model: the Hailo form, weights included (`onnx.load`).
        network: its layers, from `read_network`.
        plan: bits per layer, from `plan_of_script`.
        statistics: of this graph's tensors, from `collect`.
    """
    result = ModelProto()
    result.CopyFrom(model)
    _Rewriter(result, network, plan, statistics).rewrite()
    return result


def tensor_bits(network: EmulatedNetwork, plan: PrecisionPlan) -> dict[str, int]:
    """Return the bits of every tensor between layers: its layer's, or its widest reader's."""
    makers = {name: layer for layer in network.layers for name in layer.gives}
    bits: dict[str, int] = {}
    for layer in network.layers:
        for slot in layer.slots:
            reads = plan.of(layer.name).reads
            maker = makers.get(slot.origin)
            if layer.kind == _DECOMPOSED and maker is not None:
                # It takes what there is: the sum before the last norm keeps its bits.
                reads = max(reads, plan.of(maker.name).reads)
            bits[slot.origin] = max(bits.get(slot.origin, 0), reads)
    for layer in network.layers:
        gives = plan.of(layer.name).gives
        if gives is not None:
            bits |= dict.fromkeys(layer.gives, gives)
    return bits


class _Rewriter:
    """Changes one graph in place."""

    def __init__(
        self,
        model: ModelProto,
        network: EmulatedNetwork,
        plan: PrecisionPlan,
        statistics: Mapping[str, Histogram],
    ) -> None:
        self._graph = model.graph
        self._network = network
        self._plan = plan
        self._statistics = statistics
        self._weights = {
            item.name: index for index, item in enumerate(model.graph.initializer)
        }
        self._bits = tensor_bits(network, plan)
        self._section = [index for layer in network.layers for index in layer.nodes]
        self._section += network.moving
        self._inputs = {value.name for value in model.graph.input}
        # New nodes with their positions, fractions between the indices of the graph's own.
        self._added: list[tuple[float, NodeProto]] = []

    def rewrite(self) -> None:
        """Round weights, then inputs of layers that read fewer bits, then all tensors."""
        for layer in self._network.layers:
            bits = self._plan.of(layer.name)
            if layer.weight is not None:
                exact = self._array(layer.weight)
                rounded = rounded_weights(exact, bits.weights, layer.weight_axis)
                self._replace(layer.weight, rounded)
            for slot in layer.slots:
                if slot.node >= 0 and layer.kind != _DECOMPOSED:
                    self._round_read(slot, bits.reads)
        for name in self._network.tensors:
            self._round_tensor(name)
        nodes = [*enumerate(self._graph.node), *self._added]
        nodes.sort(key=itemgetter(0))
        del self._graph.node[:]
        self._graph.node.extend(node for _, node in nodes)
        del self._graph.value_info[:]  # shapes of values that now have other names

    def _round_read(self, slot: LayerSlot, bits: int) -> None:
        """Round a layer's input again if the layer reads it with fewer bits than it has."""
        if slot.origin in self._weights:
            exact = self._array(slot.origin)
            scale = scale_of(float(exact.min()), float(exact.max()), bits)
            self._replace(slot.origin, scale.rounded(exact))
        elif bits < self._bits[slot.origin]:
            reader = self._graph.node[slot.node]
            value = reader.input[slot.index]
            name = f"{value}.a{bits}"
            is_new = all(name not in node.output for _, node in self._added)
            if is_new:
                self._add_rounding(
                    slot.node - 0.3, value, name, self._scale(slot.origin, bits)
                )
            reader.input[slot.index] = name

    def _round_tensor(self, name: str) -> None:
        """Round a tensor where it is made; the layer that makes it continues with the exact one."""
        scale = self._scale(name, self._bits[name])
        if name in self._inputs:
            readers = [self._graph.node[index] for index in self._section]
            readers += [node for _, node in self._added]
            _rename_inputs(name, name + ROUNDED, readers)
            self._add_rounding(-1, name, name + ROUNDED, scale)
            return
        exact = name + EXACT
        for index, node in enumerate(self._graph.node):
            if name in node.output:
                output = list(node.output).index(name)
                node.output[output] = exact
                self._add_rounding(index + 0.3, exact, name, scale)
        owner = next(layer for layer in self._network.layers if name in layer.gives)
        _rename_inputs(name, exact, [self._graph.node[index] for index in owner.nodes])

    def _scale(self, name: str, bits: int) -> Scale:
        histogram = self._statistics.get(name)
        if histogram is None or histogram.n_values == 0:
            raise ModelError(
                f"the calibration statistics have no tensor {name!r}; they are from another graph; "
                "collect them from this one"
            )
        return choose_scale(histogram, bits)

    def _add_rounding(
        self,
        position: float,
        source: str,
        target: str,
        scale: Scale,
    ) -> None:
        """Add `clip(round(x / step), low, high) * step` at a position among the nodes."""
        step = self._add_constant(f"{target}/step", scale.step)
        low = self._add_constant(f"{target}/low", scale.low)
        high = self._add_constant(f"{target}/high", scale.high)
        divided = f"{target}/divided"
        whole = f"{target}/whole"
        clipped = f"{target}/clipped"
        nodes = [
            helper.make_node("Div", [source, step], [divided], divided),
            helper.make_node("Round", [divided], [whole], whole),
            helper.make_node("Clip", [whole, low, high], [clipped], clipped),
            helper.make_node("Mul", [clipped, step], [target], f"{target}/rounded"),
        ]
        self._added += [(position, node) for node in nodes]

    def _add_constant(self, name: str, value: float) -> str:
        constant = numpy_helper.from_array(np.array(value, np.float32), name)
        self._graph.initializer.append(constant)
        return name

    def _array(self, name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        array = numpy_helper.to_array(self._graph.initializer[self._weights[name]])
        return np.asarray(array, np.float32)

    def _replace(self, name: str, array: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        self._graph.initializer[self._weights[name]].CopyFrom(
            numpy_helper.from_array(array, name)
        )


def _rename_inputs(old: str, new: str, nodes: Iterable[NodeProto]) -> None:
    """Replace a value among the inputs of some nodes."""
    for node in nodes:
        for index, value in enumerate(node.input):
            if value == old:
                node.input[index] = new
