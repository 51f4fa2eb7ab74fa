"""Keys and values of the audio: made once for each window, read at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.spec import AUDIO_BLOCK, SIGNLESS_ZERO, Dimensions, ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray

AnyArray: TypeAlias = NDArray[Any]
Named: TypeAlias = dict[str, AnyArray]
ItemT = TypeVar("ItemT", bound=np.generic)


def rows_of(arrays: Sequence[NDArray[ItemT]], rows: IntArray) -> tuple[NDArray[ItemT], ...]:
    """Some rows of each array, in that order; rows that follow each other stay where they are."""
    first = int(rows[0]) if rows.size else 0
    if rows.size and rows.tolist() == list(range(first, first + rows.size)):
        return tuple(array[first : first + rows.size] for array in arrays)
    return tuple(array[rows] for array in arrays)


def constant(array: NDArray[ItemT]) -> NDArray[ItemT]:
    """An array that owns its memory and is read-only from now on.

    A reader of it, or of a view, need not read it again.
    """
    array.flags.writeable = False
    return array


def is_constant(array: AnyArray) -> bool:
    """Return whether an array is read-only; a view of a writable one is not."""
    owner = array if array.base is None else array.base
    return isinstance(owner, np.ndarray) and not owner.flags.writeable


def bind_in_place(io: Any, name: str, array: AnyArray) -> None:  # noqa: ANN401 - a C++ class
    """Let the runtime write an output into a contiguous array, which must outlive the run."""
    address = array.__array_interface__["data"][0]  # array.ctypes makes objects, each time
    io.bind_output(name, "cpu", 0, array.dtype.type, array.shape, address)


@dataclass(frozen=True, slots=True)
class CrossNames:
    """Outputs of the cross-attention graph, which are inputs of the decoder.

    Attributes:
        arrays: key and value of each layer in turn.
        scales: of each of these, where they are codes of 8 bits; else none.
    """

    arrays: tuple[str, ...]
    scales: tuple[str, ...]

    @classmethod
    def of(cls, spec: ModelSpec) -> CrossNames:
        """`cross_key_0, cross_value_0, cross_key_1 ...` and so on."""
        layers = range(spec.dims.n_decoder_layers)
        parts = [(part, i) for i in layers for part in ("key", "value")]
        scales = tuple(f"cross_{part}_scale_{i}" for part, i in parts)
        arrays = tuple(f"cross_{part}_{i}" for part, i in parts)
        return cls(arrays, scales if spec.audio_in_codes else ())

    @property
    def all(self) -> frozenset[str]:
        return frozenset((*self.arrays, *self.scales))


@dataclass(frozen=True, slots=True)
class CrossKV:
    """Keys and values of a batch of windows.

    Attributes:
        names: what the graphs call them.
        arrays: key and value of each layer in turn, `(batch, heads, n_keys, head_size)`, float32,
            or codes, uint8, whose keys come in blocks, `(batch, heads, blocks, head_size,
            AUDIO_BLOCK)`.
        scales: of each array of codes, `(batch, 1, heads, head_size)` float32: what one step of a
            channel is worth.
    """

    names: CrossNames
    arrays: tuple[AnyArray, ...]
    scales: tuple[FloatArray, ...]

    @classmethod
    def empty(cls, names: CrossNames, dims: Dimensions, batch: int, n_positions: int) -> CrossKV:
        """Memory for what the graph makes of so many windows."""
        n_keys, heads, size = n_positions + 1, dims.n_decoder_heads, dims.head_size
        keys: tuple[int, ...] = (batch, heads, n_keys, size)
        values = keys
        if names.scales:
            keys = (batch, heads, n_keys // AUDIO_BLOCK, size, AUDIO_BLOCK)
        dtype = np.uint8 if names.scales else np.float32
        arrays = tuple(np.empty(keys if "key" in name else values, dtype) for name in names.arrays)
        scale = (batch, 1, heads, size)
        return cls(names, arrays, tuple(np.empty(scale, np.float32) for _ in names.scales))

    @property
    def shares(self) -> bool:
        """Whether several hypotheses may read one window's."""
        return bool(self.scales)

    @property
    def n_windows(self) -> int:
        return int(self.arrays[0].shape[0])

    def by_name(self) -> Named:
        """Outputs of the cross-attention graph, which the decoder reads at every step."""
        names = (*self.names.arrays, *self.names.scales)
        return dict(zip(names, (*self.arrays, *self.scales), strict=True))

    def rows(self, rows: IntArray) -> CrossKV:
        """Those of some windows, in that order, repeats allowed."""
        arrays, scales = rows_of(self.arrays, rows), rows_of(self.scales, rows)
        return CrossKV(self.names, arrays, scales)


def heads_by_layer(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """Layers of `(layer, head)` pairs in their order, each with its heads."""
    layers = sorted({layer for layer, _ in pairs})
    return [(layer, [head for of, head in pairs if of == layer]) for layer in layers]


def alignment_weights(
    queries: Sequence[FloatArray],
    cross: CrossKV,
    cross_bias: FloatArray,
    heads: Sequence[tuple[int, Sequence[int]]],
) -> FloatArray:
    """Cross-attention weights of some heads over all keys, those of silence included.

    The fused operators keep their weights to themselves: those that somebody looks at are computed
    here once more, from the queries of the pass.

    Args:
        queries: of each layer in `heads`, `(batch, n_tokens, heads, head_size)`, with the keys'
            scales where they have any.
        cross: keys and values of the batch.
        cross_bias: `(batch, 1, 1, n_keys)`, what is added to the scores.
        heads: layers and their heads.

    Returns:
        `(batch, heads of all layers, n_tokens, n_keys)` float32.
    """
    parts = []
    for query, (layer, chosen) in zip(queries, heads, strict=True):
        keys = _columns_of_keys(cross, layer, chosen)
        scores = query[:, :, chosen].transpose(0, 2, 1, 3) @ keys + cross_bias
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        parts.append(weights)
    return np.concatenate(parts, axis=1)


def _columns_of_keys(cross: CrossKV, layer: int, heads: Sequence[int]) -> FloatArray:
    """Keys of some heads, `(batch, heads, head_size, n_keys)` float32, without their scales."""
    keys = cross.arrays[2 * layer][:, heads].astype(np.float32, copy=False)
    if not cross.scales:
        return keys.transpose(0, 1, 3, 2)
    batch, n_heads, _, size, _ = keys.shape
    columns: FloatArray = (keys - SIGNLESS_ZERO).transpose(0, 1, 3, 2, 4)
    return columns.reshape(batch, n_heads, size, -1)
