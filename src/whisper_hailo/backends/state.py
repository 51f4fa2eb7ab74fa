"""The explicit state of the cached decoder, and the other inputs of its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import AUDIO_BLOCK, ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import onnxruntime

AnyArray: TypeAlias = NDArray[Any]
Named: TypeAlias = dict[str, AnyArray]
ItemT = TypeVar("ItemT", bound=np.generic)


def constant(array: NDArray[ItemT]) -> NDArray[ItemT]:
    """Make an array that owns its memory read-only, so that it can be shared."""
    array.flags.writeable = False
    return array


def is_constant(array: AnyArray) -> bool:
    """Return whether an array is read-only; a view of a writable one is not."""
    owner = array if array.base is None else array.base
    return isinstance(owner, np.ndarray) and not owner.flags.writeable


@dataclass(frozen=True, slots=True)
class CrossKV:
    """Keys and values of a batch of windows, which the decoder reads at every step.

    Attributes:
        arrays: outputs of the cross-attention graph by name. `cross_key_0`, `cross_value_0`,
            `cross_key_1` and so on are `(batch, heads, n_keys, head_size)` float32. In 8 bits they
            are codes, keys `(batch, heads, blocks, head_size, AUDIO_BLOCK)`, and every array has
            scales, `cross_key_scale_0` and so on, `(batch, 1, heads, head_size)` float32: what one
            step of a channel is worth.
        shares: several hypotheses may read one window's arrays, which the graph for 8 bits allows.
    """

    arrays: Named
    shares: bool

    @classmethod
    def empty(cls, spec: ModelSpec, batch: int, n_positions: int) -> CrossKV:
        """Allocate the arrays that the graph fills for a batch of windows."""
        in_codes = spec.has_int8_audio
        heads = spec.dims.n_decoder_heads
        size = spec.dims.head_size
        n_keys = n_positions + 1  # the graph adds a zero row
        values_shape: tuple[int, ...] = (batch, heads, n_keys, size)
        keys_shape = values_shape
        if in_codes:
            keys_shape = (batch, heads, n_keys // AUDIO_BLOCK, size, AUDIO_BLOCK)
        dtype = np.uint8 if in_codes else np.float32
        arrays: Named = {}
        for layer in range(spec.dims.n_decoder_layers):
            for part, shape in (("key", keys_shape), ("value", values_shape)):
                arrays[f"cross_{part}_{layer}"] = np.empty(shape, dtype)
                if in_codes:
                    scales = np.empty((batch, 1, heads, size), np.float32)
                    arrays[f"cross_{part}_scale_{layer}"] = scales
        return cls(arrays, in_codes)

    @property
    def n_windows(self) -> int:
        return len(self.arrays["cross_key_0"])

    def rows(self, rows: IntArray) -> CrossKV:
        """Return the given windows in order, as a view if they are contiguous."""
        index: slice | IntArray = rows
        if rows.size and (np.diff(rows) == 1).all():
            index = slice(int(rows[0]), int(rows[-1]) + 1)
        arrays = {name: array[index] for name, array in self.arrays.items()}
        return CrossKV(arrays, self.shares)


_FEWEST_PLACES = 64
"""A cache that begins smaller would soon be copied into a larger one."""


def cache_names(kind: str, n_layers: int) -> tuple[str, ...]:
    """Return inputs `past_key_0, past_value_0, past_key_1 ...`, or outputs `present_key_0 ...`."""
    return tuple(
        f"{kind}_{part}_{i}" for i in range(n_layers) for part in ("key", "value")
    )


def bind_in_place(io: Any, name: str, array: AnyArray) -> None:  # noqa: ANN401 - a C++ class
    """Let the runtime write an output into a contiguous array, which must outlive the run."""
    # `array.ctypes` makes objects, each time.
    address = array.__array_interface__["data"][0]
    io.bind_output(
        name,
        "cpu",
        0,
        array.dtype.type,
        array.shape,
        address,
    )


class Binding:
    """A cache bound to a session: inputs that stay, and outputs that the runtime writes in place.

    Args:
        fixed: inputs that do not change, by name.
        in_place: outputs that share memory with them.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, fixed: Named, in_place: Named
    ) -> None:
        self.session = session
        self.io = session.io_binding()
        self._in_place = in_place
        self._fixed = fixed  # alive as long as the runtime reads them
        self._inputs: Named = {}
        self._constants: Named = {}
        self._output_shapes: dict[str, tuple[int, ...]] = {}
        self._outputs: list[FloatArray] = []
        for name, array in fixed.items():
            self.io.bind_cpu_input(name, array)

    def prepare(
        self, inputs: Named, outputs: dict[str, tuple[int, ...]]
    ) -> list[FloatArray]:
        """Bind the new arrays of a step; return arrays that the run fills, until the next one.

        `outputs` are their shapes by name. An input of the same size is copied to where the last
        one was; the same constant needs nothing.
        """
        for name, array in inputs.items():
            if self._constants.get(name) is array:
                continue
            if is_constant(array):
                self._constants[name] = array
            else:
                self._constants.pop(name, None)
            bound = self._inputs.get(name)
            if bound is not None and bound.shape == array.shape:
                bound[...] = array
            else:
                bound = array.copy()
                self._inputs[name] = bound
                self.io.bind_cpu_input(name, bound)
        if self._output_shapes != outputs:  # mostly they are the same
            self._bind_outputs(outputs)
        return self._outputs

    def _bind_outputs(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self._output_shapes = shapes
        self._outputs = [np.empty(shape, np.float32) for shape in shapes.values()]
        self.io.clear_binding_outputs()
        new = dict(zip(shapes, self._outputs, strict=True))
        for name, array in (self._in_place | new).items():
            bind_in_place(self.io, name, array)


@dataclass(slots=True)
class Cache:
    """Keys and values of a batch of hypotheses.

    States that follow one another share one cache, each knowing how many of its places are its own.
    Only places that no state has filled yet, or that were given back, are written to: a state that
    continues from further back gets a copy. So what a state stands for never changes.

    Attributes:
        arrays: key and value of each layer in turn, `(batch, heads, n_places, head_size)`, with at
            most `n_text_ctx` places.
        n_filled: places that belong to some state.
    """

    arrays: tuple[FloatArray, ...]
    n_text_ctx: int
    n_filled: int = 0
    binding: Binding | None = field(default=None, repr=False)

    def bound(self, session: onnxruntime.InferenceSession, cross: CrossKV) -> Binding:
        """Bind the cache and cross K/V to a session, once."""
        if self.binding is None or self.binding.session is not session:
            n_layers = len(self.arrays) // 2
            past = dict(zip(cache_names("past", n_layers), self.arrays, strict=True))
            present = dict(
                zip(cache_names("present", n_layers), self.arrays, strict=True)
            )
            self.binding = Binding(session, past | cross.arrays, present)
        return self.binding

    def with_room(self, n_kept: int, n_new: int) -> Cache:
        """Return a cache with the first `n_kept` places of this one and `n_new` after them.

        All of them count as filled. It is this cache itself where no other state has gone on.
        """
        n_total = n_kept + n_new
        cache = self
        if self.n_filled != n_kept or self.arrays[0].shape[2] < n_total:
            n_places = min(self.n_text_ctx, max(_FEWEST_PLACES, 2 * n_total))
            cache = self._copy(range(len(self.arrays[0])), n_kept, n_places)
        cache.n_filled = n_total
        return cache

    def give_back(self, n_tokens: int, n_kept: int) -> None:
        """Free a state's places behind its first `n_kept`, unless another state follows it."""
        if self.n_filled == n_tokens:
            self.n_filled = n_kept

    def select(self, rows: IntArray, n_kept: int) -> Cache:
        """Return a copy with these rows."""
        return self._copy(rows.tolist(), n_kept, self.arrays[0].shape[2])

    def _copy(self, rows: Sequence[int], n_kept: int, n_places: int) -> Cache:
        """Copy the first places of some rows; no place behind them is ever read."""
        copies = []
        for array in self.arrays:
            _, heads, _, size = array.shape
            copied = np.empty((len(rows), heads, n_places, size), np.float32)
            for index, row in enumerate(rows):
                copied[index, :, :n_kept] = array[row, :, :n_kept]
            copies.append(copied)
        return Cache(tuple(copies), self.n_text_ctx, n_kept)


@dataclass(frozen=True, slots=True)
class CachedState:
    """A batch of hypotheses between two decoder steps; what it stands for never changes.

    Attributes:
        cache: keys and values, of which the first `n_tokens` places are this state's.
        cross: keys and values of the audio, one for each row, or for each group of rows that share
            a window; all groups are of one size.
        cross_bias: `(windows, 1, 1, n_keys)` float32, see `cross_bias`.
        first: `(batch,)` int64 column of each row's first real token.
        audio_rows: for each row, the row of `start`'s audio features that it belongs to.
        n_audio_ctx: positions of the audio; keys behind them stand for silence.
    """

    cache: Cache
    cross: CrossKV
    cross_bias: FloatArray
    first: IntArray
    audio_rows: tuple[int, ...]
    n_audio_ctx: int
    n_tokens: int

    @property
    def batch(self) -> int:
        return len(self.audio_rows)

    @property
    def rows_per_window(self) -> int:
        """Number of hypotheses that share the keys and values of one window."""
        if self.batch == 0:
            return 1
        return self.batch // self.cross.n_windows


class StepInputs:
    """Inputs of a decoder step besides caches and audio.

    A column is a place in the cache. Rows with shorter prompts begin at column `first`; columns
    before it are padding. A padding query may look at padding, so that softmax never sees only
    -inf; no real query looks at padding. The graph itself hides later columns.

    The usual step, one token of one row, is put together from tables: the weights have just been
    read through the processor's cache, so every further NumPy function costs more than it computes.
    """

    def __init__(self, n_text_ctx: int) -> None:
        self._positions = np.arange(n_text_ctx + 1)[np.newaxis]
        self._counts = np.arange(n_text_ctx + 1, dtype=np.int32)
        self._unbiased = constant(np.zeros((1, 1, 1, n_text_ctx), np.float32))

    def make(self, tokens: IntArray, state: CachedState) -> dict[str, AnyArray]:
        """Return inputs by name for tokens `(batch, n_new)` and the state after them."""
        n_columns = state.n_tokens
        if tokens.shape != (1, 1) or state.first.item():
            return _general_inputs(tokens, state)
        return {
            "tokens": tokens,
            "text_positions": self._positions[:, n_columns - 1 : n_columns],
            "self_bias": self._unbiased,
            "cross_bias": state.cross_bias,
            "last_column": self._counts[n_columns - 1 : n_columns],
            "n_columns": self._counts[n_columns : n_columns + 1],
        }


def _general_inputs(tokens: IntArray, state: CachedState) -> dict[str, AnyArray]:
    """Return the inputs of any step; see `StepInputs`."""
    batch, n_new = tokens.shape
    n_columns = state.n_tokens
    first = state.first
    queries = np.arange(n_columns - n_new, n_columns)
    self_bias = np.zeros((batch, 1, n_new, n_columns), np.float32)
    if first.any():
        first_columns = first[:, np.newaxis, np.newaxis, np.newaxis]
        is_padding = np.arange(n_columns) < first_columns
        is_real_query = queries[:, np.newaxis] >= first_columns
        self_bias[is_padding & is_real_query] = -np.inf
    bias = state.cross_bias
    if n_new > 1 and not state.cross.shares:
        bias = bias.repeat(n_new, axis=2)
    return {
        "tokens": tokens,
        "text_positions": np.maximum(queries - first[:, np.newaxis], 0),
        "self_bias": self_bias,
        "cross_bias": bias,
        "last_column": np.full(batch, n_columns - 1, np.int32),
        "n_columns": np.array([n_columns], np.int32),
    }


def cross_bias(
    paddings: tuple[Padding, ...],
    n_positions: IntArray,
    n_audio_ctx: int,
    n_zero: int = 1,
) -> FloatArray:
    """Return the cross-attention mask: the audio of each row, and how much silence follows it.

    It is `(batch, 1, 1, n_audio_ctx + n_keys + n_zero)` float32, read-only: 0 for the `n_positions`
    `(batch,)` real positions of each row, -inf beyond them. For P positions added, the silence
    keys, the same in all `paddings`, have ln P plus their log share and the zero rows -inf; without
    silence keys, the zero rows have ln P between them.
    """
    audio = np.where(np.arange(n_audio_ctx) < n_positions[:, None], 0.0, -np.inf)
    n_added = [
        padding.n_added(int(n))
        for padding, n in zip(paddings, n_positions, strict=True)
    ]
    with np.errstate(divide="ignore"):  # no padding is ln 0, -inf
        level = np.log(np.array(n_added, np.float64))[:, None]
    zero_rows = np.zeros((len(paddings), n_zero))
    silence = paddings[0].silence
    if silence is None:
        parts = [audio, zero_rows + level - np.log(n_zero)]
    else:
        parts = [audio, level + silence.log_shares, zero_rows - np.inf]
    bias = np.concatenate(parts, axis=1)
    return constant(bias.astype(np.float32))[:, None, None, :]


def shared_windows(audio_rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return each window once if all have equally many rows, next to each other; else as given."""
    windows = []
    counts = set()
    for window, rows in groupby(audio_rows):
        windows.append(window)
        counts.add(len(list(rows)))
    if len(counts) > 1:
        return audio_rows
    return tuple(windows)
