"""Two ONNX graphs compared node by node: operators, values of the same name, outputs.

For graphs of other programs, which have no checkpoint and no model directory beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.backends.onnx_file import load_message, read_signature
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
            "operators": {name: list(pair) for name, pair in self.operators.items()},
            "values": [_pair_to_dict(pair) for pair in self.values],
            "outputs": [_pair_to_dict(pair) for pair in self.outputs],
        }


def _pair_to_dict(pair: ValuePair) -> dict[str, Any]:
    return {"name": pair.name} | pair.difference.to_dict()


def compare_graphs(path: Path, other: Path) -> GraphPair:
    """Run two graphs on the same input and compare what they have in common.

    Inputs are matched by their order, and may differ in shape where they have the same size.

    Raises:
        ModelError: a graph cannot be read or run, or their inputs or outputs do not match.
    """
    arrays = _make_inputs(path)
    feeds = dict(zip(read_signature(path).inputs, arrays, strict=True))
    names = _made_names(path)
    other_names = _made_names(other)
    common = [name for name in names if name in set(other_names)]
    first = InnerGraph(path, feeds)
    second = InnerGraph(other, _fit_inputs(other, arrays))
    values = []
    runs = zip(first.values(common), second.values(common), strict=True)
    for got, expected in runs:
        for name in got:
            if got[name].size == expected[name].size and _is_float(got[name]):
                values.append(_compare(name, got[name], expected[name]))
    return GraphPair(
        operators=_count_operators(path, other),
        values=tuple(values),
        outputs=_compare_outputs((path, first), (other, second)),
    )


def _make_inputs(path: Path) -> list[AnyArray]:
    """Return an array for each input of a graph; axes without a size have one place."""
    rng = np.random.default_rng(_SEED)
    arrays = []
    for port in read_signature(path).inputs.values():
        shape = tuple(axis if isinstance(axis, int) else 1 for axis in port.shape)
        array: AnyArray
        if port.dtype.startswith("int"):
            array = rng.integers(0, _MOST_IDS, shape)
        elif _mel_bins(shape):
            array = _speech(shape)
        else:
            array = rng.standard_normal(shape)
        arrays.append(array.astype(port.dtype))
    return arrays


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


def _fit_inputs(path: Path, arrays: list[AnyArray]) -> dict[str, AnyArray]:
    """Return the same arrays as the inputs of another graph."""
    ports = read_signature(path).inputs
    if len(ports) != len(arrays):
        raise ModelError(
            f"{display_path(path)} has {len(ports)} inputs, the other graph {len(arrays)}; compare "
            "graphs of the same part"
        )
    return {
        name: _reshape(array, port.shape, name).astype(port.dtype)
        for (name, port), array in zip(ports.items(), arrays, strict=True)
    }


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


def _made_names(path: Path) -> list[str]:
    graph = load_message(path).graph
    return [name for node in graph.node for name in node.output if name]


def _count_operators(path: Path, other: Path) -> dict[str, tuple[int, int]]:
    counts = [
        Counter(node.op_type for node in load_message(file).graph.node)
        for file in (path, other)
    ]
    names = sorted(counts[0].keys() | counts[1].keys())
    return {name: (counts[0][name], counts[1][name]) for name in names}


def _compare_outputs(
    first: tuple[Path, InnerGraph], second: tuple[Path, InnerGraph]
) -> tuple[ValuePair, ...]:
    results = []
    for path, graph in (first, second):
        names = list(read_signature(path).outputs)
        (values,) = graph.run_each(names, [graph.feeds])
        results.append(values)
    got, expected = results
    sizes = [[array.size for array in values.values()] for values in results]
    if sizes[0] != sizes[1]:
        raise ModelError(
            f"the graphs give outputs of {sizes[0]} and {sizes[1]} numbers; compare graphs of the "
            "same part and window"
        )
    pairs = zip(got.items(), expected.values(), strict=True)
    return tuple(_compare(name, array, other) for (name, array), other in pairs)


def _is_float(array: AnyArray) -> bool:
    return array.dtype.kind == "f" and array.size > 0


def _compare(name: str, got: AnyArray, expected: AnyArray) -> ValuePair:
    return ValuePair(name, difference(got, expected.reshape(got.shape)))
