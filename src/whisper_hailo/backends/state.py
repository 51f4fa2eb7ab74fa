"""The explicit state of the cached decoder: tensors that stay in the runtime's memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import onnxruntime

    Tensors = tuple[onnxruntime.OrtValue, ...]


@dataclass(frozen=True, slots=True)
class CachedState:
    """A batch of hypotheses between two decoder steps; nothing in it is ever written to.

    Attributes:
        past: key and value of each decoder layer in turn, `(batch, heads, n_tokens, head_size)`.
        cross: cross key and value of each layer in turn; see `docs/conversion.md`.
        cross_bias: `(batch, 1, 1, n_positions + 1)` float32.
        first: `(batch,)` int64 column of each row's first real token.
        audio_rows: for each row, which row of `start`'s audio features it listens to.
        n_tokens: tokens in the cache.
    """

    past: Tensors
    cross: Tensors
    cross_bias: FloatArray
    first: IntArray
    audio_rows: tuple[int, ...]
    n_tokens: int

    @property
    def batch(self) -> int:
        """Number of rows."""
        return len(self.audio_rows)


def cross_bias(
    paddings: tuple[Padding, ...], n_positions: IntArray, n_audio_ctx: int
) -> FloatArray:
    """Additive cross-attention mask: what each row may hear, and how much silence follows.

    Args:
        paddings: one policy per row.
        n_positions: `(batch,)` int64 true number of positions of each row.
        n_audio_ctx: positions of the batch, at least the largest of these.

    Returns:
        `(batch, 1, 1, n_audio_ctx + 1)` float32: 0 for real positions, -inf beyond them, and in
        the last column ln P for P zero rows, -inf for none.
    """
    columns = np.arange(n_audio_ctx + 1)
    bias = np.where(columns < n_positions[:, None], 0.0, -np.inf)
    zero_rows = [p.zero_rows(int(n)) for p, n in zip(paddings, n_positions, strict=True)]
    with np.errstate(divide="ignore"):  # ln 0 is the -inf that no padding asks for
        bias[:, -1] = np.log(np.array(zero_rows, np.float64))
    return bias.astype(np.float32)[:, None, None, :]


def select_rows(state: CachedState, rows: IntArray) -> CachedState:
    """State of the given rows, in that order, repeats allowed."""
    audio_rows = tuple(state.audio_rows[int(row)] for row in rows)
    # Beams that trade places mostly hear the same audio: its large tensors then stay put.
    same_audio = audio_rows == state.audio_rows
    return replace(
        state,
        past=tuple(take_rows(t, rows) for t in state.past),
        cross=state.cross if same_audio else tuple(take_rows(t, rows) for t in state.cross),
        cross_bias=state.cross_bias if same_audio else state.cross_bias[rows],
        first=state.first[rows],
        audio_rows=audio_rows,
    )


def rewind_tokens(state: CachedState, n_tokens: int) -> CachedState:
    """State cut back to its first `n_tokens` cached tokens."""
    past = tuple(cut_tokens(t, n_tokens) for t in state.past)
    return replace(state, past=past, n_tokens=n_tokens)


def take_rows(tensor: onnxruntime.OrtValue, rows: IntArray) -> onnxruntime.OrtValue:
    """A copy of some rows of a tensor, in that order."""
    return _tensor(np.ascontiguousarray(tensor.numpy()[rows]))


def cut_tokens(tensor: onnxruntime.OrtValue, n_tokens: int) -> onnxruntime.OrtValue:
    """A copy of the first tokens of a cache `(batch, heads, tokens, head_size)`."""
    return _tensor(np.ascontiguousarray(tensor.numpy()[:, :, :n_tokens]))


def empty_past(n_layers: int, shape: tuple[int, int, int]) -> Tensors:
    """Caches without a token: `shape` is batch, heads, head size."""
    batch, heads, size = shape
    empty = _tensor(np.zeros((batch, heads, 0, size), np.float32))
    return (empty,) * (2 * n_layers)


def _tensor(array: FloatArray) -> onnxruntime.OrtValue:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(array)
