"""Two ONNX graphs compared node by node: operators, values of the same name, outputs.

For graphs of other programs, which have no checkpoint and no model directory beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.backends.onnx_file import (
    Signature,
    load_message,
    read_signature,
)
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.types import FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from whisper_hailo_tools.difference import Difference, difference
from whisper_hailo_tools.validate.runs import InnerGraph

_MEL_BINS: Final = (80, 128)
_FEWEST_FRAMES: Final = 100
"""Inputs of that many mel bins and frames get a recording's spectrogram, others numbers."""

_SEED: Final = 0
_MOST_IDS: Final = 1000
"""Ids of tokens are drawn below this: every vocabulary is larger."""


@dataclass(frozen=True, slots=True)
class ValuePair:
    """One value of both graphs; `name` is that of the first."""

    name: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class GraphPair:
    """The comparison of a graph with another.

    Attributes:
        operators: operator to its number of nodes in each graph.
        values: those that nodes of both make under one name, in the graph's order.
        outputs: by their order.
    """

    operators: dict[str, tuple[int, int]]
    values: tuple[ValuePair, ...]
    outputs: tuple[ValuePair, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "operators": self.operators,
            "values": _to_dicts(self.values),
            "outputs": _to_dicts(self.outputs),
        }


def _to_dicts(pairs: Iterable[ValuePair]) -> list[dict[str, Any]]:
    entries = []
    for pair in pairs:
        entry: dict[str, Any] = {"name": pair.name}
        entry.update(pair.difference.to_dict())
        entries.append(entry)
    return entries


def compare_graphs(path: Path, other: Path) -> GraphPair:
    """Run two graphs on the same input and compare what they have in common.

    Inputs are matched by their order, and may differ in shape where they have the same size.

    Raises:
        ModelError: a graph cannot be read or run, or their inputs or outputs do not match.
    """
    first_signature = read_signature(path)
    second_signature = read_signature(other)
    arrays = _make_inputs(first_signature)
    first = InnerGraph(
        path,
        _fit_inputs(first_signature, arrays),
    )
    second = InnerGraph(
        other,
        _fit_inputs(second_signature, arrays),
    )
    outputs = _compare_outputs(
        first.compute(first_signature.outputs),
        second.compute(second_signature.outputs),
    )
    return GraphPair(
        operators=_count_operators(path, other),
        values=tuple(_compare_values(path, first, second)),
        outputs=tuple(outputs),
    )


def _make_inputs(signature: Signature) -> list[AnyArray]:
    """Return an array for each input of a graph; axes without a size have one place."""
    rng = np.random.default_rng(_SEED)
    arrays: list[AnyArray] = []
    for port in signature.inputs.values():
        shape = tuple(_size(axis) for axis in port.shape)
        if port.dtype.startswith("int"):
            array: AnyArray = rng.integers(0, _MOST_IDS, shape)
        elif _mel_bins(shape):
            array = _speech(shape)
        else:
            array = rng.standard_normal(shape)
        arrays.append(array)
    return arrays


def _size(axis: int | str) -> int:
    """Return the places of an axis, one of an axis with a name."""
    return axis if isinstance(axis, int) else 1


def _mel_bins(shape: tuple[int, ...]) -> int:
    """Return the mel bins of an input of that shape; 0 if it is no spectrogram."""
    sizes = [size for size in shape if size > 1]
    if len(sizes) != 2 or sizes[1] < _FEWEST_FRAMES:
        return 0
    return sizes[0] if sizes[0] in _MEL_BINS else 0


def _speech(shape: tuple[int, ...]) -> AnyArray:
    """Return the spectrogram of a bundled recording in a shape of mel bins and frames."""
    n_frames = max(shape)
    n_samples = n_frames * SAMPLE_RATE_HZ // FRAMES_PER_SECOND
    audio = pad_or_trim(load_audio(ASSETS / "jfk.flac"), n_samples)
    return log_mel(audio, _mel_bins(shape)).reshape(shape)


def _fit_inputs(signature: Signature, arrays: list[AnyArray]) -> dict[str, AnyArray]:
    """Return arrays as the inputs of a graph."""
    path = display_path(signature.path)
    n_inputs = len(signature.inputs)
    if n_inputs != len(arrays):
        raise ModelError(
            f"{path} has {n_inputs} inputs, the other graph {len(arrays)}; compare graphs of the "
            "same part"
        )
    feeds = {}
    ports = signature.inputs.items()
    for (name, port), array in zip(ports, arrays, strict=True):
        fitted = _reshape(array, port.shape, name)
        feeds[name] = fitted.astype(port.dtype)
    return feeds


def _reshape(array: AnyArray, shape: Sequence[int | str], name: str) -> AnyArray:
    """Return an array in the shape of an input, axes of one place added or left out."""
    sizes = [size for size in array.shape if size > 1]
    fitted = [1] * (len(shape) - len(sizes)) + sizes
    if all(isinstance(axis, int) for axis in shape):
        fitted = [int(axis) for axis in shape]
    if int(np.prod(fitted)) != array.size:
        raise ModelError(
            f"{name} takes {tuple(shape)}, the other graph {array.shape}; compare graphs of the "
            "same window"
        )
    return array.reshape(fitted)


def _compare_values(
    path: Path, first: InnerGraph, second: InnerGraph
) -> Iterator[ValuePair]:
    """Yield the values that nodes of both graphs make, in the order of the first's nodes."""
    names = []
    for node in load_message(path).graph.node:
        for name in node.output:
            if name in first.made and name in second.made:
                names.append(name)
    runs = zip(
        first.values(names),
        second.values(names),
        strict=True,
    )
    for got, expected in runs:
        for name, array in got.items():
            other = expected[name]
            if array.size == other.size and _is_float(array):
                yield _compare(name, array, other)


def _count_operators(path: Path, other: Path) -> dict[str, tuple[int, int]]:
    first = _operators(path)
    second = _operators(other)
    names = sorted(first.keys() | second.keys())
    return {name: (first[name], second[name]) for name in names}


def _operators(path: Path) -> Counter[str]:
    nodes = load_message(path).graph.node
    return Counter(node.op_type for node in nodes)


def _compare_outputs(
    got: dict[str, AnyArray], expected: dict[str, AnyArray]
) -> Iterator[ValuePair]:
    """Yield the outputs of two graphs in their order, under the first's names."""
    sizes = [array.size for array in got.values()]
    other_sizes = [array.size for array in expected.values()]
    if sizes != other_sizes:
        raise ModelError(
            f"the graphs give outputs of {sizes} and {other_sizes} numbers; compare graphs of the "
            "same part and window"
        )
    pairs = zip(
        got.items(),
        expected.values(),
        strict=True,
    )
    for (name, array), other in pairs:
        yield _compare(name, array, other)


def _is_float(array: AnyArray) -> bool:
    return array.dtype.kind == "f" and array.size > 0


def _compare(name: str, got: AnyArray, expected: AnyArray) -> ValuePair:
    return ValuePair(name, difference(got, expected.reshape(got.shape)))
