"""Keys and values of the audio: made once for each window, read at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.spec import AUDIO_BLOCK, SIGNLESS_ZERO, AudioForm, Dimensions, ModelSpec
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


IN_GROUPED = ("last_position", "n_positions", "nothing_new")
"""Inputs of a step besides keys, values and scales: how many there are, and that none are added."""

_TYPES = {AudioForm.FLOAT: np.float32, AudioForm.CODES: np.uint8, AudioForm.HALF: np.float16}


@dataclass(frozen=True, slots=True)
class CrossNames:
    """Outputs of the cross-attention graph, which are inputs of the decoder.

    Attributes:
        form: what the arrays hold.
        arrays: key and value of each layer in turn.
        scales: of each of these, where they are codes of 8 bits; else none.
        same: outputs of the decoder, which are the arrays again, where its attention to them is
            "grouped"; else none.
    """

    form: AudioForm
    arrays: tuple[str, ...]
    scales: tuple[str, ...]
    same: tuple[str, ...]

    @classmethod
    def of(cls, spec: ModelSpec) -> CrossNames:
        """`cross_key_0, cross_value_0, cross_key_1 ...` and so on."""
        layers = range(spec.dims.n_decoder_layers)
        parts = [(part, i) for i in layers for part in ("key", "value")]
        arrays = tuple(f"cross_{part}_{i}" for part, i in parts)
        form = spec.audio_form
        if form is AudioForm.FLOAT:
            return cls(form, arrays, (), ())
        if form is AudioForm.CODES:
            return cls(form, arrays, tuple(f"cross_{part}_scale_{i}" for part, i in parts), ())
        return cls(form, arrays, (), tuple(f"same_{part}_{i}" for part, i in parts))

    @property
    def made(self) -> frozenset[str]:
        """What the cross-attention graph gives."""
        return frozenset((*self.arrays, *self.scales))

    @property
    def read(self) -> frozenset[str]:
        """What the decoder is told of it."""
        return self.made | frozenset(IN_GROUPED if self.same else ())


@dataclass(frozen=True, slots=True)
class CrossKV:
    """Keys and values of a batch of windows.

    Attributes:
        names: what the graphs call them.
        arrays: key and value of each layer in turn, `(batch, heads, n_keys, head_size)`, float32
            or float16; or codes, uint8, whose keys come in blocks, `(batch, heads, blocks,
            head_size, AUDIO_BLOCK)`.
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
        if names.form is AudioForm.CODES:
            keys = (batch, heads, n_keys // AUDIO_BLOCK, size, AUDIO_BLOCK)
        dtype = _TYPES[names.form]
        arrays = tuple(np.empty(keys if "key" in name else values, dtype) for name in names.arrays)
        scale = (batch, 1, heads, size)
        return cls(names, arrays, tuple(np.empty(scale, np.float32) for _ in names.scales))

    @property
    def grouped(self) -> bool:
        """Whether "grouped" attention reads them, which takes many tokens of one row only."""
        return bool(self.names.same)

    @property
    def shares(self) -> bool:
        """Whether several hypotheses may read one window's."""
        return self.names.form is AudioForm.CODES

    @property
    def n_windows(self) -> int:
        return int(self.arrays[0].shape[0])

    def made(self) -> Named:
        """Outputs of the cross-attention graph."""
        pairs = zip(
            (*self.names.arrays, *self.names.scales), (*self.arrays, *self.scales), strict=True
        )
        return dict(pairs)

    def read(self) -> Named:
        """Inputs of the decoder that stay as they are for a whole text."""
        if not self.grouped:
            return self.made()
        batch, heads, n_keys, size = self.arrays[0].shape
        return self.made() | {
            "last_position": np.full(batch, n_keys - 1, np.int32),
            "n_positions": np.array([n_keys], np.int32),
            "nothing_new": np.zeros((batch, 0, heads * size), np.float16),
        }

    def same(self) -> Named:
        """Outputs of the decoder that are its inputs: given their memory, nothing is copied."""
        return dict(zip(self.names.same, self.arrays, strict=self.grouped))

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
    if cross.names.form is not AudioForm.CODES:
        return keys.transpose(0, 1, 3, 2)
    batch, n_heads, _, size, _ = keys.shape
    columns: FloatArray = (keys - SIGNLESS_ZERO).transpose(0, 1, 3, 2, 4)
    return columns.reshape(batch, n_heads, size, -1)
